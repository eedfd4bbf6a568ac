// Every function of a rotary header with one position a token, for test_header.py.
#include "model.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

using posenc::real;

EXPORT bool use_rows(std::int64_t start, std::size_t count, real* cos, real* sin) {
  return posenc::rows(start, count, cos, sin);
}
EXPORT bool use_row(std::int64_t position, real* cos, real* sin) { return posenc::row(position, cos, sin); }
EXPORT bool use_one(std::int64_t position, const real* x, real* out) { return posenc::rotate(position, x, out); }
EXPORT bool use_rotate(std::int64_t position, const real* x, real* out, std::size_t heads, std::size_t stride) {
  return posenc::rotate(position, x, out, heads, stride);
}
EXPORT bool use_rotate_tokens(const std::int64_t* positions, std::size_t tokens, const real* x, real* out,
                              std::size_t heads, std::size_t token_stride, std::size_t head_stride) {
  return posenc::rotate_tokens(positions, tokens, x, out, heads, token_stride, head_stride);
}
EXPORT bool use_rotate_from(std::int64_t start, std::size_t tokens, const real* x, real* out, std::size_t heads,
                            std::size_t token_stride, std::size_t head_stride) {
  return posenc::rotate_from(start, tokens, x, out, heads, token_stride, head_stride);
}
EXPORT bool use_apply_rotary(const real* cos, const real* sin, const real* x, real* out) {
  posenc::apply_rotary(cos, sin, x, out);
  return true;
}
