// What the class of a bundle refuses, a line each, with its kind: for sinusoidal with --positions offset, and for rope.
// misuse GRAPH ROPE OTHER: OTHER is the graph of something else.
// misuse load NAME GRAPH...: load graphs, from a file and from memory, into the class NAME (half or bfloat); what stands
// behind "any" is loaded whatever it says that it is.
#include <fstream>
#include <iostream>
#include <iterator>

#include "bfloat.hpp"
#include "half.hpp"
#include "offset.hpp"

namespace {

using posenc::ErrorKind;
using posenc::offset::Model;

const char* const kinds[] = {"none", "bad_argument", "out_of_range", "bad_file", "device", "runtime", "memory"};

void say(const char* what, ErrorKind kind, const std::string& message) {
  std::cout << what << ": " << kinds[static_cast<int>(kind)] << ": " << message << '\n';
}

/// Call what throws; the line is "what: kind: message".
template <class Call>
void tried(const char* what, Call&& call) {
  try {
    call();
    say(what, ErrorKind::none, "fine");
  } catch (const posenc::Error& error) {
    say(what, error.kind(), error.what());
  }
}

std::vector<unsigned char> read(const char* file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

struct Call {
  Model::Axes axes = Model::Axes().with_batch(2).with_seq(3);
  std::vector<float> x = std::vector<float>(Model::x_size(axes), 1.0F);
  std::vector<float> y = std::vector<float>(Model::y_size(axes));
  std::vector<std::int64_t> start{7};

  void on(const Model& model) { model.run(axes, x, start, y); }
};

void sizes(const Model& model) {
  Call call;
  const auto with = [&](std::int64_t batch, std::int64_t seq) {
    model.run(Model::Axes().with_batch(batch).with_seq(seq), call.x, call.start, call.y);
  };
  tried("fine", [&] { call.on(model); });
  tried("longer", [&] { with(2, 4); });
  tried("short", [&] { model.run(call.axes, call.x, call.start, posenc::Span<float>(call.y).first(5)); });
  tried("below", [&] { with(-2, -3); });
  tried("huge", [&] { with(1LL << 31, 1LL << 30); });
  tried("null", [&] { model.run(call.axes, {nullptr, 48}, call.start, call.y); });
  tried("fine again", [&] { call.on(model); });
}

void positions(const Model& model) {
  Call call;
  for (const std::int64_t start : {(1LL << 24) - 3, (1LL << 24) - 2, 1LL << 24, -1LL}) {
    call.start[0] = start;
    tried("start", [&] { call.on(model); });
  }
}

void overlap(const Model& model, const char* rope_file) {
  Call call;
  call.on(model);
  const auto expected = call.y;
  tried("in place", [&] { model.run(call.axes, call.x, call.start, call.x); });
  std::cout << "same: " << (call.x == expected) << '\n';
  std::vector<float> one(call.x.size() + 1);
  tried("beside", [&] {
    model.run(call.axes, {one.data(), 48}, call.start, {one.data() + 1, 48});
  });
  using Rope = posenc::half::Model;
  const Rope rope(rope_file);
  const auto axes = Rope::Axes().with_batch(1).with_head(1).with_head_kv(1).with_seq(1);
  std::vector<posenc::Half> q(16), k(16);
  const std::vector<std::int64_t> at{3};
  tried("both in place", [&] { rope.run(axes, q, k, at, q, k); });
  tried("crosswise", [&] { rope.run(axes, q, k, at, k, q); });
  tried("twice", [&] { rope.run(axes, q, k, at, q, q); });
}

void lifetime(const char* file) {
  Model model(file);
  Model other(std::move(model));
  Call call;
  tried("moved from", [&] { call.on(model); });  // NOLINT: that is what is tried
  tried("moved to", [&] { call.on(other); });
  model = std::move(other);
  tried("moved back", [&] { call.on(model); });
  const auto status = model.load("nowhere.onnx");
  say("not loaded", status.kind(), status.message());
  tried("as before", [&] { call.on(model); });
}

void loading(const char* file, const char* other) {
  const auto graph = read(file);
  tried("missing", [] { Model("nowhere.onnx"); });
  tried("other graph", [&] { Model model(other); });
  tried("memory", [&] {
    Call call;
    call.on(Model(graph));
  });
  const std::vector<unsigned char> noise(1000, 7);
  tried("noise", [&] { Model model(noise); });
  posenc::Options options;
  options.threads = -1;
  tried("threads", [&] { Model model(file, options); });
}

template <class Graph>
void load(int count, char** words) {
  posenc::Options options;
  for (int i = 0; i < count; ++i) {
    options.any_graph = std::string(words[i]) == "any";
    if (options.any_graph) ++i;
    Graph model;
    const auto from_file = model.load(words[i], options);
    say("file", from_file.kind(), from_file.message());
    if (std::filesystem::path(words[i]).extension() == ".pt2") continue;
    const auto from_memory = model.load(read(words[i]), options);
    say("memory", from_memory.kind(), from_memory.message());
  }
}

}  // namespace

int main(int count, char** words) {
  if (std::string(words[1]) == "load") {
    std::string(words[2]) == "half" ? load<posenc::half::Model>(count - 3, words + 3)
                                    : load<posenc::bfloat::Model>(count - 3, words + 3);
    return 0;
  }
  const Model model(words[1]);
  sizes(model);
  positions(model);
  overlap(model, words[2]);
  lifetime(words[1]);
  loading(words[1], words[3]);
}
