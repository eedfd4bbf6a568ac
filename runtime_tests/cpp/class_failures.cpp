// The class of a bundle, its session and the makers of positions after every allocation that can fail in them: what was
// loaded is loaded still, arrays and ids are as they were, and the next call is right. Prints how many were tried, and a
// line for each that is wrong. class_failures GRAPH
#include <fstream>
#include <iostream>
#include <iterator>

#include "failing_memory.hpp"
#include "toy.hpp"
#include "tried.hpp"

namespace {

using posenc::DType;
using posenc::ErrorKind;
using posenc::Status;
using posenc::toy::Model;
using Ids = std::vector<std::int64_t>;

/// Let each allocation of a call fail, one after another, until none does; of each that fails, ask whether all is right.
template <class Prepare, class Call, class Right>
void each_failing(Tried& tried, const std::string& name, ErrorKind otherwise, Prepare&& prepare, Call&& call, Right&& right) {
  for (const bool lasting : {false, true}) {
    for (std::size_t at = 1; at < 100000; ++at) {
      prepare();
      failing = {at, lasting, 0, false};
      const auto status = call();
      const bool met = failing.failed;
      failing = {};
      if (!met) break;
      const bool said = status.kind() == ErrorKind::memory || status.kind() == otherwise;
      tried.note(said && right(status), name + ", allocation " + std::to_string(at) + ": " + status.message());
    }
  }
}

/// A call of the class, of texts of so many tokens: once, into memory of its own.
struct Call {
  Model::Axes axes;
  Ids ids, mask, positions;
  std::vector<float> keys, values, logits, new_keys, new_values;

  explicit Call(std::int64_t tokens)
      : axes(Model::Axes().with_batch_size(2).with_seq(tokens).with_past(1)),
        ids(Model::input_ids_size(axes), 3),
        mask(Model::attention_mask_size(axes), 1),
        positions(Model::position_ids_size(axes), 2),
        keys(Model::past_key_values_0_key_size(axes), 0.5F),
        values(Model::past_key_values_0_value_size(axes), -2),
        logits(Model::logits_size(axes)),
        new_keys(Model::present_0_key_size(axes)),
        new_values(Model::present_0_value_size(axes)) {}

