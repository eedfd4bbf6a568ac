// How many threads a process has, as sessions are made and run: of its own, or shared.
//   threads MODEL OTHER_MODEL [own|env]
#include <onnxruntime_c_api.h>

#include <filesystem>
#include <iostream>
#include <iterator>

#include "half.hpp"
#include "offset.hpp"

namespace {

long threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

/// Make the environment of the process before any session does, without threads to share; whether that went well.
bool make_plain_environment() {
  OrtEnv* env = nullptr;
  return OrtGetApiBase()->GetApi(ORT_API_VERSION)->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "mine", &env) == nullptr;
}

}  // namespace

int main(int count, char** words) {
  const std::string how = count > 3 ? words[3] : "";
  posenc::Options options;
  if (how == "own") options.threads = 3;
  if (how == "env" && !make_plain_environment()) return 1;
  std::cout << threads();
  const posenc::offset::Model first(words[1], options);
  std::cout << ' ' << threads();
  const posenc::half::Model second(words[2], options);
  std::cout << ' ' << threads();
  const auto axes = posenc::offset::Model::Axes().with_batch(1).with_seq(2);
  std::vector<float> x(first.x_size(axes), 1), y(x.size());
  const std::vector<std::int64_t> start{3};
  first.run(axes, x, start, y);
  std::cout << ' ' << threads() << '\n';
}
