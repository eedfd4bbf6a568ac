// A chat in a terminal: a model that writes text, with a cache that lasts from one line to the next. Tokens are bytes here;
// a model with a tokenizer has that in the place of two lines below.
//
//   python model.py ../../../runtime_tests/data/alice.txt model --steps 150
//   posenc-export --model model --cpp --namespace chat -o bundle
//   cmake -S . -B build && cmake --build build
//   echo 'Alice was beginning' | build/talk
#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <random>
#include <string>

#include "chat.hpp"

namespace {

/// One of the `most` likeliest tokens, each as often as the model says: the choice is ours, not the decoder's.
std::int64_t chosen(posenc::Span<const float> logits, std::size_t most, std::mt19937& random) {
  std::vector<std::int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto score = [&](std::int64_t id) { return logits[static_cast<std::size_t>(id)]; };
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min(most, ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), [&](auto a, auto b) { return score(a) > score(b); });
  std::vector<double> weights;
  for (auto id = ids.begin(); id != end; ++id) weights.push_back(std::exp(score(*id) - score(ids[0])));
  return ids[std::discrete_distribution<std::size_t>(weights.begin(), weights.end())(random)];
}

}  // namespace

int main(int count, char** words) {
  try {
    const std::size_t most = count > 1 ? std::stoul(words[1]) : 1;  // 1: always the likeliest
    const posenc::chat::Model model(GRAPH);
    auto decoder = model.decoder();
    std::mt19937 random;
    for (std::string line; std::getline(std::cin, line);) {
      if (line.empty()) continue;
      std::vector<std::int64_t> ids;
      for (const unsigned char byte : line) ids.push_back(byte);  // a tokenizer's encode
      decoder.prefill(ids);
      for (std::int64_t id = 0; id != '\n' && decoder.length() < posenc::chat::Model::position_ids_end;) {
        id = chosen(decoder.logits(), most, random);
        std::cout << static_cast<char>(id) << std::flush;  // a tokenizer's decode
        decoder.step(id);
      }
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
