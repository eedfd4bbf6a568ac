// What is wrong with the ids and the lengths of prompts, before anything of them is read. Private to the session.
#pragma once

#include <algorithm>

#include "buffer.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

/// What is wrong with ids, by their place in what the caller gave: each is below `end`; 0 where nobody knows it.
inline Status check_ids_below(Span<const std::int64_t> ids, std::int64_t end) {
  if (end == 0) return {};
  const auto* wrong = std::find_if(ids.begin(), ids.end(), [&](std::int64_t id) { return id < 0 || id >= end; });
  if (wrong == ids.end()) return {};
  const auto place = ids.size() == 1 ? "id" : "ids[" + std::to_string(wrong - ids.begin()) + "]";
  return beyond(place + " is " + std::to_string(*wrong) + ", out of range: expected 0 to " + std::to_string(end - 1));
}

/// Whether texts of `past` tokens have room for so many more, where they end at `end`; 0 where nobody knows it.
inline Status check_length_of_text(std::int64_t past, std::int64_t tokens, std::int64_t end) {
  if (end == 0 || tokens <= end - past) return {};
  return beyond("a text of " + std::to_string(past + tokens) + " tokens is out of range: expected at most " +
                std::to_string(end) + (past == 0 ? "" : ", and " + std::to_string(past) + " are read already"));
}

/// What is wrong with the lengths of prompts that lie one behind the other in so many ids.
inline Status check_lengths(Span<const std::int64_t> lengths, std::size_t ids, std::int64_t end) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto given = "lengths[" + std::to_string(i) + "] is " + std::to_string(lengths[i]);
    if (lengths[i] < 1) return refused(given + ": expected at least one token");
    if (end != 0 && lengths[i] > end) return beyond(given + ", out of range: expected 1 to " + std::to_string(end));
    sum = lengths[i] > most - sum ? most : sum + lengths[i];
  }
  if (!lengths.empty() && unsigned_of(sum) == ids) return {};
  return refused("prompts have " + std::to_string(sum) + " tokens in all, and there are " + std::to_string(ids) + " ids");
}

}  // namespace POSENC_VERSION
}  // namespace posenc
