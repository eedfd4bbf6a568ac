// A vision tower for images of any size: one graph, loaded once, adds sines and cosines of row and column to the patches
// of each image. A place has the same numbers in every image, to the bit.
//
//   posenc-export sincos_2d --dynamic -p dim=384 -f onnx --cpp -o bundles/grid
//   cmake -S . -B build && cmake --build build
//   build/vision_tower
#include <algorithm>
#include <array>
#include <cstring>
#include <iostream>
#include <vector>

#include "grid.hpp"

namespace {

using posenc::Span;
using posenc::grid::Model;

/// How many patches high and wide an image is.
struct Image {
  std::int64_t height, width;
};

Model::Axes axes_of(const Image& image) {
  return Model::Axes().with_batch(1).with_height(image.height).with_width(image.width);
}

/// Add the encoding to the patches of an image, (1, height, width, 384), where they lie.
void encode(const Model& model, const Image& image, Span<float> patches) {
  const auto axes = axes_of(image);
  const std::size_t size = Model::x_size(axes);
  if (patches.size() < size) throw posenc::Error("the image is larger than the buffer");
  model.run(axes, patches.first(size), patches.first(size));
}

/// Whether a smaller image is the upper left part of a larger one, row by row.
bool is_part(const Image& small, const std::vector<float>& part, const Image& large, const std::vector<float>& whole) {
  const std::size_t row = Model::x_size(axes_of({1, small.width}));
  const std::size_t next = Model::x_size(axes_of({1, large.width}));
  for (std::size_t y = 0; y < static_cast<std::size_t>(small.height); ++y) {
    if (std::memcmp(&part[y * row], &whole[y * next], row * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace

int main() {
  try {
    const Model model(GRAPH);
    const Image largest{64, 96};
    std::vector<float> whole(Model::x_size(axes_of(largest)), 0.5F);  // in the place of what a convolution gives
    encode(model, largest, whole);
    std::vector<float> patches(whole.size());  // made once, for images of all sizes
    for (const Image& image : std::array<Image, 4>{{{14, 14}, {37, 37}, {24, 96}, {1, 7}}}) {
      std::fill(patches.begin(), patches.end(), 0.5F);
      encode(model, image, patches);
      const bool same = is_part(image, patches, largest, whole);
      std::cout << image.height << " x " << image.width << ": " << (same ? "the same" : "other") << " numbers at each place\n";
      if (!same) return 1;
    }
    return 0;
  } catch (const posenc::Error& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
