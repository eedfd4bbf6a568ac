#include "session.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace posenc {
namespace {

struct Kind {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<Kind, 7> kinds{{
    {DType::float32, "float32", 4},
    {DType::float16, "float16", 2},
    {DType::bfloat16, "bfloat16", 2},
    {DType::float64, "float64", 8},
    {DType::int64, "int64", 8},
    {DType::int32, "int32", 4},
    {DType::boolean, "bool", 1},
}};

const Kind& kind_of(DType dtype) {
  return *std::find_if(kinds.begin(), kinds.end(), [=](const Kind& kind) { return kind.dtype == dtype; });
}

std::string joined(std::span<const std::int64_t> shape) {
  std::string text;
  for (const auto size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "(" + text + ")";
}

std::string trimmed(std::string_view line) {
  const auto first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return std::string(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
}

}  // namespace

std::size_t size_of(DType dtype) { return kind_of(dtype).bytes; }

std::string_view name_of(DType dtype) { return kind_of(dtype).name; }

DType dtype_of(std::string_view name) {
  const auto* kind = std::find_if(kinds.begin(), kinds.end(), [=](const Kind& one) { return one.name == name; });
  if (kind == kinds.end()) throw Error("unknown dtype '" + std::string(name) + "'");
  return kind->dtype;
}

std::size_t count(std::span<const std::int64_t> shape) {
  constexpr std::size_t most = std::numeric_limits<std::int64_t>::max() / 8;  // elements of eight bytes
  std::size_t total = 1;
  for (const auto size : shape) {
    const auto factor = static_cast<std::size_t>(size);
    if (size < 0 || (factor > 0 && total > most / factor)) {
      throw Error("there is no tensor of shape " + joined(shape) + ": a size is negative, or they are too many");
    }
    total *= factor;
  }
  return total;
}

void expect_size(std::string_view name, std::size_t size, std::span<const std::int64_t> shape) {
  if (size == count(shape)) return;
  throw Error("'" + std::string(name) + "' has " + std::to_string(size) + " elements, expected those of shape " +
              joined(shape));
}

std::string one_line(std::string_view text) {
  const bool script = text.find("TorchScript interpreter") != std::string_view::npos;
  std::string chosen;
  while (!text.empty() && (chosen.empty() || script)) {
    const auto end = text.find('\n');
    const auto line = trimmed(text.substr(0, end));
    if (!line.empty()) chosen = line;
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return chosen.empty() ? "unknown error" : chosen;
}

std::string describe(const Port& port) {
  std::string axes;
  for (const auto& axis : port.axes) {
    axes += (axes.empty() ? "" : ", ") + (axis.name.empty() ? std::to_string(axis.size) : axis.name);
  }
  return port.name + ": " + std::string(name_of(port.dtype)) + "[" + axes + "]";
}

void Checker::check(std::span<const Port> ports, std::span<const View> views, std::string_view kind) {
  if (ports.size() != views.size()) {
    throw Error("got " + std::to_string(views.size()) + " " + std::string(kind) + "s, expected " +
                std::to_string(ports.size()));
  }
  for (std::size_t i = 0; i < ports.size(); ++i) check(ports[i], views[i], kind);
}

void Checker::check(const Port& port, const View& view, std::string_view kind) {
  const auto what = [&] { return std::string(kind) + " '" + port.name + "' "; };
  const auto expected = [&] { return ": expected " + describe(port); };
  if (view.dtype != port.dtype) throw Error(what() + "is " + std::string(name_of(view.dtype)) + expected());
  const auto wrong_shape = [&] { return Error(what() + "has shape " + joined(view.shape) + expected()); };
  if (view.shape.size() != port.axes.size()) throw wrong_shape();
  for (std::size_t i = 0; i < port.axes.size(); ++i) {
    const auto& axis = port.axes[i];
    const auto size = view.shape[i];
    if (size < 0 || (axis.name.empty() && size != axis.size)) throw wrong_shape();
    if (axis.name.empty()) continue;
    const auto seen = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& s) { return s.axis == axis.name; });
    if (seen == seen_.end()) {
      seen_.push_back({axis.name, size, port.name});
    } else if (seen->size != size) {
      throw Error("axis '" + axis.name + "' is " + std::to_string(seen->size) + " in '" + std::string(seen->port) +
                  "' and " + std::to_string(size) + " in '" + port.name + "': expected one size");
    }
  }
}

}  // namespace posenc
