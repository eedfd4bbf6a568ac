#include "identity.hpp"

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

constexpr std::size_t longest = 120;  // characters of a value in a message

/// A value of a file in a message: one line, not too long.
std::string shown(const std::string& value) {
  if (value.empty()) return "not given";
  const auto line = one_line(value);
  return line.size() <= longest ? line : line.substr(0, longest) + "...";
}

/// The words for a fact that differs: digests of weights and of code say nothing to a reader.
std::string difference(const Fact& fact, const std::string& value) {
  const std::string name = fact.name;
  if (name == "tensors") return "its tensors hold other numbers, as of other weights or of another seed";
  if (name == "code") return "its code computes something else";
  return name + " is " + shown(value) + ", expected " + shown(fact.value);
}

/// The first fact that differs; where all are the same, the id itself.
Status first_difference(Span<const Fact> made_for, const std::string& id, const LookUp& look_up, std::string& words) {
  for (std::size_t i = 1; i < made_for.size(); ++i) {
    std::string value;
    auto status = look_up(made_for[i].name, value);
    if (!status.ok()) return status;
    if (value == made_for[i].value) continue;
    words = difference(made_for[i], value);
    return {};
  }
  words = difference(made_for[0], id);
  return {};
}

}  // namespace

Status check_identity(const std::string& graph, Span<const Fact> made_for, const LookUp& look_up) {
  if (made_for.empty()) return {};
  std::string id;
  auto status = look_up(made_for[0].name, id);
  if (!status.ok() || id == made_for[0].value) return status;
  if (id.empty()) {
    return {ErrorKind::bad_file, graph + " does not say which graph it is: it has no posenc.id, as where an optimizer drops "
                                         "metadata; Options::any_graph loads it all the same"};
  }
  std::string words;
  status = first_difference(made_for, id, look_up, words);
  if (!status.ok()) return status;
  return {ErrorKind::bad_file, graph + " is another graph than this class was made for: " + words};
}

}  // namespace POSENC_VERSION
}  // namespace posenc
