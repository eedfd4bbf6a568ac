// What a header gives from a position on, as bytes on stdout, for test_header_aarch64.py; in C, and in C++.
#if defined(__cplusplus)
#include "model.hpp"
#define POSENC(name) posenc::name
#else
#include "model.h"
#define POSENC(name) posenc_##name
#endif

#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 135, HEADS = 3 };

int main(int argc, char** words) {
  const int64_t start = argc > 1 ? atoll(words[1]) : 0;
#if defined(ROTARY)
  enum { DIM = POSENC(head_dim), SIZE = TOKENS * HEADS * DIM };
  static float x[SIZE], y[SIZE];
#else
  enum { SIZE = TOKENS * POSENC(width) };
  static float x[SIZE], y[SIZE];
#endif
  for (int i = 0; i < SIZE; ++i) x[i] = (float)(i % 1013) / 1013.0F - 0.5F;
#if defined(ROTARY)
  if (!POSENC(rotate_from)(start, TOKENS, x, y, HEADS, DIM, TOKENS * DIM)) return 1;
#else
  if (!POSENC(add)(start, TOKENS, x, y)) return 1;
#endif
  return fwrite(y, sizeof *y, SIZE, stdout) == SIZE ? 0 : 1;
}
