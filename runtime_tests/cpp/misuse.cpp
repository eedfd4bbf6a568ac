// What the class of a bundle refuses, a line each: for sinusoidal with --positions offset.
#include <iostream>

#include "posenc_model.hpp"

namespace {

template <class Call>
void tried(Call&& call) {
  try {
    call();
    std::cout << "fine\n";
  } catch (const posenc::Error& error) {
    std::cout << error.what() << '\n';
  }
}

}  // namespace

int main(int, char** words) {
  tried([] { posenc::Model("nowhere.onnx"); });
  const posenc::Model model(words[1]);
  const posenc::Model::Axes axes{.batch = 2, .seq = 3};
  const std::vector<float> x(posenc::Model::x_size(axes));
  std::vector<float> y(posenc::Model::y_size(axes));
  std::vector<std::int64_t> start{7};
  tried([&] { model.run(axes, x, start, y); });
  tried([&] { model.run({.batch = 2, .seq = 4}, x, start, y); });
  tried([&] { model.run(axes, x, start, std::span(y).first(5)); });
  tried([&] { model.run({.batch = -2, .seq = -3}, x, start, y); });
  tried([&] { posenc::Model::x_size({.batch = 1LL << 31, .seq = 1LL << 30}); });
  start[0] = 1 << 24;
  tried([&] { model.run(axes, x, start, y); });
  start[0] = -1;
  tried([&] { model.run(axes, x, start, y); });
}
