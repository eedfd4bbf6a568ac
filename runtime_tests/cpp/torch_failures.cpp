// The class of a bias by libtorch, where each tensor in turn finds no memory, then all from one on: the call says so, and
// the next calls are right. Small objects are left out: libtorch makes some where it may not throw, and ends the program.
// Prints how many were tried, and a line for each that is wrong. torch_failures GRAPH
#include <cerrno>
#include <vector>

#include "bias.hpp"
#include "failing_memory.hpp"
#include "tried.hpp"

thread_local Failing failing;

/// What libtorch takes memory for tensors from.
extern "C" {
void* __libc_memalign(std::size_t, std::size_t);
int posix_memalign(void** made, std::size_t alignment, std::size_t size) {
  if (failing.next()) return ENOMEM;
  *made = __libc_memalign(alignment, size);
  return *made == nullptr ? ENOMEM : 0;
}
}

namespace {

using posenc::ErrorKind;
using posenc::bias::Model;

/// A call of the class, of so many queries before so many keys.
struct Call {
  Model::Axes axes;
  std::vector<float> scores, biased;
  std::vector<std::int64_t> start;

  Call(std::int64_t queries, std::int64_t keys)
      : axes(Model::Axes().with_batch(1).with_seq(queries).with_seq_k(keys)),
        scores(Model::scores_size(axes), 0.25F),
        biased(scores.size()),
        start{keys - queries} {}

  posenc::Status on(const Model& model) { return model.try_run(axes, scores, start, biased); }
};

Tried running(const Model& model) {
  Tried tried;
  Call call(3, 7), other(5, 9);
  posenc::expect(call.on(model));
  posenc::expect(other.on(model));
  const auto expected = call.biased, of_other = other.biased;
  for (const bool lasting : {false, true}) {
    bool met = true;
    for (std::size_t at = 1; met; ++at) {
      failing = {at, lasting, 0, false};
      const auto status = call.on(model);
      met = failing.failed;
      failing = {};
      bool right = status.kind() == (met ? ErrorKind::memory : ErrorKind::none);
      right = right && other.on(model).ok() && other.biased == of_other;
      right = right && call.on(model).ok() && call.biased == expected;
      tried.note(right, "tensor " + std::to_string(at) + (lasting ? " and all behind it: " : ": ") + status.message());
    }
  }
  return tried;
}

}  // namespace

int main(int, char** words) {
  Model model;
  posenc::expect(model.load(words[1]));
  print("running", running(model));
}
