// What a loaded ONNX graph takes and gives, held against what the ports say.
#include <utility>

#include "onnx_api.hpp"

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

/// The functions of the API that say what the inputs are, or the outputs.
struct Side {
  const char* kind;
  OrtStatus* (ORT_API_CALL* count)(const OrtSession*, std::size_t*) noexcept;
  OrtStatus* (ORT_API_CALL* name)(const OrtSession*, std::size_t, OrtAllocator*, char**) noexcept;
  OrtStatus* (ORT_API_CALL* type)(const OrtSession*, std::size_t, OrtTypeInfo**) noexcept;
};

Status other_graph(std::string text) { return {ErrorKind::bad_file, std::move(text)}; }
Status taken(OrtStatus* status) { return taken(status, ErrorKind::bad_file); }

Status names_of(const OrtSession& session, const Side& side, std::vector<std::string>& names) {
  OrtAllocator* allocator = nullptr;
  auto status = taken(api().GetAllocatorWithDefaultOptions(&allocator));
  std::size_t count = 0;
  if (status.ok()) status = taken(side.count(&session, &count));
  for (std::size_t i = 0; status.ok() && i < count; ++i) {
    char* name = nullptr;
    auto& copy = names.emplace_back();
    status = taken(side.name(&session, i, allocator, &name));
    if (status.ok()) status = take_text(allocator, name, copy);
  }
  return status;
}

Status check_names(const Side& side, const std::vector<std::string>& names, const std::vector<Port>& ports) {
  bool same = ports.size() == names.size();
  for (std::size_t i = 0; same && i < names.size(); ++i) same = names[i] == ports[i].name;
  if (same) return {};
  std::string actual;
  for (const auto& name : names) actual += (actual.empty() ? "" : ", ") + name;
  std::string wanted;
  for (const auto& port : ports) wanted += (wanted.empty() ? "" : ", ") + port.name;
  return other_graph("the graph's " + std::string(side.kind) + "s are " + actual + ": expected " + wanted);
}

/// Whether sizes of a graph, -1 where they are dynamic, are those of a port.
bool fits(const std::vector<std::int64_t>& sizes, const Port& port) {
  if (sizes.size() != port.axes.size()) return false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto& axis = port.axes[i];
    const bool same = axis.name.empty() ? sizes[i] < 0 || sizes[i] == axis.size : sizes[i] < 0;
    if (!same) return false;
  }
  return true;
}

Status type_of(const OrtSession& session, const Side& side, std::size_t index, ONNXTensorElementDataType& type,
               std::vector<std::int64_t>& sizes) {
  Owned<OrtTypeInfo> info;
  auto status = made(info, ErrorKind::bad_file, [&](auto** place) { return side.type(&session, index, place); });
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  if (status.ok()) status = taken(api().CastTypeInfoToTensorInfo(info.get(), &tensor));
  if (!status.ok()) return status;
  if (tensor == nullptr) return other_graph("the graph has an " + std::string(side.kind) + " that is no tensor");
  std::size_t rank = 0;
  status = taken(api().GetTensorElementType(tensor, &type));
  if (status.ok()) status = taken(api().GetDimensionsCount(tensor, &rank));
  sizes.resize(rank);
  return status.ok() ? taken(api().GetDimensions(tensor, sizes.data(), rank)) : status;
}

Status check_type(const OrtSession& session, const Side& side, std::size_t index, const Port& port) {
  auto type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  std::vector<std::int64_t> sizes;
  auto status = type_of(session, side, index, type, sizes);
  if (!status.ok()) return status;
  const auto what = "the graph's " + std::string(side.kind) + " '" + port.name + "' ";
  if (type != element(port.dtype)) {
    auto dtype = DType::float32;
    const auto name = find_dtype(type, dtype) ? std::string(name_of(dtype)) : "of element type " + std::to_string(type);
    return other_graph(what + "is " + name + ": expected " + describe(port));
  }
  if (fits(sizes, port)) return {};
  return other_graph(what + "has shape " + describe(sizes) + ", -1 where it is dynamic: expected " + describe(port));
}

Status check_side(const OrtSession& session, const Side& side, const std::vector<Port>& ports) {
  std::vector<std::string> names;
  auto status = names_of(session, side, names);
  if (status.ok()) status = check_names(side, names, ports);
  for (std::size_t i = 0; status.ok() && i < ports.size(); ++i) status = check_type(session, side, i, ports[i]);
  return status;
}

}  // namespace

Status check_graph(const OrtSession& session, const std::vector<Port>& inputs, const std::vector<Port>& outputs) {
  const auto& of = api();
  const Side in{"input", of.SessionGetInputCount, of.SessionGetInputName, of.SessionGetInputTypeInfo};
  const Side out{"output", of.SessionGetOutputCount, of.SessionGetOutputName, of.SessionGetOutputTypeInfo};
  auto status = check_side(session, in, inputs);
  return status.ok() ? check_side(session, out, outputs) : status;
}

}  // namespace POSENC_VERSION
}  // namespace posenc