  Status on(const Model& model) {
    return model.try_run(axes, ids, mask, positions, keys, values, logits, new_keys, new_values);
  }
};

std::vector<float> logits_of(const Model& model, std::int64_t tokens) {
  Call call(tokens);
  const auto status = call.on(model);
  return status.ok() ? call.logits : std::vector<float>();
}

std::vector<unsigned char> read(const char* file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

Tried loading(const char* file, const posenc::Options& options) {
  Tried tried;
  const auto graph = read(file);
  const std::filesystem::path path = file, nowhere = "nowhere, a name that is longer than any string holds in place.onnx";
  const std::vector<unsigned char> noise(1000, 7);
  Model model, loaded;
  posenc::expect(loaded.load(path, options));
  const auto expected = logits_of(loaded, 3);
  const auto fresh = [&] { model = Model(); };
  const auto right = [&](const Status& status) {
    const bool kept = status.ok() ? model.loaded() : !model.loaded();
    return kept && model.load(graph, options).ok() && logits_of(model, 3) == expected;
  };
  each_failing(tried, "a file", ErrorKind::none, fresh, [&] { return model.load(path, options); }, right);
  each_failing(tried, "memory", ErrorKind::none, fresh, [&] { return model.load(graph, options); }, right);
  const auto none = [] {};
  const auto kept = [&](const Status&) { return loaded.loaded() && logits_of(loaded, 3) == expected; };
  each_failing(tried, "a file anew", ErrorKind::none, none, [&] { return loaded.load(path, options); }, kept);
  each_failing(tried, "no file", ErrorKind::bad_file, none, [&] { return loaded.load(nowhere, options); }, kept);
  each_failing(tried, "noise", ErrorKind::bad_file, none, [&] { return loaded.load(noise, options); }, kept);
  return tried;
}

Tried running(const Model& model) {
  Tried tried;
  const std::vector<float> expected[] = {logits_of(model, 2), logits_of(model, 5)};
  Call call(2);
  const auto right = [&](const Status&) { return logits_of(model, 5) == expected[1] && logits_of(model, 2) == expected[0]; };
  const auto none = [] {};
  // what differs from the call before is made anew
  const auto other = [&] { posenc::expect(Call(5).on(model)); };
  each_failing(tried, "a call", ErrorKind::none, other, [&] { return call.on(model); }, right);
  each_failing(tried, "the same call", ErrorKind::none, none, [&] { return call.on(model); }, right);
  Call wrong(4);
  wrong.ids[7] = 11;
  each_failing(tried, "a wrong id", ErrorKind::out_of_range, none, [&] { return wrong.on(model); }, right);
  Call small(4);
  small.mask.pop_back();
  each_failing(tried, "a short mask", ErrorKind::bad_argument, none, [&] { return small.on(model); }, right);
  return tried;
}

/// A session that gives arrays of its own.
Tried giving(const char* file, const posenc::Options& options) {
  using posenc::Port;
  Tried tried;
  const Port cached{"", DType::float32, {{"batch_size"}, {"", 1}, {"past"}, {"", 4}}};
  std::vector<Port> in{{"input_ids", DType::int64, {{"batch_size"}, {"seq"}}},
                       {"attention_mask", DType::int64, {{"batch_size"}, {"past+seq"}}},
                       {"position_ids", DType::int64, {{"batch_size"}, {"seq"}}},
                       cached,
                       cached};
  in[3].name = "past_key_values.0.key";
  in[4].name = "past_key_values.0.value";
  std::vector<Port> out{{"logits", DType::float32, {{"batch_size"}, {"seq"}, {"", 11}}}, cached, cached};
  for (auto* port : {&out[1], &out[2]}) port->axes[2].name = "past+seq";
  out[1].name = "present.0.key";
  out[2].name = "present.0.value";
  posenc::Session session;
  posenc::expect(session.load(file, in, out, options));
  Call call(3);
  const std::int64_t of_ids[] = {2, 3}, of_mask[] = {2, 4}, of_cache[] = {2, 1, 1, 4};
  const posenc::View inputs[] = {posenc::view(posenc::Span(call.ids), of_ids), posenc::view(posenc::Span(call.mask), of_mask),
                                 posenc::view(posenc::Span(call.positions), of_ids), posenc::view(posenc::Span(call.keys), of_cache),
                                 posenc::view(posenc::Span(call.values), of_cache)};
  const auto expected = session.run(inputs);
  std::vector<posenc::Array> arrays;
  const auto same = [](const posenc::Array& one, const posenc::Array& other) {
    return one.dtype == other.dtype && one.shape == other.shape && one.data == other.data;
  };
  const auto fresh = [&] { arrays.assign(1, {DType::int32, {1}, std::vector<std::byte>(4)}); };
  const auto right = [&](const Status& status) {
    const bool kept = status.ok() || (arrays.size() == 1 && arrays[0].dtype == DType::int32);
    posenc::expect(session.try_run(inputs, arrays));
    return kept && std::equal(arrays.begin(), arrays.end(), expected.begin(), expected.end(), same);
  };
  each_failing(tried, "arrays", ErrorKind::none, fresh, [&] { return session.try_run(inputs, arrays); }, right);
  return tried;
}

Tried positions() {
  Tried tried;
  Ids ids;
  std::int64_t start = 0;
  const auto fresh = [&] {
    ids.assign(4, -1);
    start = -1;
  };
  const auto kept = [&](const Status&) { return ids == Ids(4, -1) && start == -1; };
  const Ids lengths{2, 9}, past{3, 4093};
  const auto padding = posenc::Padding::left;
  each_failing(tried, "lengths", ErrorKind::bad_argument, fresh,
               [&] { return posenc::positions_from_lengths(lengths, 2, padding, 4096, ids); }, kept);
  each_failing(tried, "past", ErrorKind::out_of_range, fresh,
               [&] { return posenc::positions_from_past(past, 2, 4094, ids); }, kept);
  each_failing(tried, "start", ErrorKind::out_of_range, fresh,
               [&] { return posenc::start_from_past(4095, 2, 4096, start); }, kept);
  return tried;
}

}  // namespace

int main(int, char** words) {
  posenc::Options one;
  one.threads = 1;
  print("loading", loading(words[1], {}));
  Model model;
  posenc::expect(model.load(words[1], one));
  print("running", running(model));
  print("giving arrays", giving(words[1], one));
  print("positions", positions());
}
