// The class of a bundle without exceptions: what each call returns, as a number. nothrow GRAPH OTHER
#include <cstdio>
#include <vector>

#include "half.hpp"
#include "offset.hpp"

namespace {

using posenc::offset::Model;

void say(const char* what, const posenc::Status& status) {
  std::printf("%s: %d\n", what, static_cast<int>(status.kind()));
}

posenc::Status call(const Model& model, std::int64_t start) {
  const auto axes = Model::Axes().with_batch(1).with_seq(2);
  const std::vector<float> x(Model::x_size(axes), 1.0F);
  std::vector<float> y(Model::y_size(axes));
  return model.try_run(axes, x, std::vector<std::int64_t>{start}, y);
}

/// Load the graph as if it had halves.
posenc::Status other_dtype(const char* file) {
  using posenc::DType;
  posenc::Session session;
  const posenc::Port x{"x", DType::float16, {{"batch"}, {"seq"}, {"", 8}}};
  const posenc::Port start{"start", DType::int64, {{"", 1}}};
  return session.load(file, {x, start}, {{"y", DType::float16, x.axes}});
}

}  // namespace

int main(int, char** words) {
  Model model;
  say("not loaded", call(model, 0));
  bool called = false;
  posenc::Options options;
  options.threads = 1;
  options.session_options = [&](OrtSessionOptions* made) { called = made != nullptr; };
  say("loaded", model.load(words[1], options));
  say("ran", call(model, 0));
  std::printf("hook: %d\n", called);
  say("other dtype", other_dtype(words[1]));
  say("far", call(model, 1 << 24));
}
