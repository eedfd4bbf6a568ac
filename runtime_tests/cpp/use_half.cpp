// Queries of ones, rotated at positions 4, 5, 6.
#include <cstring>

#include "half.hpp"

std::vector<unsigned char> use_half(const char* file);

std::vector<unsigned char> use_half(const char* file) {
  using posenc::half::Model;
  const Model model(file);
  const auto axes = Model::Axes().with_batch(1).with_head(2).with_head_kv(2).with_seq(3);
  std::vector<posenc::Half> q(Model::q_size(axes), posenc::Half{0x3c00});
  auto k = q;
  std::vector<std::int64_t> positions(3);
  posenc::expect(posenc::positions_from_past(std::vector<std::int64_t>{4}, 3, Model::positions_end, positions));
  model.run(axes, q, k, positions, q, k);
  std::vector<unsigned char> bytes(q.size() * sizeof(posenc::Half));
  std::memcpy(bytes.data(), q.data(), bytes.size());
  return bytes;
}
