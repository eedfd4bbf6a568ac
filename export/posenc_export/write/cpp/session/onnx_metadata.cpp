// What an ONNX file says of its graph, held against what is meant.
#include "identity.hpp"
#include "onnx_api.hpp"

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

Status taken(OrtStatus* status) { return taken(status, ErrorKind::bad_file); }

Status look_up(const OrtModelMetadata& metadata, const std::string& name, std::string& text) {
  OrtAllocator* allocator = nullptr;
  auto status = taken(api().GetAllocatorWithDefaultOptions(&allocator));
  char* value = nullptr;
  if (status.ok()) {
    status = taken(api().ModelMetadataLookupCustomMetadataMap(&metadata, allocator, ("posenc." + name).c_str(), &value));
  }
  if (!status.ok() || value == nullptr) return status;
  return take_text(allocator, value, text);
}

}  // namespace

Status check_identity(const OrtSession& session, const std::string& graph, Span<const Fact> made_for) {
  Owned<OrtModelMetadata> metadata;
  auto status = made(metadata, ErrorKind::bad_file, [&](auto** place) { return api().SessionGetModelMetadata(&session, place); });
  if (!status.ok()) return status;
  return check_identity(graph, made_for, [&](const std::string& name, std::string& text) {
    return look_up(*metadata, name, text);
  });
}

}  // namespace POSENC_VERSION
}  // namespace posenc
