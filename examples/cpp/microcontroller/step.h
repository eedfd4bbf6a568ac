#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { HEAD_DIM = 32, QUERY_HEADS = 4, KEY_HEADS = 2 };

// Rotate the heads of one token, (QUERY_HEADS, HEAD_DIM) and (KEY_HEADS, HEAD_DIM), where they lie. Returns false, and
// writes nothing, where the tables do not hold the position.
bool rotate_step(int64_t position, float* queries, float* keys);
