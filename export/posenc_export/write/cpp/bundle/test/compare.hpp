// How far outputs are off, and how far they may be: the same rule as that of posenc-export.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <string>

#include "posenc/values.hpp"

namespace replay {

using posenc::BFloat16;
using posenc::Half;
using posenc::Span;
using posenc::value_of;

/// An output may be off by atol + rtol * |expected| + ulps * (one ulp of expected) + vector * (the largest |expected|
/// along the last axis); with `bits`, by no bit.
struct Tolerance {
  double atol = 0;
  double rtol = 0;
  double ulps = 0;
  double vector = 0;
  bool bits = false;
};

/// Bits of the fraction, and the smallest exponent, of a floating-point dtype.
struct Grain {
  int fraction;
  int smallest;
};
template <class T>
constexpr Grain grain_v = {0, 0};
template <>
inline constexpr Grain grain_v<Half> = {10, -14};
template <>
inline constexpr Grain grain_v<BFloat16> = {7, -126};
template <>
inline constexpr Grain grain_v<float> = {23, -126};
template <>
inline constexpr Grain grain_v<double> = {52, -1022};

template <class T>
double ulp(double magnitude) {
  if (grain_v<T>.fraction == 0) return 0;
  const int exponent = std::isfinite(magnitude) && magnitude > 0 ? std::ilogb(magnitude) : grain_v<T>.smallest;
  return std::ldexp(1.0, std::max(exponent, grain_v<T>.smallest) - grain_v<T>.fraction);
}

/// Elements that may be off by `atol` more: those that are not 0; none if there are no bytes.
struct Masked {
  Span<const std::byte> elements;
  double atol;

  double more(std::size_t i) const { return i < elements.size() && elements[i] != std::byte{0} ? atol : 0; }
};

/// Return what is wrong with an output, or nothing; `width` is the size of the last axis. NaN is always wrong.
template <class T>
std::string difference(Span<const T> actual, Span<const T> expected, std::size_t width, Tolerance allowed,
                       Masked masked) {
  if (actual.size() != expected.size()) return "has another size";
  for (std::size_t row = 0; row < actual.size(); row += width) {
    double peak = 0;
    for (std::size_t i = row; i < row + width; ++i) peak = std::max(peak, std::abs(value_of(expected[i])));
    for (std::size_t i = row; i < row + width; ++i) {
      const bool same = std::memcmp(&actual[i], &expected[i], sizeof(T)) == 0;
      const double got = value_of(actual[i]);
      const double wanted = value_of(expected[i]);
      const double most = allowed.atol + allowed.rtol * std::abs(wanted) + allowed.vector * peak +
                          allowed.ulps * ulp<T>(std::abs(wanted)) + masked.more(i);
      // Written so that NaN fails, and equal infinities do not.
      if (allowed.bits ? same : got == wanted || std::abs(got - wanted) <= most) continue;
      std::ostringstream text;
      text << "is " << got << " at element " << i << ", expected " << wanted;
      if (allowed.bits) {
        text << " to the last bit";
      } else {
        text << " within " << most;
      }
      return text.str();
    }
  }
  return {};
}

}  // namespace replay
