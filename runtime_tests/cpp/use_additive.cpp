// Every function of an additive header, for test_header.py.
#include "model.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

using posenc::real;

EXPORT bool use_rows(std::int64_t start, std::size_t count, real* out) { return posenc::rows(start, count, out); }
EXPORT bool use_row(std::int64_t position, real* out) { return posenc::row(position, out); }
EXPORT bool use_add(std::int64_t start, std::size_t count, const real* x, real* out) {
  return posenc::add(start, count, x, out);
}
