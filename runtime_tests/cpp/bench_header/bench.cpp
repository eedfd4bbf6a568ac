// One graph, by raw calls of ONNX Runtime on one thread, and by its header, by turns in one process; see bench_header.py.
//   bench model.onnx SEQ, or of a rotary header: bench model.onnx HEADS SEQ TO_TOKEN TO_HEAD HEADS_FIRST
// Prints medians, in microseconds, of ONNX Runtime, the header and a copy of the same bytes. Status 1: other bits.
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "model.hpp"

using Clock = std::chrono::steady_clock;
using Floats = std::vector<float>;

static double seconds(const std::function<void()>& call, int calls) {
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double>(Clock::now() - start).count() / calls;
}

static double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// The median time of a call, in a tenth of a second; short calls are timed together, so that the clock costs nothing.
static double one_turn(const std::function<void()>& call) {
  const int calls = std::max(1, static_cast<int>(2e-5 / std::max(1e-8, seconds(call, 3))));
  std::vector<double> times;
  for (const auto start = Clock::now(); Clock::now() - start < std::chrono::milliseconds(100);)
    times.push_back(seconds(call, calls));
  return median(times);
}

// Inputs and outputs of the graph: all are alike.
struct Graph {
  Ort::Env env{ORT_LOGGING_LEVEL_ERROR};
  Ort::Session session{nullptr};
  std::vector<std::string> names[2];
  std::vector<const char*> pointers[2];
  std::vector<Ort::Value> values[2];

  Graph(const char* path, std::vector<Floats>& in, std::vector<Floats>& out, const std::vector<std::int64_t>& shape) {
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(1);
    options.SetInterOpNumThreads(1);
    session = Ort::Session(env, path, options);
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    std::vector<Floats>* arrays[] = {&in, &out};
    Ort::AllocatorWithDefaultOptions allocator;
    for (int side = 0; side < 2; ++side) {
      for (std::size_t i = 0; i < in.size(); ++i) {
        const auto name = side ? session.GetOutputNameAllocated(i, allocator) : session.GetInputNameAllocated(i, allocator);
        names[side].emplace_back(name.get());
        Floats& array = (*arrays[side])[i];
        values[side].push_back(Ort::Value::CreateTensor<float>(memory, array.data(), array.size(), shape.data(), shape.size()));
      }
      for (const auto& name : names[side]) pointers[side].push_back(name.c_str());
    }
  }

  void run() {
    session.Run(Ort::RunOptions{nullptr}, pointers[0].data(), values[0].data(), values[0].size(), pointers[1].data(),
                values[1].data(), values[1].size());
  }
};

int main(int, char** words) {
  std::vector<std::size_t> sizes;
  for (char** word = words + 2; *word; ++word) sizes.push_back(std::strtoull(*word, nullptr, 10));
#if defined(ROTARY)
  const std::size_t tensors = 2, heads = sizes[0], seq = sizes[1], to_token = sizes[2], to_head = sizes[3];
  const std::size_t features = posenc::head_dim;
  std::vector<std::int64_t> shape{1, static_cast<std::int64_t>(sizes[4] ? heads : seq),
                                  static_cast<std::int64_t>(sizes[4] ? seq : heads),
                                  static_cast<std::int64_t>(features)};
#else
  const std::size_t tensors = 1, heads = 1, seq = sizes[0], features = posenc::width;
  std::vector<std::int64_t> shape{1, static_cast<std::int64_t>(seq), static_cast<std::int64_t>(features)};
#endif
  Floats x(heads * seq * features);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1013) / 1013.0F - 0.5F;
  std::vector<Floats> in(tensors, x), expected(tensors, x), out(tensors, x), copy(tensors, x);
  Graph graph(words[1], in, expected, shape);
  const std::function<void()> calls[] = {
      [&] { graph.run(); },
      [&] {
        bool fine = true;
#if defined(ROTARY)
        for (std::size_t i = 0; i < tensors; ++i)
          fine &= posenc::rotate_from(0, seq, in[i].data(), out[i].data(), heads, to_token, to_head);
#elif defined(ADD)
        fine = posenc::add(0, seq, in[0].data(), out[0].data());
#else
        fine = posenc::rows(0, seq, out[0].data());
#endif
        if (!fine) std::abort();
      },
      [&] {
        for (std::size_t i = 0; i < tensors; ++i) std::memcpy(copy[i].data(), in[i].data(), 4 * x.size());
      }};
  std::vector<double> times[3];
  for (int round = 0; round < 9; ++round)
    for (int i = 0; i < 3; ++i) times[i].push_back(one_turn(calls[i]));
  for (const auto& one : times) std::printf("%.4f ", 1e6 * median(one));
  for (std::size_t i = 0; i < tensors; ++i)
    if (std::memcmp(out[i].data(), expected[i].data(), 4 * x.size()) != 0) return 1;
  return 0;
}
