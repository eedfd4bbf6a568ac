#include "limits.hpp"

#include <algorithm>

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

/// Where the integers themselves end.
std::int64_t end_of(const Port& port, std::int64_t counted) noexcept {
  return std::max<std::int64_t>(port.limit.end - std::max<std::int64_t>(counted, 1) + 1, 0);
}

/// Whether none is below 0 or at least `end`. No branch: a compiler makes vectors of it.
template <class T>
bool all_within(const View& view, std::int64_t end) noexcept {
  bool within = true;
  for (const auto value : Span<const T>(static_cast<const T*>(view.data), view.size)) {
    within &= static_cast<std::uint64_t>(value) < static_cast<std::uint64_t>(end);
  }
  return within;
}

template <class T>
std::size_t first_outside(const View& view, std::int64_t end, std::int64_t& found) {
  const Span<const T> values(static_cast<const T*>(view.data), view.size);
  const auto* at = std::find_if(values.begin(), values.end(), [=](T value) { return value < 0 || value >= end; });
  found = at == values.end() ? 0 : *at;
  return static_cast<std::size_t>(at - values.begin());
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
  const auto end = end_of(port, counted);
  if (view.dtype == DType::int64) return all_within<std::int64_t>(view, end);
  return view.dtype != DType::int32 || all_within<std::int32_t>(view, end);
}

Status explain_limit(const Port& port, const View& view, std::int64_t counted) {
  const auto end = end_of(port, counted);
  std::int64_t value = 0;
  const auto index = view.dtype == DType::int64 ? first_outside<std::int64_t>(view, end, value)
                                                : first_outside<std::int32_t>(view, end, value);
  std::string text = "'" + port.name + "' is " + std::to_string(value) + place_of(index, view) + ", out of range: expected ";
  text += end == 0 ? "fewer positions" : "0 to " + std::to_string(end - 1);
  if (counted > 1) {
    text += ", since " + std::to_string(counted) + " positions count from it, below " + std::to_string(port.limit.end);
  }
  return {ErrorKind::out_of_range, std::move(text)};
}

}  // namespace POSENC_VERSION
}  // namespace posenc
