// What calls ask for, and what inputs are that count by their sizes alone: of the class of a bias, and of one that adds a
// bias to scores, in their place. memory BIAS SCORES [CALLS]: with a number of calls, what one takes beside one with memory.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "bias.hpp"
#include "scores.hpp"

namespace {

std::atomic<std::size_t> asked{0};

}  // namespace

#if defined(__GLIBC__)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void* malloc(std::size_t size) {
  asked += size;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  asked += count * size;
  return __libc_calloc(count, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  asked += size;
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** made, std::size_t alignment, std::size_t size) {
  asked += size;
  *made = __libc_memalign(alignment, size);
  return *made == nullptr ? 12 : 0;
}
}
#endif

namespace {

using posenc::DType;
using posenc::Port;
using posenc::View;

constexpr std::int64_t keys = 4096, heads_of_keys = 8, dim = 64;
constexpr std::size_t bytes_of_k = keys * heads_of_keys * dim * sizeof(float);

/// Call, and return whether that asked for as much memory as keys take.
template <class Call>
const char* asks(Call&& call) {
  const auto before = asked.load();
  call();
  return asked.load() - before >= bytes_of_k ? "as much as k" : "less than k";
}

/// The inputs and the output of a step of decoding, as tensors of a session.
struct Step {
  std::vector<std::int64_t> of_q{1, 2, 1, dim}, of_k{1, heads_of_keys, keys, dim}, of_bias{1, 2, 1, keys};
  std::vector<float> q = std::vector<float>(posenc::count(of_q), NAN);
  std::vector<float> k = std::vector<float>(posenc::count(of_k), NAN);
  std::vector<float> bias = std::vector<float>(posenc::count(of_bias));

  std::vector<float> with(const posenc::Session& session, void* of_queries, void* of_keys) {
    const View inputs[] = {{DType::float32, of_q, of_queries, q.size()}, {DType::float32, of_k, of_keys, k.size()}};
    const View outputs[] = {posenc::view(posenc::Span<float>(bias), of_bias)};
    bias.assign(bias.size(), NAN);
    session.run(inputs, outputs);
    return bias;
  }
};

posenc::Session session_of(const char* file, bool unread, const posenc::Options& options = {}) {
  Port q{"q", DType::float32, {{"batch"}, {"", 2}, {"seq"}, {"head_dim"}}};
  Port k{"k", DType::float32, {{"batch"}, {"kv_heads"}, {"seq_k"}, {"head_dim"}}};
  q.unread = k.unread = unread;
  return {file, {q, k}, {{"bias", DType::float32, {{"", 1}, {"", 2}, {"seq"}, {"seq_k"}}}}, options};
}

void bias(const char* file) {
  using posenc::bias::Model;
  const Model model(file);
  const auto axes =
      Model::Axes().with_batch(1).with_seq(1).with_head_dim(dim).with_kv_heads(heads_of_keys).with_seq_k(keys);
  std::vector<float> given(Model::bias_size(axes));
  model.run(axes, given);
  std::cout << "class: " << asks([&] { model.run(axes, given); }) << '\n';
  Step step;
  const auto session = session_of(file, true);
  const auto expected = step.with(session, step.q.data(), step.k.data());
  std::cout << "same without memory: " << (given == expected) << (step.with(session, nullptr, nullptr) == expected) << '\n';
  try {
    step.with(session_of(file, false), step.q.data(), nullptr);
  } catch (const posenc::Error& error) {
    std::cout << error.what() << '\n';
  }
}

/// With options of ONNX Runtime's own, which may have added a provider that copies inputs, zeros are kept.
void kept(const char* file) {
  posenc::Options options;
  options.session_options = [](OrtSessionOptions*) {};
  Step step;
  const auto session = session_of(file, true, options);
  const auto expected = step.with(session, step.q.data(), step.k.data());
  std::cout << "first: " << asks([&] { step.with(session, nullptr, nullptr); }) << '\n';
  std::cout << "same: " << (step.bias == expected) << '\n';
  step.with(session, step.q.data(), step.k.data());
  std::cout << "then: " << asks([&] { step.with(session, nullptr, nullptr); }) << '\n';
}

void scores(const char* file) {
  using posenc::scores::Model;
  const Model model(file);
  const auto axes = Model::Axes().with_batch(2).with_seq(33).with_seq_k(70);
  std::vector<float> in(Model::scores_size(axes)), out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 97) / 7;
  model.run(axes, in, out);
  model.run(axes, in, in);
  std::cout << "in place: " << (in == out) << '\n';
}

template <class Call>
double microseconds(Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

/// The tenth percentile of steps of decoding, each with a key more: by the class, and with the memory of q and k, by turns.
void timed(const char* file, std::size_t calls) {
  using posenc::bias::Model;
  const Model model(file);
  const auto session = session_of(file, true);
  Step step;
  std::vector<double> took[2];
  for (std::size_t i = 0; i < calls; ++i) {
    const auto there = keys - 64 + static_cast<std::int64_t>(i % 64);
    const std::int64_t of_k[] = {1, heads_of_keys, there, dim}, of_bias[] = {1, 2, 1, there};
    const posenc::Span<float> out(step.bias.data(), posenc::count(of_bias));
    const auto axes =
        Model::Axes().with_batch(1).with_seq(1).with_head_dim(dim).with_kv_heads(heads_of_keys).with_seq_k(there);
    const auto with_memory = [&] {
      const View inputs[] = {{DType::float32, step.of_q, step.q.data(), step.q.size()},
                             {DType::float32, of_k, step.k.data(), posenc::count(of_k)}};
      const View outputs[] = {posenc::view(out, of_bias)};
      session.run(inputs, outputs);
    };
    if (i % 2 == 0) took[0].push_back(microseconds([&] { model.run(axes, out); }));
    took[1].push_back(microseconds(with_memory));
    if (i % 2 == 1) took[0].push_back(microseconds([&] { model.run(axes, out); }));
  }
  for (auto& times : took) {
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(calls / 10), times.end());
    std::cout << times[calls / 10] << " us\n";
  }
}

}  // namespace

int main(int count, char** words) {
  bias(words[1]);
  try {
    kept(words[1]);
  } catch (const posenc::Error& error) {
    std::cout << error.what() << '\n';
  }
  scores(words[2]);
  if (count > 3) timed(words[1], std::strtoul(words[3], nullptr, 10));
}
