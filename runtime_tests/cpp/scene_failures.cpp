// A text with pictures after every allocation that can fail in its calls: it must be as it was, and what comes next must be
// what a text gives that never met the failure. Prints how many were tried, and a line for each that is wrong.
// scene_failures FOLDER PICTURE ID..., with -DSCENE and -DHEADER; with -DALONE there is one graph, and no picture
#include <cstring>
#include <functional>
#include <iostream>

#include "failing_memory.hpp"
#include "scene_graphs.hpp"
#include "tried.hpp"

namespace {

using posenc::ErrorKind;
using posenc::Status;
using Ids = std::vector<std::int64_t>;
using Call = std::function<Status(Text&)>;

struct Named {
  std::string name;
  Call call;
};

/// What is asked of texts, made before memory fails.
struct Asked {
  std::vector<posenc::Array> arrays;
  std::vector<posenc::View> pictures;
  Ids prompt;   // with the places of the picture
  Ids batch, lengths;
  Ids words{1, 2, 3}, step{2}, steps{2, 3};
};

Asked asked;

Status sense([[maybe_unused]] Text& text) {
#ifdef ALONE
  return {};
#else
  return text.try_sense(asked.pictures);
#endif
}
Status prefill(Text& text) { return text.try_prefill(asked.prompt); }
Status batch(Text& text) { return text.try_prefill(asked.batch, asked.lengths); }
Status words(Text& text) { return text.try_prefill(asked.words); }
Status step(Text& text) { return text.try_step(text.batch() > 1 ? asked.steps : asked.step); }

Call then(Call one, Call other) {
  return [=](Text& text) {
    auto status = one(text);
    if (!status.ok()) return status;
    return other(text);
  };
}

std::vector<Named> states() {
  return {{"fresh", [](Text&) { return Status(); }},
          {"a picture waits", sense},
          {"a picture was read", then(then(sense, prefill), step)},
          {"a picture was read, another waits", then(then(sense, prefill), sense)},
          {"words", words},
          {"a batch", then(sense, batch)}};
}

std::vector<Named> calls(const Text& other) {
  return {{"sense", sense},
          {"prefill", prefill},
          {"batch", batch},
          {"words", words},
          {"step", step},
          {"rewind", [](Text& text) { return text.try_rewind(0); }},
          {"prefill in parts", [](Text& text) { text.part = 2; auto status = prefill(text); text.part = 512; return status; }},
          {"copy", [&](Text& text) { return text.try_copy(other); }}};
}

bool same(const Text& one, const Text& other) {
  const auto a = one.logits(), b = other.logits();
  const bool bits = a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
  return bits && one.length() == other.length() && one.batch() == other.batch() && one.places() == other.places();
}

/// Whether two texts give the same from here on: with the pictures that wait, by steps, by another picture, and anew.
bool same_from_here(Text& one, Text& other) {
  bool alike = same(one, other);
  const auto both = [&](const Call& call) {
    const auto a = call(one), b = call(other);
    alike = alike && a.kind() == b.kind() && a.message() == b.message() && same(one, other);
  };
  for (const auto& call : {Call(step), Call(prefill), Call(step), Call(sense), Call(prefill), Call(step)}) both(call);
  one.clear();
  other.clear();
  for (const auto& call : {Call(sense), Call(batch), Call(step)}) both(call);
  return alike;
}

/// Let each allocation of a call fail, one after another, until none does.
Tried failed(const Graphs& graphs, bool lasting) {
  Tried tried;
  auto of_others = graphs.text();
  posenc::expect(then(sense, prefill)(of_others));
  for (const auto& state : states()) {
    for (const auto& call : calls(of_others)) {
      for (std::size_t at = 1; at < 100000; ++at) {
        auto text = graphs.text(), twin = graphs.text();
        const bool begun = state.call(text).ok() && state.call(twin).ok();
        failing = {at, lasting, 0, false};
        const auto status = call.call(text);
        const bool met = failing.failed;
        failing = {};
        if (!met) break;
        // an allocation may be one that the call does without
        const bool kept = status.ok() || same(text, twin);
        const auto again = status.ok() ? Status() : call.call(text), of_twin = call.call(twin);
        const bool refuses = !of_twin.ok();
        const bool said = status.ok() || status.kind() == ErrorKind::memory || refuses;
        tried.note(begun && kept && said && (refuses || again.ok()) && same_from_here(text, twin),
                   state.name + ", " + call.name + ", allocation " + std::to_string(at) + ": " + status.message());
      }
    }
  }
  return tried;
}

#ifndef ALONE
/// Load from folders that are not there: graphs hold what they held.
Tried loaded(const std::filesystem::path& folder) {
  Tried tried;
  posenc::Options options;
  options.threads = 1;
  Graphs graphs;
  tried.note(!graphs.text().try_prefill(asked.words).ok(), "a text of no graphs");
  tried.note(!graphs.load(folder / "nowhere", options).ok(), "a folder that is not there");
  posenc::expect(graphs.load(folder, options));
  tried.note(!graphs.load(folder / "nowhere", options).ok(), "another folder that is not there");
  auto text = graphs.text();
  tried.note(then(sense, prefill)(text).ok(), "they hold what they held");
  Graphs moved = std::move(graphs);
  auto other = moved.text();
  tried.note(then(sense, prefill)(other).ok() && same(text, other), "they are moved");
  return tried;
}

#endif

}  // namespace

int main(int count, char** given) {
  posenc::Options options;
  options.threads = 1;
  const Graphs graphs(std::filesystem::path(given[1]), options);
#ifndef ALONE
  for (const auto& port : graphs.tower.session().inputs()) asked.arrays.push_back(pictures::read_npy(given[2], port));
#endif
  for (auto& array : asked.arrays) asked.pictures.push_back(posenc::view(array));
  for (int i = 3; i < count; ++i) asked.prompt.push_back(std::stoll(given[i]));
  asked.batch = {4, 9, 10};
  asked.batch.insert(asked.batch.end(), asked.prompt.begin(), asked.prompt.end());
  asked.lengths = {3, static_cast<std::int64_t>(asked.prompt.size())};
  print("an allocation fails", failed(graphs, false));
  print("all allocations fail from one on", failed(graphs, true));
#ifndef ALONE
  print("loading", loaded(given[1]));
#endif
}
