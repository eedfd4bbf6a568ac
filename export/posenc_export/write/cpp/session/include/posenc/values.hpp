/// @file
/// Elements of every dtype as numbers.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "posenc/tensor.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

inline double value_of(float number) { return number; }
inline double value_of(double number) { return number; }
inline double value_of(bool number) { return number; }
inline double value_of(std::int32_t number) { return number; }
inline double value_of(std::int64_t number) { return static_cast<double>(number); }
inline double value_of(BFloat16 number) {
  const auto bits = static_cast<std::uint32_t>(number.bits) << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline double value_of(Half number) {
  const int exponent = (number.bits >> 10) & 31;
  const int fraction = number.bits & 1023;
  const double sign = (number.bits >> 15) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

}  // namespace POSENC_VERSION
}  // namespace posenc
