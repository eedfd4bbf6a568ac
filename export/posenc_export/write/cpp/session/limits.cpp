#include "limits.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <locale>
#include <sstream>

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

/// Parts of an input that have ends of their own: all of it is one, or what lies at each place of its first axis.
std::size_t parts_of(const Port& port) noexcept { return std::max<std::size_t>(port.limit.ends.size(), 1); }

/// Where positions of a part end by their table.
std::int64_t table_end(const Port& port, std::size_t part) noexcept {
  const auto end = port.limit.ends.empty() ? port.limit.end : port.limit.ends[part];
  return end == 0 ? std::numeric_limits<std::int64_t>::max() : end;
}

/// Where the integers of a part themselves end: the last position from each is in the table, and among the keys.
std::int64_t end_of(const Port& port, std::size_t part, const Counts& counts) noexcept {
  const auto of_table = table_end(port, part) - std::max<std::int64_t>(counts.positions, 1) + 1;
  const auto of_keys = counts.keys < 0 ? of_table : counts.keys - counts.positions + 1;
  return std::max<std::int64_t>(std::min(of_table, of_keys), 0);
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
bool each_within(const Port& port, const View& view, const Counts& counts) noexcept {
  const auto parts = parts_of(port);
  bool within = true;
  for (std::size_t part = 0; part < parts; ++part) {
    within &= all_within(values_of<T>(view, part, parts), end_of(port, part, counts));
  }
  return within;
}

/// The first that is out of range: where it is, what it is, and the end of its part.
struct Outside {
  std::size_t index;
  std::int64_t value;
  std::int64_t end;
  std::size_t part;
};

template <class T>
Outside first_outside(const Port& port, const View& view, const Counts& counts) {
  const auto parts = parts_of(port);
  for (std::size_t part = 0; part < parts; ++part) {
    const auto values = values_of<T>(view, part, parts);
    const auto end = end_of(port, part, counts);
    const auto* at = std::find_if(values.begin(), values.end(), [=](T value) { return value < 0 || value >= end; });
    const auto index = static_cast<std::size_t>(at - values.begin());
    if (at != values.end()) return {part * values.size() + index, *at, end, part};
  }
  return {view.size, 0, end_of(port, parts - 1, counts), parts - 1};
}

float from_bits(std::uint32_t bits) noexcept {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

double number(float value) noexcept { return value; }
double number(double value) noexcept { return value; }
double number(BFloat16 value) noexcept { return from_bits(std::uint32_t{value.bits} << 16); }
double number(Half value) noexcept {
  // The exponent of a half counts from another number than that of a float: 2^112 makes that good, of the smallest too.
  const auto finite = from_bits((value.bits & 0x7fffU) << 13) * 0x1p112F;
  const auto size = (value.bits & 0x7c00U) == 0x7c00U ? from_bits(0x7f800000U | (value.bits & 0x3ffU)) : finite;
  return (value.bits & 0x8000U) != 0 ? -size : size;
}

template <class T>
bool in_range(T value, const Limit& limit) noexcept {
  const auto given = number(value);
  return (given >= limit.least) & (given <= limit.most);  // of NaN neither is true
}

/// Whether each is in the range. No branch: a compiler makes vectors of it.
template <class T>
bool numbers_within(const View& view, const Limit& limit) noexcept {
  bool within = true;
  for (const auto value : values_of<T>(view, 0, 1)) within &= in_range(value, limit);
  return within;
}

bool is_float(DType dtype) noexcept { return dtype < DType::int64; }

/// A number in as few digits, six or more, as tell it from any other float, or double, whatever the locale.
std::string written(double value, bool as_float) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text;
  for (int digits = 6; digits <= std::numeric_limits<double>::max_digits10; ++digits) {
    std::stringstream stream;
    stream.imbue(std::locale::classic());
    stream.precision(digits);
    stream << value;
    text = stream.str();
    double read = 0;
    stream >> read;
    if (as_float ? static_cast<float>(read) == static_cast<float>(value) : read == value) break;
  }
  return text;
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

template <class T>
Status explain_number(const Port& port, const View& view) {
  const auto& limit = port.limit;
  const auto values = values_of<T>(view, 0, 1);
  const auto* at = std::find_if(values.begin(), values.end(), [&](T value) { return !in_range(value, limit); });
  if (at == values.end()) return {};  // another thread has changed it since
  const auto place = place_of(static_cast<std::size_t>(at - values.begin()), view);
  return {ErrorKind::out_of_range, "'" + port.name + "' is " + written(number(*at), port.dtype != DType::float64) +
                                       place + ", out of range: expected " + written(limit.least, false) + " to " +
                                       written(limit.most, false)};
}

/// Why positions end where they do, where that does not follow from the range.
std::string reason(const Port& port, const Outside& found, const Counts& counts) {
  const auto end = table_end(port, found.part);
  const bool of_keys = counts.keys >= 0 && counts.keys <= end;
  const auto below = of_keys ? "among the " + std::to_string(counts.keys) + " of axis '" + port.limit.among + "'"
                             : "below " + std::to_string(end);
  if (counts.positions > 1) return ", since " + std::to_string(counts.positions) + " positions count from it, " + below;
  return of_keys ? ", " + below : "";
}

}  // namespace

bool has_limit(const Port& port) noexcept {
  if (is_float(port.dtype)) return port.limit.least < port.limit.most;
  return port.limit.end != 0 || !port.limit.among.empty();
}

bool keeps_limit(const Port& port, const View& view, const Counts& counts) noexcept {
  switch (view.dtype) {
    case DType::float32: return numbers_within<float>(view, port.limit);
    case DType::float16: return numbers_within<Half>(view, port.limit);
    case DType::bfloat16: return numbers_within<BFloat16>(view, port.limit);
    case DType::float64: return numbers_within<double>(view, port.limit);
    case DType::int64: return each_within<std::int64_t>(port, view, counts);
    case DType::int32: return each_within<std::int32_t>(port, view, counts);
    case DType::boolean: break;
  }
  return true;
}

Status explain_limit(const Port& port, const View& view, const Counts& counts) {
  switch (view.dtype) {
    case DType::float32: return explain_number<float>(port, view);
    case DType::float16: return explain_number<Half>(port, view);
    case DType::bfloat16: return explain_number<BFloat16>(port, view);
    case DType::float64: return explain_number<double>(port, view);
    default: break;
  }
  const auto found = view.dtype == DType::int64 ? first_outside<std::int64_t>(port, view, counts)
                                                : first_outside<std::int32_t>(port, view, counts);
  std::string text = "'" + port.name + "' is " + std::to_string(found.value) + place_of(found.index, view);
  text += ", out of range: expected " + (found.end == 0 ? "fewer positions" : "0 to " + std::to_string(found.end - 1));
  return {ErrorKind::out_of_range, std::move(text) + reason(port, found, counts)};
}

}  // namespace POSENC_VERSION
}  // namespace posenc
