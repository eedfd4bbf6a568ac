// Element types, shapes, and what errors say of them.
#include "posenc/tensor.hpp"

#include <algorithm>
#include <array>

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

struct Kind {
  DType dtype;
  std::string_view name;
};

constexpr std::array<Kind, 7> kinds{{
    {DType::float32, "float32"},
    {DType::float16, "float16"},
    {DType::bfloat16, "bfloat16"},
    {DType::float64, "float64"},
    {DType::int64, "int64"},
    {DType::int32, "int32"},
    {DType::boolean, "bool"},
}};

}  // namespace

std::string_view name_of(DType dtype) noexcept { return kinds[static_cast<std::size_t>(dtype)].name; }

bool find_dtype(std::string_view name, DType& dtype) noexcept {
  const auto* kind = std::find_if(kinds.begin(), kinds.end(), [=](const Kind& one) { return one.name == name; });
  if (kind == kinds.end()) return false;
  dtype = kind->dtype;
  return true;
}

void add_port(std::vector<Port>& ports, const char* name, DType dtype, std::initializer_list<AxisText> axes,
              std::int64_t end, const char* follows, const char* may_replace,
              std::initializer_list<std::int64_t> ends) {
  auto& port = ports.emplace_back();
  port.name = name;
  port.dtype = dtype;
  for (const auto& axis : axes) {
    auto& added = port.axes.emplace_back();
    added.name = axis.name;
    added.size = axis.size;
    added.most = axis.most;
  }
  port.limit.end = end;
  port.limit.follows = follows;
  port.limit.ends = ends;
  port.may_replace = may_replace;
}

void limit_start(std::vector<Port>& ports, const char* follows, const char* among) {
  ports.back().limit.follows = follows;
  ports.back().limit.among = among;
}

void limit_numbers(std::vector<Port>& ports, double least, double most) {
  ports.back().limit.least = least;
  ports.back().limit.most = most;
}

std::string describe(const Port& port) {
  std::string axes;
  for (const auto& axis : port.axes) {
    axes += (axes.empty() ? "" : ", ") + (axis.name.empty() ? std::to_string(axis.size) : axis.name);
  }
  return port.name + ": " + std::string(name_of(port.dtype)) + "[" + axes + "]";
}

std::string describe(Span<const std::int64_t> shape) {
  std::string text;
  for (const auto size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "(" + text + ")";
}

}  // namespace POSENC_VERSION
}  // namespace posenc
