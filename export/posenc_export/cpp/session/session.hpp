// A loaded graph: views of tensors in, views of tensors out. One of session_onnx.cpp (ONNX Runtime) and
// session_torch.cpp (libtorch) implements it; session.cpp holds what both share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace posenc {

/// What went wrong, in one line.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class DType { float32, float16, bfloat16, float64, int64, int32, boolean };
enum class Device { cpu, cuda };
/// Where the tensors of a call lie: in the memory of the host, or in that of the graph's own device.
enum class Memory { host, device };

/// Bytes of one element.
std::size_t size_of(DType dtype);
/// The name that a manifest has for a dtype; Error for a name that is none.
std::string_view name_of(DType dtype);
DType dtype_of(std::string_view name);

/// One axis of a port: dynamic where it has a name, else of a fixed size.
struct Axis {
  std::string name;
  std::int64_t size = 0;
};

/// One input or output of a graph.
struct Port {
  std::string name;
  DType dtype;
  std::vector<Axis> axes;
};

/// Contiguous memory of somebody else, row by row.
struct View {
  DType dtype;
  std::vector<std::int64_t> shape;
  void* data;
};

/// A tensor that owns its memory.
struct Array {
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;
};

/// A half or a bfloat16 as its bits: C++20 has no type for either.
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
    case DType::float32: return call(float{});
    case DType::float16: return call(Half{});
    case DType::bfloat16: return call(BFloat16{});
    case DType::float64: return call(double{});
    case DType::int64: return call(std::int64_t{});
    case DType::int32: return call(std::int32_t{});
    case DType::boolean: return call(bool{});
  }
  throw Error("unknown dtype");
}

/// The elements that lie in bytes.
template <class T, class Bytes>
std::span<T> elements(Bytes& bytes) {
  using Raw = std::conditional_t<std::is_const_v<T>, const void*, void*>;
  return {static_cast<T*>(static_cast<Raw>(bytes.data())), bytes.size() / sizeof(T)};
}

/// The number of elements of a shape; Error where a size is negative, or they are more than memory has room for.
std::size_t count(std::span<const std::int64_t> shape);
/// Throw Error where a span has not as many elements as its shape.
void expect_size(std::string_view name, std::size_t size, std::span<const std::int64_t> shape);

/// View a span as a tensor of a shape; Error where it has not as many elements. Inputs are only read.
template <class T>
View view(std::string_view name, std::span<T> data, std::vector<std::int64_t> shape) {
  using Element = std::remove_const_t<T>;
  expect_size(name, data.size(), shape);
  return {dtype_v<Element>, std::move(shape), const_cast<Element*>(data.data())};
}

/// The first line of a text; for TorchScript's errors, the last, which says what happened.
std::string one_line(std::string_view text);
/// "x: float32[batch, seq, 512]"
std::string describe(const Port& port);
/// Throws Error where tensors are not what ports say: too few, another dtype or rank, a size that is not the fixed one,
/// an axis with two sizes. A checker remembers the sizes of dynamic axes, so that outputs are checked with inputs.
class Checker {
 public:
  void check(std::span<const Port> ports, std::span<const View> views, std::string_view kind);

 private:
  struct Seen {
    std::string_view axis;
    std::int64_t size;
    std::string_view port;
  };
  void check(const Port& port, const View& view, std::string_view kind);
  std::vector<Seen> seen_;
};

/// A graph, ready to run. `run` may be called from several threads at once. All of it throws Error.
class Session {
 public:
  Session(const std::filesystem::path& file, std::vector<Port> inputs, std::vector<Port> outputs, Device device);
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Run into memory of the caller's: inputs are only read, outputs have the shapes that the call will give. Returns when
  /// the outputs are there; with Memory::device on CUDA, what makes the inputs must have been synchronised before.
  void run(std::span<const View> inputs, std::span<const View> outputs, Memory memory = Memory::host) const;
  /// Run, and return outputs of whatever shapes the graph gives.
  std::vector<Array> run(std::span<const View> inputs) const;

  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  /// Versions of the library that runs the graph, and of the headers this was compiled with.
  static std::string versions();
  /// Why this library cannot use CUDA here, or nothing.
  static std::string no_cuda();

 private:
  struct Impl;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace posenc
