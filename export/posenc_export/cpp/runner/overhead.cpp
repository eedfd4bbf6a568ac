// What posenc::Session costs beyond ONNX Runtime's own time: overhead MODEL BATCH SEQ WIDTH. Run by hand.
//
// Both run one graph, x -> y, on the same memory, alternately; the medians of many calls are compared.
#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "session.hpp"

namespace {

template <class Call>
double microseconds(Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double>& times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

int compare(const char* file, std::vector<std::int64_t> shape) {
  const auto port = [&](const char* name) {
    return posenc::Port{name, posenc::DType::float32, {{"batch"}, {"seq"}, {"", shape[2]}}};
  };
  const posenc::Session session(file, {port("x")}, {port("y")}, posenc::Device::cpu);
  std::vector<float> x(posenc::count(shape), 1.0F);
  std::vector<float> y(x.size());

  Ort::Env env(ORT_LOGGING_LEVEL_FATAL, "overhead");
  Ort::Session bare(env, file, Ort::SessionOptions());
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  const auto value = [&](std::vector<float>& data) {
    return Ort::Value::CreateTensor<float>(memory, data.data(), data.size(), shape.data(), shape.size());
  };
  const auto in = value(x);
  auto out = value(y);
  const char* in_name = "x";
  const char* out_name = "y";

  std::vector<double> ours;
  std::vector<double> theirs;
  for (int i = 0; i < 60'000; ++i) {
    const double one = microseconds([&] {
      const posenc::View input = posenc::view("x", std::span<const float>(x), shape);
      const posenc::View output = posenc::view("y", std::span<float>(y), shape);
      session.run({&input, 1}, {&output, 1});
    });
    const double other = microseconds([&] { bare.Run(Ort::RunOptions{nullptr}, &in_name, &in, 1, &out_name, &out, 1); });
    if (i < 10'000) continue;
    ours.push_back(one);
    theirs.push_back(other);
  }
  const double run = median(theirs);
  const double session_run = median(ours);
  std::cout << "ONNX Runtime " << run << " us, posenc::Session " << session_run << " us: "
            << 100 * (session_run / run - 1) << "% more\n";
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count != 5) throw posenc::Error("expected MODEL BATCH SEQ WIDTH");
    return compare(words[1], {std::stol(words[2]), std::stol(words[3]), std::stol(words[4])});
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
