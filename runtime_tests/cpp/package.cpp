// A class over an AOTInductor package: loaded, refused for another CPU, refused in memory.
//   package MODEL MODEL_OF_ANOTHER_CPU
#include <fstream>
#include <iostream>
#include <iterator>

#include "packaged.hpp"

namespace {

void show(const char* what, const posenc::Status& status) {
  const char* kinds[] = {"none", "bad_argument", "out_of_range", "bad_file", "device", "runtime", "memory"};
  std::cout << what << ": " << kinds[static_cast<int>(status.kind())] << ": " << status.message() << '\n';
}

}  // namespace

int main(int, char** words) {
  using posenc::packaged::Model;
  Model model;
  show("loaded", model.load(words[1]));
  show("other CPU", model.load(words[2]));
  const auto axes = Model::Axes().with_batch(1).with_seq(2);
  std::vector<float> x(Model::x_size(axes), 1), y(Model::y_size(axes));
  const std::vector<std::int64_t> start{3};
  show("as before", model.try_run(axes, x, start, y));
  std::ifstream file(words[1], std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  show("memory", model.load(posenc::Bytes(bytes.data(), bytes.size())));
}
