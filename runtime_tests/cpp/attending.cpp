// A decoder behind an encoder: what it writes, and its state after what it refuses and after every allocation that can
// fail. Prints the tokens of two texts, a line each, then how many were tried, and a line for each that is wrong.
// attending GRAPH
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <iostream>

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

constexpr std::int64_t features = 4;

/// States of an encoder that are the same in every language.
struct States {
  std::array<std::int64_t, 3> shape;
  std::vector<float> values;
  Ids mask;

  States(std::int64_t texts, std::int64_t tokens, Ids of_tokens = {})
      : shape{{texts, tokens, features}}, values(static_cast<std::size_t>(texts * tokens * features)), mask(std::move(of_tokens)) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 37 + 11) % 64) / 32 - 1;
  }

  Status to(Decoder& decoder) const { return decoder.try_attend(posenc::view(posenc::Span<const float>(values), shape), mask); }
};

const States& two() {
  static const States states(2, 5, {1, 1, 1, 1, 1, 1, 1, 0, 1, 0});
  return states;
}
const States& one() {
  static const States states(1, 3);
  return states;
}

const Ids prompts{3, 4, 9, 1, 2, 5}, lengths{3, 3};

Ids likeliest(const Decoder& decoder) {
  Ids ids;
  const auto all = decoder.logits();
  for (std::int64_t row = 0; row < decoder.batch(); ++row) {
    const auto* first = all.data() + row * decoder.vocabulary();
    ids.push_back(std::max_element(first, first + decoder.vocabulary()) - first);
  }
  return ids;
}

/// The tokens that are written from here on, text by text.
std::vector<Ids> written(Decoder& decoder, int count) {
  std::vector<Ids> rows(static_cast<std::size_t>(decoder.batch()));
  for (int step = 0; step < count; ++step) {
    const auto ids = likeliest(decoder);
    for (std::size_t row = 0; row < rows.size(); ++row) rows[row].push_back(ids[row]);
    decoder.step(ids);
  }
  return rows;
}

Tried writing(const Model& model) {
  Tried tried;
  auto decoder = model.decoder();
  posenc::expect(two().to(decoder));
  decoder.part = 2;  // so that prompts go through in parts
  decoder.prefill(prompts, lengths);
  auto other = model.decoder();
  other.copy(decoder);
  const auto rows = written(decoder, 12);
  for (const auto& row : rows) {
    for (const auto id : row) std::cout << id << ' ';
    std::cout << '\n';
  }
  tried.note(written(other, 12) == rows, "a copy");
  decoder.rewind(3);
  decoder.rewind(2);
  decoder.step({9, 5});
  tried.note(written(decoder, 12) == rows, "rewound");
  decoder.clear();
  decoder.prefill(prompts, lengths);
  tried.note(written(decoder, 12) == rows, "cleared");
  posenc::expect(one().to(decoder));
  tried.note(decoder.length() == 0 && decoder.batch() == 0, "new states forget the texts");
  decoder.prefill(Ids{3, 4, 9});
  const auto alone = written(decoder, 12);
  posenc::expect(two().to(decoder));
  decoder.prefill(prompts, lengths);
  tried.note(written(decoder, 12) == rows, "other states and back");
  auto fresh = model.decoder();
  posenc::expect(one().to(fresh));
  fresh.reserve(20);
  fresh.prefill(Ids{3, 4, 9});
  tried.note(written(fresh, 12) == alone, "one text, reserved");
  return tried;
}

bool same(const Decoder& a, const Decoder& b) {
  const auto x = a.logits(), y = b.logits();
  const bool bits = x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
  return bits && a.length() == b.length() && a.batch() == b.batch();
}

/// What decoders have when something goes wrong.
std::vector<Call> states() {
  const auto with = [](const States& states, Call then) {
    return [&states, then](Decoder& decoder) {
      auto status = states.to(decoder);
      if (!status.ok()) return status;
      return then(decoder);
    };
  };
  return {[](Decoder&) { return Status(); },
          with(one(), [](Decoder&) { return Status(); }),
          with(one(), [](Decoder& decoder) { return decoder.try_prefill(Ids{3, 4, 9}); }),
          with(two(), [](Decoder& decoder) { return decoder.try_prefill(prompts, lengths); })};
}

