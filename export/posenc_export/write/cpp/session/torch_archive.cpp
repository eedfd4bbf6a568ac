#include "torch_archive.hpp"

#include <caffe2/serialize/in_memory_adapter.h>

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

constexpr std::size_t most_bytes = 1 << 16;

}  // namespace

std::shared_ptr<caffe2::serialize::ReadAdapterInterface> readable(const Bytes& archive) {
  return std::make_shared<caffe2::serialize::MemoryReadAdapter>(archive.data(), static_cast<off_t>(archive.size()));
}

std::string Archive::text(const std::string& record) {
  if (!reader_.hasRecord(record) || reader_.getRecordSize(record) > most_bytes) return "";
  const auto [data, size] = reader_.getRecord(record);
  return {static_cast<const char*>(data.get()), size};
}

Status check_identity(Archive& archive, const std::string& graph, Span<const Fact> made_for) {
  return check_identity(graph, made_for, [&](const std::string& name, std::string& text) {
    text = archive.text("extra/posenc." + name);
    return Status();
  });
}

}  // namespace POSENC_VERSION
}  // namespace posenc
