// x + PE of ones, from position 5 on.
#include <cstring>

#include "offset.hpp"

std::vector<unsigned char> use_offset(const char* file);

std::vector<unsigned char> use_offset(const char* file) {
  using posenc::offset::Model;
  const Model model(file);
  const auto axes = Model::Axes().with_batch(2).with_seq(3);
  const std::vector<float> x(Model::x_size(axes), 1.0F);
  std::vector<float> y(Model::y_size(axes));
  const std::vector<std::int64_t> start{5};
  model.run(axes, x, start, y);
  std::vector<unsigned char> bytes(y.size() * sizeof(float));
  std::memcpy(bytes.data(), y.data(), bytes.size());
  return bytes;
}
