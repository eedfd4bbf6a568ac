#include "npy.hpp"

#if __has_include(<xtensor/io/xnpy.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/io/xnpy.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xnpy.hpp>
#endif

#include <cstring>
#include <fstream>

namespace posenc {

/// A half as its bits: C++20 has no type for it.
struct Half {
  std::uint16_t bits;
};

}  // namespace posenc

template <>
char xt::detail::map_type<posenc::Half>() {
  return 'f';
}

namespace posenc {
namespace {

/// Call with a value of the C++ type that holds a dtype.
template <class Call>
auto visit(DType dtype, Call&& call) {
  switch (dtype) {
    case DType::float32: return call(float{});
    case DType::float16: return call(Half{});
    case DType::bfloat16: return call(std::uint16_t{});
    case DType::float64: return call(double{});
    case DType::int64: return call(std::int64_t{});
    case DType::int32: return call(std::int32_t{});
    case DType::boolean: return call(bool{});
  }
  throw Error("unknown dtype");
}

template <class T>
Array read(std::istream& stream, DType dtype) {
  const xt::xarray<T> loaded = xt::load_npy<T>(stream);
  if (!stream) throw Error("it is shorter than its own header says");
  Array array{dtype, {loaded.shape().begin(), loaded.shape().end()}, std::vector<std::byte>(loaded.size() * sizeof(T))};
  std::memcpy(array.data.data(), loaded.data(), array.data.size());
  return array;
}

}  // namespace

Array read_npy(const std::filesystem::path& folder, const Port& port) {
  const auto file = folder / (port.name + ".npy");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Error("input '" + port.name + "' is missing: expected " + describe(port) + " in " + file.string());
  try {
    return visit(port.dtype, [&]<class T>(T) { return read<T>(stream, port.dtype); });
  } catch (const std::exception& error) {
    throw Error(file.string() + " cannot be read: " + one_line(error.what()) + ": expected " + describe(port));
  }
}

void write_npy(const std::filesystem::path& folder, const std::string& name, const Array& array) {
  const auto file = folder / (name + ".npy");
  std::ofstream stream(file, std::ios::binary);
  visit(array.dtype, [&]<class T>(T) {
    const auto* first = reinterpret_cast<const T*>(array.data.data());
    const std::vector<std::size_t> shape(array.shape.begin(), array.shape.end());
    const auto adapted = xt::adapt(first, count(array.shape), xt::no_ownership(), shape);
    stream << xt::dump_npy(adapted);
  });
  if (!stream.flush()) throw Error("cannot write " + file.string());
}

}  // namespace posenc
