/// @file
/// Tensors: element types, what the inputs and outputs of a graph are, views of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "posenc/error.hpp"
#include "posenc/span.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

enum class DType { float32, float16, bfloat16, float64, int64, int32, boolean };

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept {
  constexpr std::size_t bytes[] = {4, 2, 2, 8, 8, 4, 1};
  return bytes[static_cast<std::size_t>(dtype)];
}
/// The name that a manifest has for a dtype.
POSENC_API std::string_view name_of(DType dtype) noexcept;
/// The dtype of a name; false where there is none.
POSENC_API bool find_dtype(std::string_view name, DType& dtype) noexcept;

/// One axis of a port: dynamic where it has a name, else of a fixed size.
struct Axis {
  std::string name;
  std::int64_t size = 0;
  std::int64_t most = 0;  ///< the longest that a dynamic one may be; 0 where nothing is known
};

/// What integers of an input may be: 0 to end - 1, if end is not 0. Where they are starts, from each of which as many
/// positions count as an axis is long, the last of those must be below the end, and below the size of the axis `among`.
/// What floats may be: least to most, if those are not alike; NaN never.
struct Limit {
  std::int64_t end = 0;
  std::string follows;             ///< that axis
  std::vector<std::int64_t> ends;  ///< of those along the first axis each its own, if they do not all have that
  std::string among;               ///< the axis of keys, of which every position must be one
  double least = 0;
  double most = 0;
};

/// One input or output of a graph.
struct Port {
  std::string name;
  DType dtype;
  std::vector<Axis> axes;
  Limit limit = {};
  std::string may_replace = {};  ///< the input in whose memory, exactly, an output may be written
  bool unread = false;           ///< of an input: the graph reads its sizes alone, and a view may have no memory
};

/// An axis as literals.
struct AxisText {
  const char* name;
  std::int64_t size;
  std::int64_t most;
};
/// Add a port that is written as literals: an end of 0 and empty texts are what a port has by itself.
POSENC_API void add_port(std::vector<Port>& ports, const char* name, DType dtype, std::initializer_list<AxisText> axes,
                         std::int64_t end = 0, const char* follows = "", const char* may_replace = "",
                         std::initializer_list<std::int64_t> ends = {});

/// Limit the starts of the port added last: as many positions as the axis `follows` is long, of keys along `among`.
POSENC_API void limit_start(std::vector<Port>& ports, const char* follows, const char* among);
/// Limit the floats of the port added last.
POSENC_API void limit_numbers(std::vector<Port>& ports, double least, double most);

/// Contiguous memory of somebody else, row by row.
struct View {
  DType dtype;
  Span<const std::int64_t> shape;
  void* data;
  std::size_t size;  ///< elements that are there
};

/// A tensor that owns its memory.
struct Array {
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;
};

/// A half or a bfloat16 as its bits: C++17 has no type for either.
struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

template <class T>
constexpr DType dtype_v = T::has_no_dtype;  // does not compile: no tensor has elements of this type
template <>
inline constexpr DType dtype_v<float> = DType::float32;
template <>
inline constexpr DType dtype_v<Half> = DType::float16;
template <>
inline constexpr DType dtype_v<BFloat16> = DType::bfloat16;
template <>
inline constexpr DType dtype_v<double> = DType::float64;
template <>
inline constexpr DType dtype_v<std::int64_t> = DType::int64;
template <>
inline constexpr DType dtype_v<std::int32_t> = DType::int32;
template <>
inline constexpr DType dtype_v<bool> = DType::boolean;

/// Call with a value of the C++ type that holds a dtype.
template <class Call>
auto visit(DType dtype, Call&& call) {
  switch (dtype) {
    case DType::float16: return call(Half{});
    case DType::bfloat16: return call(BFloat16{});
    case DType::float64: return call(double{});
    case DType::int64: return call(std::int64_t{});
    case DType::int32: return call(std::int32_t{});
    case DType::boolean: return call(bool{});
    case DType::float32: break;
  }
  return call(float{});
}

/// The elements that lie in bytes.
template <class T, class Buffer>
Span<T> elements(Buffer& bytes) {
  using Raw = std::conditional_t<std::is_const_v<T>, const void*, void*>;
  return {static_cast<T*>(static_cast<Raw>(bytes.data())), bytes.size() / sizeof(T)};
}

/// The number of elements of a shape; 0 where a size is negative, or they are more than memory has room for.
inline std::size_t count(Span<const std::int64_t> shape) noexcept {
  constexpr std::size_t most = std::numeric_limits<std::int64_t>::max() / 8;  // elements of eight bytes
  std::size_t total = 1;
  for (const auto size : shape) {
    const auto factor = static_cast<std::size_t>(size);
    if (size < 0) return 0;
    const bool small = ((total | factor) >> 31) == 0;  // a division takes longer than all else here
    if (!small && factor > 0 && total > most / factor) return 0;
    total *= factor;
  }
  return total > most ? 0 : total;
}

/// View a span as a tensor of a shape, which must outlive the view. Inputs are only read.
template <class T>
View view(Span<T> data, Span<const std::int64_t> shape) noexcept {
  using Element = std::remove_const_t<T>;
  return {dtype_v<Element>, shape, const_cast<Element*>(data.data()), data.size()};
}

/// View an array.
inline View view(Array& array) noexcept {
  return {array.dtype, array.shape, array.data.data(), array.data.size() / size_of(array.dtype)};
}

/// "x: float32[batch, seq, 512]"
POSENC_API std::string describe(const Port& port);
/// "(2, 3, 8)"
POSENC_API std::string describe(Span<const std::int64_t> shape);

}  // namespace POSENC_VERSION
}  // namespace posenc
