// T5's bias added to the scores of a prefill in place: of the scores, the largest tensor of a model, there is no copy.
//
//   posenc-export t5_bias --dynamic -p heads=8 -p output=scores -f onnx --cpp -o bundles/bias
//   cmake -S . -B build && cmake --build build
//   build/bias_in_place
#include <cmath>
#include <cstring>
#include <iostream>
#include <vector>

#include "bias.hpp"

namespace {

using posenc::Span;
using posenc::bias::Model;

/// Numbers in the place of the products of queries and keys.
std::vector<float> scores_of(const Model::Axes& axes) {
  std::vector<float> made(Model::scores_size(axes));
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = std::sin(0.1F * static_cast<float>(i));
  return made;
}

/// Whether the bias in place gives the bits of the bias in memory of its own.
bool same_in_place(const Model& model, std::int64_t tokens) {
  const auto axes = Model::Axes().with_batch(1).with_seq(tokens).with_seq_k(tokens);
  auto scores = scores_of(axes);
  std::vector<float> apart(scores.size());
  model.run(axes, scores, apart);
  model.run(axes, scores, scores);  // reads and writes one buffer
  return std::memcmp(scores.data(), apart.data(), scores.size() * sizeof(float)) == 0;
}

}  // namespace

int main() {
  try {
    const Model model(GRAPH);
    for (const std::int64_t tokens : {16, 128, 512}) {
      const bool same = same_in_place(model, tokens);
      std::cout << tokens << " tokens: " << (same ? "the bits of a call with two buffers\n" : "other bits\n");
      if (!same) return 1;
    }
    return 0;
  } catch (const posenc::Error& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