/// Whether two decoders give the same from here on, with the states that they have and with others.
bool same_from_here(Decoder& a, Decoder& b) {
  bool alike = same(a, b);
  const auto both = [&](const Call& call) {
    const auto x = call(a), y = call(b);
    alike = alike && x.kind() == y.kind() && x.message() == y.message() && same(a, b);
  };
  both([](Decoder& decoder) { return decoder.try_step(Ids(static_cast<std::size_t>(std::max<std::int64_t>(decoder.batch(), 1)), 2)); });
  both([](Decoder& decoder) { return decoder.try_prefill(Ids{1, 7}); });
  both([](Decoder& decoder) { return two().to(decoder); });
  both([](Decoder& decoder) { return decoder.try_prefill(prompts, lengths); });
  return alike;
}

Tried refused(const Model& model) {
  Tried tried;
  const States wide(1, 4), none(1, 0);
  const auto given = [](const States& from, std::array<std::int64_t, 3> shape, Ids mask = {}) {
    return [&from, shape, mask](Decoder& decoder) {
      return decoder.try_attend(posenc::view(posenc::Span<const float>(from.values), shape), mask);
    };
  };
  const std::vector<Call> refusals{given(wide, {1, 2, 8}),         given(wide, {1, 5, 4}),
                                   given(wide, {0, 4, 4}),         given(none, {1, 0, 4}),
                                   given(wide, {1, 4, 4}, {1, 1}), given(wide, {-1, -4, 4})};
  for (const auto& state : states()) {
    for (const auto& refusal : refusals) {
      auto decoder = model.decoder(), twin = model.decoder();
      const bool begun = state(decoder).ok() && state(twin).ok();
      const auto status = refusal(decoder);
      tried.note(begun && status.kind() == ErrorKind::bad_argument && same_from_here(decoder, twin), status.message());
    }
  }
  auto decoder = model.decoder();
  tried.note(decoder.try_prefill(Ids{1}).kind() == ErrorKind::bad_argument, "a prompt without states");
  posenc::expect(two().to(decoder));
  tried.note(decoder.try_prefill(Ids{1}).kind() == ErrorKind::bad_argument, "one prompt for states of two");
  tried.note(decoder.try_prefill(prompts, Ids{2, 2, 2}).kind() == ErrorKind::bad_argument, "three prompts for states of two");
  decoder.prefill(prompts, lengths);
  return tried;
}

/// Let each allocation of a call fail, one after another, then all from one on.
Tried failed(const Model& model) {
  Tried tried;
  auto of_others = model.decoder();
  posenc::expect(two().to(of_others));
  of_others.prefill(prompts, lengths);
  const Ids prompt{5, 6, 7}, ids{2, 2};  // made before memory fails
  const std::vector<Call> calls{[](Decoder& decoder) { return two().to(decoder); }, [](Decoder& decoder) { return one().to(decoder); },
                                [&](Decoder& decoder) { return decoder.try_prefill(prompt); },
                                [](Decoder& decoder) { return decoder.try_prefill(prompts, lengths); },
                                [&](Decoder& decoder) { return decoder.try_step(ids); },
                                [&](Decoder& decoder) { return decoder.try_copy(of_others); }};
  for (const bool lasting : {false, true}) {
    for (std::size_t state = 0; state < states().size(); ++state) {
      for (std::size_t call = 0; call < calls.size(); ++call) {
        for (std::size_t at = 1; at < 100000; ++at) {
          auto decoder = model.decoder(), twin = model.decoder();
          const bool begun = states()[state](decoder).ok() && states()[state](twin).ok();
          failing = {at, lasting, 0, false};
          const auto status = calls[call](decoder);
          const bool met = failing.failed;
          failing = {};
          if (!met) break;
          // an allocation may be one that the call does without
          const bool kept = status.ok() || same(decoder, twin);
          const auto again = status.ok() ? Status() : calls[call](decoder), of_twin = calls[call](twin);
          const bool refuses = !of_twin.ok();
          const bool said = status.ok() || status.kind() == ErrorKind::memory || refuses;
          tried.note(begun && kept && said && (refuses || again.ok()) && same_from_here(decoder, twin),
                     "state " + std::to_string(state) + ", call " + std::to_string(call) + ", allocation " + std::to_string(at) +
                         ": " + status.message());
        }
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
  print("writing", writing(model));
  print("refusals", refused(model));
  print("failing allocations", failed(model));
}
