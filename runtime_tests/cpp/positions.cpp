// Ids of positions, and what is refused, a line each.
#include "posenc/positions.hpp"

#include <array>
#include <cstdio>
#include <limits>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

namespace {

using posenc::Padding;

template <class Ids>
void print(const posenc::Status& status, const Ids& ids) {
  if (!status.ok()) std::puts(status.message().c_str());
  for (std::size_t i = 0; status.ok() && i < ids.size(); ++i) {
    std::printf("%s%lld", i == 0 ? "" : " ", static_cast<long long>(ids[i]));
  }
  if (status.ok()) std::puts("");
}

void refused() {
  std::vector<std::int64_t> ids(10, 7);
  const std::vector<std::int64_t> lengths{5, 5};
  const std::vector<std::int64_t> far{0, 508};
  print(posenc::positions_from_past(far, 5, 512, ids), ids);
  print(posenc::Status(), ids);  // as they were
  for (const std::int64_t length : {6, -1}) {
    const std::array<std::int64_t, 2> odd{length, 5};
    print(posenc::positions_from_lengths(odd, 5, Padding::right, 512, ids), ids);
  }
  const std::array<std::int64_t, 2> negative{0, -1};
  print(posenc::positions_from_past(negative, 5, 512, ids), ids);
  print(posenc::positions_from_lengths(lengths, 5, Padding::right, 512, posenc::Span<std::int64_t>(ids).first(9)), ids);
  const std::array<std::int64_t, 1> one{0};
  print(posenc::positions_of_batch<std::int64_t>(lengths, one, 5, Padding::right, 512, ids), ids);
}

}  // namespace

int main() {
  const std::vector<std::int64_t> lengths{3, 5, 0};
  const std::vector<std::int64_t> past{4, 0, 9};
  std::vector<std::int32_t> ids(15);
  for (const auto padding : {Padding::right, Padding::left}) {
    print(posenc::positions_from_lengths(lengths, 5, padding, 512, ids), ids);
    print(posenc::positions_of_batch<std::int32_t>(lengths, past, 5, padding, 512, ids), ids);
  }
  std::vector<std::int64_t> next(6);
#if __cplusplus >= 202002L
  const std::span<const std::int64_t> two = std::span(past).first(2);
  print(posenc::positions_from_past(two, 3, 512, std::span(next)), next);
#else
  print(posenc::positions_from_past(posenc::Span<const std::int64_t>(past).first(2), 3, 512, next), next);
#endif
  refused();
  std::array<std::int64_t, 1> start{};
  for (const std::int64_t tokens : {2, 3}) print(posenc::start_from_past(510, tokens, 512, start[0]), start);
  print(posenc::start_from_past(std::numeric_limits<std::int64_t>::max(), 1, 512, start[0]), start);
}
