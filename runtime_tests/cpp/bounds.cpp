// What the classes of a timestep embedding and of a bias say of numbers and starts out of range, a line each:
// bounds TIMESTEPS BIAS.
#include <iostream>
#include <limits>
#include <vector>

#include "bias.hpp"
#include "timesteps.hpp"

namespace {

using Timesteps = posenc::timesteps::Model;
using Bias = posenc::bias::Model;
static_assert(Timesteps::timesteps_least == -70 && Timesteps::timesteps_most == 70);

template <class Call>
void tried(Call&& call) {
  const posenc::Status status = call();
  const char* const kind = status.kind() == posenc::ErrorKind::out_of_range ? "out_of_range: " : "";
  std::cout << kind << (status.ok() ? "fine" : status.message()) << '\n';
}

}  // namespace

int main(int, char** arguments) {
  const Timesteps timesteps(arguments[1]);
  const auto batch = Timesteps::Axes().with_batch(2);
  std::vector<float> y(Timesteps::y_size(batch));
  const auto nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const float step : {70.0F, -70.0F, 70.125F, -71.0F, 2048.5F, nan, infinity}) {
    const std::vector<float> steps{0, step};
    tried([&] { return timesteps.try_run(batch, steps, y); });
  }
  const Bias bias(arguments[2]);
  const auto axes = Bias::Axes().with_batch(1).with_seq(3).with_seq_k(7);
  std::vector<float> scores(Bias::scores_size(axes)), biased(scores.size());
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{4}, std::int64_t{5}, std::int64_t{-1},
                                   std::numeric_limits<std::int64_t>::min()}) {
    const std::vector<std::int64_t> start{first};
    tried([&] { return bias.try_run(axes, scores, start, biased); });
  }
  const std::vector<std::int64_t> last{7};
  const auto one = Bias::Axes().with_batch(1).with_seq(1).with_seq_k(7);
  std::vector<float> row(Bias::scores_size(one)), out(row.size());
  tried([&] { return bias.try_run(one, row, last, out); });
}
