// The header on a microcontroller's budget: rotates the heads of 256 tokens, one after the other, and prints a digest of
// all bits, which are the same on every machine. step.c is what goes into the firmware; measure.sh prints what it takes.
//
//   posenc-export rope -p head_dim=32 --max-len 256 -f header-c99 --namespace rope -o bundles/baked
//   microcontroller/measure.sh bundles/baked gcc
//   gcc -std=c99 -Os microcontroller/main.c bundles/baked/gcc/step.o -o step && ./step
//
// With --dynamic in the place of --max-len 256 it holds 16,777,216 positions.
#include <stdio.h>

#include "step.h"

static uint64_t digest = 0xcbf29ce484222325u;  // FNV-1a

static void add(const float* numbers, size_t count) {
  const unsigned char* bytes = (const unsigned char*)numbers;
  for (size_t i = 0; i < count * sizeof(float); ++i) digest = (digest ^ bytes[i]) * 0x100000001b3u;
}

int main(void) {
  static float queries[QUERY_HEADS * HEAD_DIM], keys[KEY_HEADS * HEAD_DIM];
  for (size_t i = 0; i < QUERY_HEADS * HEAD_DIM; ++i) queries[i] = 1.0f + (float)i / 128.0f;
  for (size_t i = 0; i < KEY_HEADS * HEAD_DIM; ++i) keys[i] = 2.0f - (float)i / 64.0f;
  for (int64_t position = 0; position < 256; ++position) {
    if (!rotate_step(position, queries, keys)) return 1;  // each token's heads are those of the one before, rotated
    add(queries, QUERY_HEADS * HEAD_DIM);
    add(keys, KEY_HEADS * HEAD_DIM);
  }
  if (rotate_step(1 << 24, queries, keys)) return 1;  // beyond every table: refused
  printf("bits %08lx%08lx\n", (unsigned long)(digest >> 32), (unsigned long)(digest & 0xffffffffu));
  return 0;
}
