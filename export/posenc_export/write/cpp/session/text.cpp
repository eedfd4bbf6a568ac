// The one line that a runtime's error comes down to.
#include <algorithm>

#include "posenc/session.hpp"

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

std::string_view trimmed(std::string_view line) {
  const auto first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

/// The first line that says something, or, of TorchScript, the last.
std::string_view chosen_line(std::string_view text) {
  const bool script = text.find("TorchScript interpreter") != std::string_view::npos;
  std::string_view chosen;
  while (!text.empty() && (chosen.empty() || script)) {
    const auto end = text.find('\n');
    const auto line = trimmed(text.substr(0, end));
    if (!line.empty()) chosen = line;
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return chosen;
}

/// Whether a word is a place in a source file: /a/b.cc:42
bool is_source(std::string_view word) {
  const auto colon = word.find_last_of(':');
  if (colon == std::string_view::npos || colon + 1 == word.size()) return false;
  const auto number = word.substr(colon + 1);
  if (number.find_first_not_of("0123456789") != std::string_view::npos) return false;
  const auto file = word.substr(0, colon);
  for (const std::string_view suffix : {".cc", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".inc"}) {
    if (file.size() > suffix.size() && file.substr(file.size() - suffix.size()) == suffix) return true;
  }
  return false;
}

/// Where the signature ends that ONNX Runtime writes behind a place in its sources: after the parentheses that close.
std::size_t end_of_signature(std::string_view text) {
  const auto open = text.find('(');
  if (open == std::string_view::npos || text.substr(0, open).find("onnxruntime::") == std::string_view::npos) return 0;
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth > 0) continue;
    const auto rest = text.substr(i + 1);
    return i + 1 + (rest.substr(0, 6) == " const" ? 6 : 0);
  }
  return 0;
}

}  // namespace

std::string one_line(std::string_view text) {
  auto line = chosen_line(text);
  std::string kept;
  while (!line.empty()) {
    const auto end = std::min(line.find(' '), line.size());
    const auto word = line.substr(0, end);
    line = trimmed(line.substr(end));
    if (is_source(word)) {
      line = trimmed(line.substr(end_of_signature(line)));
    } else {
      kept.append(kept.empty() ? "" : " ").append(word);
    }
  }
  return kept.empty() ? "unknown error" : kept;
}

}  // namespace POSENC_VERSION
}  // namespace posenc
