// Every function of a rotary header with three positions a token, for test_header.py.
#include "model.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

using posenc::real;

EXPORT bool use_row(std::int64_t a, std::int64_t b, std::int64_t c, real* cos, real* sin) {
  return posenc::row({a, b, c}, cos, sin);
}
EXPORT bool use_one(std::int64_t a, std::int64_t b, std::int64_t c, const real* x, real* out) {
  return posenc::rotate({a, b, c}, x, out);
}
EXPORT bool use_rotate_tokens(const std::int64_t* positions, std::size_t tokens, const real* x, real* out,
                              std::size_t heads, std::size_t token_stride, std::size_t head_stride) {
  return posenc::rotate_tokens(positions, tokens, x, out, heads, token_stride, head_stride);
}
