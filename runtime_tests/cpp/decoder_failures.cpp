// A decoder after what it refuses, and after every allocation that can fail in its calls: its texts must be as they were,
// and what comes next must be what a decoder gives that never met the failure. Prints how many were tried, and a line for
// each that is wrong. decoder_failures GRAPH
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>

#include "failing_memory.hpp"
#include "toy.hpp"
#include "tried.hpp"

namespace {

using posenc::Decoder;
using posenc::ErrorKind;
using posenc::Status;
using posenc::toy::Model;
using Ids = std::vector<std::int64_t>;
using Call = std::function<Status(Decoder&)>;

struct Named {
  std::string name;
  Call call;
};

constexpr auto most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t end = Model::position_ids_end;

Ids text(std::int64_t tokens) {
  Ids ids;
  for (std::int64_t i = 0; i < tokens; ++i) ids.push_back((7 * i + 3) % Model::input_ids_end);
  return ids;
}

Ids changed(Ids ids, std::size_t at, std::int64_t id) {
  ids[at] = id;
  return ids;
}

Call prefill(Ids ids) {
  return [=](Decoder& decoder) { return decoder.try_prefill(ids); };
}
Call prefill(Ids ids, Ids lengths) {
  return [=](Decoder& decoder) { return decoder.try_prefill(ids, lengths); };
}
/// Reads with the scores of each token; room for them is asked for before anything fails.
Call scored(Ids ids, std::size_t rows) {
  const auto room = std::make_shared<std::vector<float>>(rows * static_cast<std::size_t>(Model::input_ids_end));
  return [=](Decoder& decoder) { return decoder.try_read(ids, *room); };
}
Call step(Ids ids) {
  return [=](Decoder& decoder) { return decoder.try_step(ids); };
}
Call reserve(std::int64_t tokens) {
  return [=](Decoder& decoder) { return decoder.try_reserve(tokens); };
}
Call rewind(std::int64_t tokens) {
  return [=](Decoder& decoder) { return decoder.try_rewind(tokens); };
}
Call in_parts(std::int64_t part, Call call) {
  return [=](Decoder& decoder) {
    const auto before = decoder.part;
    decoder.part = part;
    auto status = call(decoder);
    decoder.part = before;
    return status;
  };
}
Call then(Call one, Call other) {
  return [=](Decoder& decoder) {
    auto status = one(decoder);
    if (!status.ok()) return status;  // moved: a copy of its message would ask for memory
    return other(decoder);
  };
}

/// What decoders have read when something goes wrong.
std::vector<Named> states() {
  const Call one = prefill(text(5)), three = prefill(text(9), {3, 1, 5});
  return {{"fresh", [](Decoder&) { return Status(); }},
          {"one text", one},
          {"one text, two steps", then(one, then(step({4}), step({10})))},
          {"one text in parts", in_parts(2, prefill(text(11)))},
          {"reserved", then(reserve(end), one)},
          {"a batch", three},
          {"a batch, a step", then(in_parts(2, three), step({1, 2, 3}))},
          {"one text, rewound", then(prefill(text(9)), rewind(4))},
          {"a batch, rewound", then(three, then(step({1, 2, 3}), rewind(3)))},
          {"all but one", prefill(text(end - 1))},
          {"full", prefill(text(end))},
          {"cleared", then(three, [](Decoder& decoder) { decoder.clear(); return Status(); })}};
}

/// What no decoder takes, whatever it has read.
std::vector<Named> refusals() {
  std::vector<Named> all{{"no token", prefill(Ids{})},
                         {"no prompt", prefill(Ids{}, Ids{})},
                         {"ids without lengths", prefill(text(3), Ids{})},
                         {"a prompt of none", prefill(text(3), {3, 0})},
                         {"a length below 0", prefill(text(3), {4, -1})},
                         {"lengths of too few", prefill(text(3), {1, 1})},
                         {"lengths of too many", prefill(text(3), {3, 1})},
                         {"lengths beyond numbers", prefill(text(3), {most, most, 5})},
                         {"lengths that come round", prefill(text(3), {most, most, 3 + 2})},
                         {"a long one in a batch", prefill(text(end + 3), {2, end + 1})},
                         {"a late wrong id in a batch", prefill(changed(text(9), 8, 11), {3, 1, 5})},
                         {"a step of none", step(Ids{})},
                         {"a step of two", step({1, 2})},
                         {"a step of a wrong id", step({11})},
                         {"a step of three, one wrong", step({1, 2, -1})},
                         {"reserve below 0", reserve(-7)},
                         {"reserve of the least", reserve(std::numeric_limits<std::int64_t>::min())},
                         {"reserve beyond the end", reserve(end + 1)},
                         {"reserve of 2^50", reserve(std::int64_t(1) << 50)},
                         {"rewind below 0", rewind(-1)},
                         {"rewind beyond the text", rewind(end + 1)},
                         {"scores without room", scored(text(3), 2)},
                         {"scores of no token", scored(Ids{}, 0)},
                         {"scores of a late wrong id", in_parts(2, scored(changed(text(9), 8, 11), 9))},
                         {"parts of none", in_parts(0, prefill(text(2)))},
                         {"parts below 0", in_parts(-1, prefill(text(2), {1, 1}))}};
  for (const std::int64_t part : {1, 2, 3, 512}) {
    const auto of = " in parts of " + std::to_string(part);
    all.push_back({"a late wrong id" + of, in_parts(part, prefill(changed(text(12), 11, 999)))});
    all.push_back({"a wrong id" + of, in_parts(part, prefill(changed(text(12), 5, -1)))});
    all.push_back({"the least id" + of, in_parts(part, prefill(changed(text(12), 0, std::numeric_limits<std::int64_t>::min())))});
    all.push_back({"one too many" + of, in_parts(part, prefill(text(end + 1)))});
    all.push_back({"far too many" + of, in_parts(part, prefill(text(3000)))});
  }
  return all;
}

/// What a decoder takes unless it is full or of another kind of text.
std::vector<Named> calls() {
  return {{"step", step({6})},
          {"step of three", step({6, 0, 9})},
          {"prefill", prefill(text(9))},
          {"prefill in parts", in_parts(2, prefill(text(9)))},
          {"scores", scored(text(9), 9)},
          {"scores in parts", in_parts(2, scored(text(9), 9))},
          {"prefill of the rest", in_parts(3, prefill(text(end - 5)))},
          {"batch", prefill(text(11), {4, 1, 6})},
          {"batch in parts", in_parts(2, prefill(text(11), {4, 1, 6}))},
          {"reserve and step", then(reserve(end), step({6}))}};
}

bool same(const Decoder& one, const Decoder& other) {
  const auto a = one.logits(), b = other.logits();
  const bool bits = a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
  return bits && one.length() == other.length() && one.batch() == other.batch();
}

/// Whether two decoders give the same from here on: by steps, by a prompt, and with a text of their own afterwards.
bool same_from_here(Decoder& one, Decoder& other) {
  bool alike = same(one, other);
  const auto both = [&](const Call& call) {
    const auto a = call(one), b = call(other);
    alike = alike && a.kind() == b.kind() && a.message() == b.message() && same(one, other);
  };
  both(one.batch() > 1 ? step({2, 5, 8}) : step({2}));
  both(in_parts(2, prefill(text(5))));
  both(one.batch() > 1 ? step({0, 5, 1}) : step({4}));
  one.clear();
  other.clear();
  both(prefill(text(7), {2, 5}));
  both(step({3, 3}));
  return alike;
}

Tried refused(const Model& model) {
  Tried tried;
  for (const auto& state : states()) {
    for (const auto& refusal : refusals()) {
      auto decoder = model.decoder(), twin = model.decoder();
      const bool begun = state.call(decoder).ok() && state.call(twin).ok();
      const auto logits = decoder.logits();
      const auto status = refusal.call(decoder);
      const bool kept = decoder.logits().data() == logits.data() && same(decoder, twin);
      const bool said = status.kind() == ErrorKind::bad_argument || status.kind() == ErrorKind::out_of_range;
      tried.note(begun && kept && said && same_from_here(decoder, twin), state.name + ", " + refusal.name + ": " + status.message());
    }
  }
  return tried;
}

/// Let each allocation of a copy fail: the texts of a decoder are its own until it has all of the other's.
Tried copied(const Model& model) {
  Tried tried;
  for (const auto& state : states()) {
    for (const auto& theirs : states()) {
      for (std::size_t at = 1; at < 100000; ++at) {
        auto decoder = model.decoder(), twin = model.decoder(), other = model.decoder();
        const bool begun = state.call(decoder).ok() && state.call(twin).ok() && theirs.call(other).ok();
        failing = {at, false, 0, false};
        const auto status = decoder.try_copy(other);
        const bool met = failing.failed;
        failing = {};
        auto& like = status.ok() ? other : twin;
        tried.note(begun && (status.ok() || status.kind() == ErrorKind::memory) && same_from_here(decoder, like),
                   state.name + " copies " + theirs.name + ", allocation " + std::to_string(at) + ": " + status.message());
        if (!met) break;
      }
    }
  }
  return tried;
}

/// Let each allocation of a call fail, one after another, until none does.
Tried failed(const Model& model, bool lasting) {
  Tried tried;
  for (const auto& state : states()) {
    for (const auto& call : calls()) {
      for (std::size_t at = 1; at < 100000; ++at) {
        auto decoder = model.decoder(), twin = model.decoder();
        const bool begun = state.call(decoder).ok() && state.call(twin).ok();
        failing = {at, lasting, 0, false};
        const auto status = call.call(decoder);
        const bool met = failing.failed;
        failing = {};
        if (!met) break;
        // an allocation may be one that the call does without
        const bool kept = status.ok() || same(decoder, twin);
        const auto again = status.ok() ? Status() : call.call(decoder), of_twin = call.call(twin);
        const bool refuses = !of_twin.ok();
        const bool said = status.ok() || status.kind() == ErrorKind::memory || refuses;
        tried.note(begun && kept && said && (refuses || again.ok()) && same_from_here(decoder, twin),
                   state.name + ", " + call.name + ", allocation " + std::to_string(at) + ": " + status.message());
      }
    }
  }
  return tried;
}

}  // namespace

int main(int, char** words) {
  posenc::Options options;
  options.threads = 1;
  Model model;
  posenc::expect(model.load(words[1], options));
  print("refusals", refused(model));
  print("an allocation fails", failed(model, false));
  print("all allocations fail from one on", failed(model, true));
  print("copies", copied(model));
}
