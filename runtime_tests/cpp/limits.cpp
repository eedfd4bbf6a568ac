// What the session says of numbers and starts in each type, a line each: limits, without a graph.
#include "limits.hpp"

#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <vector>

namespace {

using namespace posenc;

void say(const Port& port, const View& view, const Counts& counts = {}) {
  const bool kept = keeps_limit(port, view, counts);
  std::cout << (kept ? "fine" : explain_limit(port, view, counts).message()) << '\n';
}

template <class T>
void numbers(std::vector<T> values, double least, double most) {
  std::vector<Port> ports;
  add_port(ports, "t", dtype_v<T>, {{"batch", 0, 0}});
  limit_numbers(ports, least, most);
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(values.size())};
  say(ports[0], view(Span<T>(values.data(), values.size()), shape));
}

void halves() {
  numbers<Half>({{0x6800}, {0xe800}}, -2048, 2048);  // 2048, -2048
  numbers<Half>({{0x6800}, {0x6801}}, -2048, 2048);  // 2050
  numbers<Half>({{0x0001}}, 0, 1);                   // the smallest of all, 2^-24
  numbers<Half>({{0x8001}}, 0, 1);
  numbers<Half>({{0x7c00}}, -1e5, 1e5);  // infinity
  numbers<Half>({{0x7e00}}, -1e5, 1e5);  // NaN
  numbers<BFloat16>({{0x4500}, {0xc500}}, -2048, 2048);
  numbers<BFloat16>({{0x4500}, {0xc501}}, -2048, 2048);  // -2064
  numbers<BFloat16>({{0x7fc0}}, -2048, 2048);            // NaN
  int wrong = 0;
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {  // every half: within its own value, and of none below it
    const auto exponent = static_cast<int>(bits >> 10 & 31);
    const auto fraction = static_cast<double>(bits & 0x3ff);
    const auto size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    const auto value = (bits & 0x8000) != 0 ? -size : size;
    std::vector<Port> ports;
    add_port(ports, "t", DType::float16, {});
    Half half{static_cast<std::uint16_t>(bits)};
    const View one = view(Span<Half>(&half, 1), {});
    limit_numbers(ports, value, std::nextafter(value, 1e9));
    wrong += keeps_limit(ports[0], one, {}) != (exponent != 31);
    limit_numbers(ports, std::nextafter(value, 1e9), 1e9);
    wrong += keeps_limit(ports[0], one, {});
  }
  std::cout << wrong << " wrong\n";
}

void starts() {
  std::vector<Port> ports;
  add_port(ports, "start", DType::int64, {{"", 1, 0}}, 512, "seq");
  limit_start(ports, "seq", "seq_k");
  const std::vector<std::int64_t> shape{1};
  const auto of = [&](std::int64_t start, std::int64_t seq, std::int64_t keys) {
    say(ports[0], view(Span<std::int64_t>(&start, 1), shape), {seq, keys});
  };
  of(4, 3, 7);
  of(5, 3, 7);
  of(-1, 3, 7);
  of(std::numeric_limits<std::int64_t>::min(), 1, 7);
  of(std::numeric_limits<std::int64_t>::max(), 3, 7);
  of(6, 1, 7);
  of(7, 1, 7);
  of(0, 8, 7);
  of(0, 0, 0);
  of(511, 1, 600);
  of(512, 1, 600);
}

}  // namespace

int main() {
  const auto nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  numbers<float>({-2048, 0, 2048}, -2048, 2048);
  numbers<float>({0, 2048.5F}, -2048, 2048);
  numbers<float>({0, std::nextafter(2048.0F, 1e9F)}, -2048, 2048);
  numbers<float>({static_cast<float>(nan)}, -2048, 2048);
  numbers<float>({0, 1, -static_cast<float>(infinity)}, -2048, 2048);
  numbers<double>({16777216, 16777216.000000004}, -16777216, 16777216);
  numbers<double>({nan, 0}, 0.1, 1);
  numbers<float>({}, -1, 1);
  halves();
  starts();
}
