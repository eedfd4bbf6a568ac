// Texts, with pictures or sounds among them, as lines of stdin say: a command, then its words. What a line does is printed in
// a line. scenes FOLDER, with -DSCENE the namespace of the classes, and -DALONE where there is one graph
//
//   text              begin a text of no token          sense DIR      take what .npy files of a folder hold
//   prefill ID...     read a prompt                     batch N... : ID...   read prompts of these lengths
//   step ID...        read a token of each text         write N        write N tokens, the likeliest ones, and read them
//   read ID...        read, and the likeliest token behind each
//   clear, rewind N, part N, keep (a copy of the text), back (go on with that copy)
//   say               places, tokens, texts, and a digest of the logits
//   memory            bytes that are allocated: the program is built with AddressSanitizer, which counts them
#include <algorithm>
#include <cstring>
#include <iostream>
#include <optional>
#include <sstream>

#include "scene_graphs.hpp"

extern "C" std::size_t __sanitizer_get_current_allocated_bytes();  // of AddressSanitizer, whose headers may be elsewhere

namespace {

using Ids = std::vector<std::int64_t>;

std::string said(const posenc::Status& status) { return status.ok() ? "fine" : status.message(); }

Ids ids_of(std::istream& words) {
  Ids ids;
  for (std::int64_t id = 0; words >> id;) ids.push_back(id);
  words.clear();
  return ids;
}

std::size_t likeliest(const float* logits, std::int64_t vocabulary) {
  return static_cast<std::size_t>(std::max_element(logits, logits + vocabulary) - logits);
}

std::string write(Text& text, std::int64_t count) {
  std::ostringstream tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    Ids next;
    for (std::int64_t row = 0; row < text.batch(); ++row) {
      next.push_back(static_cast<std::int64_t>(likeliest(text.logits().data() + row * text.vocabulary(), text.vocabulary())));
      tokens << next.back() << ' ';
    }
    text.step(next);
  }
  return tokens.str();
}

std::string read(Text& text, const Ids& ids) {
  std::vector<float> scores(ids.size() * static_cast<std::size_t>(text.vocabulary()));
  const auto status = text.try_read(ids, scores);
  if (!status.ok()) return status.message();
  std::ostringstream tokens;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    tokens << likeliest(scores.data() + row * static_cast<std::size_t>(text.vocabulary()), text.vocabulary()) << ' ';
  }
  return tokens.str();
}

/// Give the tower what the files of a folder hold, whatever that is.
posenc::Status sense(Text& text, [[maybe_unused]] const Graphs& graphs, [[maybe_unused]] const std::string& folder) {
  std::vector<posenc::Array> arrays;
  std::vector<posenc::View> views;
#ifndef ALONE
  for (const auto& port : graphs.tower.session().inputs()) arrays.push_back(pictures::read_npy(folder, port));
#endif
  for (auto& array : arrays) views.push_back(posenc::view(array));
  return text.try_sense(views);
}

std::string state(const Text& text) {
  std::uint64_t digest = 14695981039346656037U;
  for (const auto logit : text.logits()) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &logit, sizeof bits);
    digest = (digest ^ bits) * 1099511628211U;
  }
  std::ostringstream line;
  line << text.places() << " places, " << text.length() << " tokens, " << text.batch() << " texts, " << std::hex << digest;
  return line.str();
}

std::string done(const Graphs& graphs, std::optional<Text>& text, std::optional<Text>& kept, const std::string& what,
                 std::istream& words) {
  std::string folder;
  std::int64_t number = 0;
  if (what == "text") return text.emplace(graphs.text()), "fine";
  if (what == "sense") return words >> folder, said(sense(*text, graphs, folder));
  if (what == "prefill") return said(text->try_prefill(ids_of(words)));
  if (what == "step") return said(text->try_step(ids_of(words)));
  if (what == "write") return words >> number, write(*text, number);
  if (what == "read") return read(*text, ids_of(words));
  if (what == "clear") return text->clear(), "fine";
  if (what == "rewind") return words >> number, said(text->try_rewind(number));
  if (what == "part") return words >> text->part, "fine";
  if (what == "keep") return kept.emplace(graphs.text()), said(kept->try_copy(*text));
  if (what == "back") return said(text->try_copy(*kept));
  if (what == "say") return state(*text);
  if (what == "memory") return std::to_string(__sanitizer_get_current_allocated_bytes());
  if (what != "batch") return "no such command";
  const auto lengths = ids_of(words);
  words >> folder;  // the colon
  return said(text->try_prefill(ids_of(words), lengths));
}

}  // namespace

int main(int, char** words) {
  const Graphs graphs{std::filesystem::path(words[1])};
  std::optional<Text> text, kept;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream rest(line);
    std::string what;
    rest >> what;
    std::cout << done(graphs, text, kept, what, rest) << std::endl;
  }
}
