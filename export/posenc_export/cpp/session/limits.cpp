#include "limits.hpp"

#include <algorithm>

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

/// Parts of an input that have ends of their own: all of it is one, or what lies at each place of its first axis.
std::size_t parts_of(const Port& port) noexcept { return std::max<std::size_t>(port.limit.ends.size(), 1); }

/// Where the integers of a part themselves end.
std::int64_t end_of(const Port& port, std::size_t part, std::int64_t counted) noexcept {
  const auto end = port.limit.ends.empty() ? port.limit.end : port.limit.ends[part];
  return std::max<std::int64_t>(end - std::max<std::int64_t>(counted, 1) + 1, 0);
}

template <class T>
Span<const T> values_of(const View& view, std::size_t part, std::size_t parts) noexcept {
  const auto size = view.size / parts;
  return {static_cast<const T*>(view.data) + part * size, size};
}

/// Whether none is below 0 or at least `end`. No branch: a compiler makes vectors of it.
template <class T>
bool all_within(Span<const T> values, std::int64_t end) noexcept {
  bool within = true;
  for (const auto value : values) within &= static_cast<std::uint64_t>(value) < static_cast<std::uint64_t>(end);
  return within;
}

template <class T>
bool each_within(const Port& port, const View& view, std::int64_t counted) noexcept {
  const auto parts = parts_of(port);
  bool within = true;
  for (std::size_t part = 0; part < parts; ++part) {
    within &= all_within(values_of<T>(view, part, parts), end_of(port, part, counted));
  }
  return within;
}

/// The first that is out of range: where it is, what it is, and the end of its part.
struct Outside {
  std::size_t index;
  std::int64_t value;
  std::int64_t end;
};

template <class T>
Outside first_outside(const Port& port, const View& view, std::int64_t counted) {
  const auto parts = parts_of(port);
  for (std::size_t part = 0; part < parts; ++part) {
    const auto values = values_of<T>(view, part, parts);
    const auto end = end_of(port, part, counted);
    const auto* at = std::find_if(values.begin(), values.end(), [=](T value) { return value < 0 || value >= end; });
    const auto index = static_cast<std::size_t>(at - values.begin());
    if (at != values.end()) return {part * values.size() + index, *at, end};
  }
  return {view.size, 0, end_of(port, parts - 1, counted)};
}

/// " at [1, 5]", or nothing where there is one element.
std::string place_of(std::size_t index, const View& view) {
  if (view.size == 1) return {};
  std::string text;
  for (std::size_t i = view.shape.size(); i-- > 0;) {
    const auto size = static_cast<std::size_t>(view.shape[i]);
    text = std::to_string(index % size) + (text.empty() ? "" : ", ") + text;
    index /= size;
  }
  return " at [" + text + "]";
}

}  // namespace

bool keeps_limit(const Port& port, const View& view, std::int64_t counted) noexcept {
  if (view.dtype == DType::int64) return each_within<std::int64_t>(port, view, counted);
  return view.dtype != DType::int32 || each_within<std::int32_t>(port, view, counted);
}

Status explain_limit(const Port& port, const View& view, std::int64_t counted) {
  const auto found = view.dtype == DType::int64 ? first_outside<std::int64_t>(port, view, counted)
                                                : first_outside<std::int32_t>(port, view, counted);
  std::string text = "'" + port.name + "' is " + std::to_string(found.value) + place_of(found.index, view);
  text += ", out of range: expected " + (found.end == 0 ? "fewer positions" : "0 to " + std::to_string(found.end - 1));
  if (counted > 1) {
    text += ", since " + std::to_string(counted) + " positions count from it, below " + std::to_string(port.limit.end);
  }
  return {ErrorKind::out_of_range, std::move(text)};
}

}  // namespace POSENC_VERSION
}  // namespace posenc
