// What goes into the firmware: the tables, and one function that rotates the heads of one token where they lie.
// `static` lets the compiler drop the functions of the header that nothing here calls.
#define rope_IMPLEMENTATION
#define rope_API static inline
#include "step.h"

#include "model.h"

bool rotate_step(int64_t position, float* queries, float* keys) {
  return rope_rotate(position, queries, queries, QUERY_HEADS, HEAD_DIM) &&
         rope_rotate(position, keys, keys, KEY_HEADS, HEAD_DIM);
}
