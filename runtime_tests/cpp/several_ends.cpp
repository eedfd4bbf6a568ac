// What the class of a bundle says of the positions of three tables, a line each: several_ends GRAPH.
#include <iostream>
#include <vector>

#include "several.hpp"

int main(int, char** arguments) {
  using posenc::several::Model;
  const Model model(arguments[1]);
  const auto axes = Model::Axes().with_batch(1).with_seq(2);
  std::vector<float> y(Model::y_size(axes));
  const std::vector<std::vector<std::int64_t>> calls{
      {0, 19, 29, 0, 24, 0}, {0, 20, 29, 0, 24, 0}, {0, 19, 30, 0, 24, 0}, {0, 19, 29, 0, 0, 25}, {0, 19, 29, -1, 24, 0}};
  for (const auto& positions : calls) {
    try {
      model.run(axes, positions, y);
      std::cout << "fine\n";
    } catch (const posenc::Error& error) {
      std::cout << error.what() << '\n';
    }
  }
}
