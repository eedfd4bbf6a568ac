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

// NumPy's letter for a half; it has none for bfloat16, whose bits go as uint16.
template <>
char xt::detail::map_type<posenc::Half>() {
  return 'f';
}

template <>
char xt::detail::map_type<posenc::BFloat16>() {
  return 'u';
}

namespace runner {
namespace {

using posenc::Array;
using posenc::DType;
using posenc::Error;

template <class T>
Array read(std::istream& stream, DType dtype) {
  const xt::xarray<T> loaded = xt::load_npy<T>(stream);
  if (!stream) throw Error("it is shorter than its own header says");
  Array array{dtype, {loaded.shape().begin(), loaded.shape().end()}, std::vector<std::byte>(loaded.size() * sizeof(T))};
  std::memcpy(array.data.data(), loaded.data(), array.data.size());
  return array;
}

}  // namespace

posenc::Array read_npy(const std::filesystem::path& folder, const posenc::Port& port) {
  const auto file = folder / (port.name + ".npy");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Error("input '" + port.name + "' is missing: expected " + posenc::describe(port) + " in " + file.string());
  try {
    return posenc::visit(port.dtype, [&](auto element) { return read<decltype(element)>(stream, port.dtype); });
  } catch (const std::exception& error) {
    throw Error(file.string() + " cannot be read: " + posenc::one_line(error.what()) + ": expected " + posenc::describe(port));
  }
}

void write_npy(const std::filesystem::path& folder, const std::string& name, const posenc::Array& array) {
  const auto file = folder / (name + ".npy");
  std::ofstream stream(file, std::ios::binary);
  posenc::visit(array.dtype, [&](auto element) {
    const auto* first = reinterpret_cast<const decltype(element)*>(array.data.data());
    const std::vector<std::size_t> shape(array.shape.begin(), array.shape.end());
    const auto adapted = xt::adapt(first, posenc::count(array.shape), xt::no_ownership(), shape);
    stream << xt::dump_npy(adapted);
  });
  if (!stream.flush()) throw Error("cannot write " + file.string());
}

}  // namespace runner
