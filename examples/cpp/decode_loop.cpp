// A decode loop with a cache of keys: a prompt in one call, then one token a step. Each call rotates its keys straight
// into their place in the cache; at the end they equal, to the bit, the keys of one call with all tokens.
//
//   posenc-export rope --dynamic -p head_dim=64 -p tensor_layout=bshd -f onnx --cpp -o bundles/rope
//   cmake -S . -B build && cmake --build build
//   build/decode_loop
#include <cmath>
#include <cstring>
#include <iostream>
#include <vector>

#include "rope.hpp"

namespace {

using posenc::Span;
using posenc::rope::Model;

Model::Axes axes_of(std::int64_t tokens) {
  return Model::Axes().with_batch(1).with_seq(tokens).with_head(8).with_head_kv(2);
}

/// The cache of one layer: the rotated keys of the tokens so far, (seq, head_kv, head_dim).
class Cache {
 public:
  explicit Cache(std::int64_t tokens) : keys_(Model::k_size(axes_of(tokens))), positions_(tokens) {}

  /// Rotate the queries of the next tokens where they lie, and their keys into the cache.
  void append(const Model& model, std::int64_t tokens, Span<float> q, Span<const float> k) {
    const std::size_t filled = Model::k_size(axes_of(past_));
    if (filled + k.size() > keys_.size()) throw posenc::Error("the cache is full");
    const Span<std::int64_t> positions(positions_.data(), static_cast<std::size_t>(tokens));
    const Span<const std::int64_t> past(&past_, 1);  // a number for each row of the batch
    posenc::expect(posenc::positions_from_past(past, tokens, Model::positions_end, positions));
    model.run(axes_of(tokens), q, k, positions, q, Span<float>(keys_.data() + filled, k.size()));
    past_ += tokens;
  }

  const std::vector<float>& keys() const { return keys_; }

 private:
  std::vector<float> keys_;
  std::vector<std::int64_t> positions_;
  std::int64_t past_ = 0;
};

/// Numbers in the place of what a model computes.
std::vector<float> numbers(std::size_t count, float step) {
  std::vector<float> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = std::sin(step * static_cast<float>(i));
  return made;
}

/// Whether tokens that come in calls of these lengths give the keys of one call with all of them.
bool same_as_one_call(const Model& model, std::int64_t prompt, std::int64_t steps) {
  const auto all = axes_of(prompt + steps);
  const auto q = numbers(Model::q_size(all), 0.1F);
  const auto k = numbers(Model::k_size(all), 0.2F);

  Cache whole(prompt + steps);
  auto rotated = q;
  whole.append(model, prompt + steps, rotated, k);

  Cache cache(prompt + steps);
  auto queries = q;
  float* next_q = queries.data();
  const float* next_k = k.data();
  for (std::int64_t step = 0; step <= steps; ++step) {
    const std::int64_t tokens = step == 0 ? prompt : 1;
    const std::size_t q_size = Model::q_size(axes_of(tokens));
    const std::size_t k_size = Model::k_size(axes_of(tokens));
    cache.append(model, tokens, {next_q, q_size}, {next_k, k_size});  // here attention would read the cache
    next_q += q_size;
    next_k += k_size;
  }
  return std::memcmp(cache.keys().data(), whole.keys().data(), k.size() * sizeof(float)) == 0 &&
         std::memcmp(queries.data(), rotated.data(), q.size() * sizeof(float)) == 0;
}

}  // namespace

int main() {
  try {
    const Model model(GRAPH);
    const bool same = same_as_one_call(model, 13, 40);
    std::cout << "13 tokens and 40 steps: " << (same ? "the bits of one call of 53\n" : "other bits than one call\n");
    return same ? 0 : 1;
  } catch (const posenc::Error& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
