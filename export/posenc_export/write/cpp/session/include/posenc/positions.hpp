/// @file
/// Ids of positions for a padded batch, and for the tokens that follow what a cache holds. Header-only: it needs no
/// session. Everything is checked before anything is written: ids are all there, or as they were.
#pragma once

#include <cstdint>
#include <string>

#include "posenc/error.hpp"
#include "posenc/span.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

/// Where a row's padding lies.
enum class Padding { left, right };

namespace detail {

inline Status bad(std::string text) { return {ErrorKind::bad_argument, std::move(text)}; }

/// "row 2: 5 tokens behind 510 are out of range: expected the last position to be at most 511"
inline Status beyond(std::size_t row, std::int64_t past, std::int64_t tokens, std::int64_t end) {
  return {ErrorKind::out_of_range, "row " + std::to_string(row) + ": " + std::to_string(tokens) + " tokens behind " +
                                       std::to_string(past) + " are out of range: expected the last position to be at most " +
                                       std::to_string(end - 1)};
}

/// Whether `tokens` positions from `past` on are all below `end`; without overflow, whatever they are.
inline bool holds(std::int64_t past, std::int64_t tokens, std::int64_t end) {
  return tokens == 0 || (tokens <= end && past <= end - tokens);
}

inline Status check_row(std::size_t row, std::int64_t past, std::int64_t tokens, std::int64_t width, std::int64_t end) {
  if (tokens < 0 || tokens > width) {
    return bad("row " + std::to_string(row) + " has length " + std::to_string(tokens) + ": expected 0 to " +
               std::to_string(width));
  }
  if (past < 0) return bad("row " + std::to_string(row) + " has past " + std::to_string(past) + ": expected 0 or more");
  return holds(past, tokens, end) ? Status() : beyond(row, past, tokens, end);
}

/// A span of `rows` times `width` ids, or what is wrong with it.
inline Status check_ids(std::size_t ids, std::size_t rows, std::int64_t width) {
  const bool fits = width >= 0 && (rows == 0 ? ids == 0 : ids % rows == 0 && ids / rows == static_cast<std::size_t>(width));
  if (fits) return {};
  return bad("there are " + std::to_string(ids) + " ids: expected " + std::to_string(rows) + " rows of " +
             std::to_string(width));
}

}  // namespace detail

/// Ids of a batch of `lengths.size()` rows, each `width` long: row b holds lengths[b] tokens, which are at past[b],
/// past[b] + 1, ... (from 0 on where `past` is empty), and padding, which gets id 0. `end` is where the table ends: every
/// position must be below it. Id: std::int64_t or std::int32_t.
template <class Id>
Status positions_of_batch(Span<const std::int64_t> lengths, Span<const std::int64_t> past, std::int64_t width,
                          Padding padding, std::int64_t end, Span<Id> ids) noexcept {
  return detail::guarded([&]() -> Status {
    auto status = detail::check_ids(ids.size(), lengths.size(), width);
    if (!status.ok()) return status;
    if (!past.empty() && past.size() != lengths.size()) {
      return detail::bad("past has " + std::to_string(past.size()) + " rows, lengths has " + std::to_string(lengths.size()));
    }
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      status = detail::check_row(b, past.empty() ? 0 : past[b], lengths[b], width, end);
      if (!status.ok()) return status;
    }
    Id* id = ids.data();
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      const std::int64_t first = padding == Padding::left ? width - lengths[b] : 0;
      for (std::int64_t t = 0; t < width; ++t) {
        const bool token = t >= first && t < first + lengths[b];
        *id++ = static_cast<Id>(token ? (past.empty() ? 0 : past[b]) + t - first : 0);
      }
    }
    return {};
  });
}

/// Ids of a padded batch from position 0 on: what a first call needs.
template <class Ids>
Status positions_from_lengths(Span<const std::int64_t> lengths, std::int64_t width, Padding padding, std::int64_t end,
                              Ids&& ids) noexcept {
  return positions_of_batch(lengths, {}, width, padding, end, Span(ids));
}

/// Ids of the next `tokens` tokens of each row, of which the cache holds past[b], padding not counted: what each step
/// of decoding needs. (Not the width of the padded batch: that is the mistake to make.)
template <class Ids>
Status positions_from_past(Span<const std::int64_t> past, std::int64_t tokens, std::int64_t end, Ids&& ids) noexcept {
  return detail::guarded([&] {
    Span to(ids);
    auto status = detail::check_ids(to.size(), past.size(), tokens);
    for (std::size_t b = 0; status.ok() && b < past.size(); ++b) {
      status = detail::check_row(b, past[b], tokens, tokens, end);
    }
    using Id = std::remove_reference_t<decltype(to[0])>;
    for (std::size_t i = 0; status.ok() && i < to.size(); ++i) {
      const auto width = static_cast<std::size_t>(tokens);
      to[i] = static_cast<Id>(past[i / width] + static_cast<std::int64_t>(i % width));
    }
    return status;
  });
}

/// The start of a call of `tokens` tokens behind `past`, for a graph that takes one: `past` itself, once it is known that
/// the last of them is held.
inline Status start_from_past(std::int64_t past, std::int64_t tokens, std::int64_t end, std::int64_t& start) noexcept {
  return detail::guarded([&] {
    auto status = detail::check_row(0, past, tokens, tokens, end);
    if (status.ok()) start = past;
    return status;
  });
}

}  // namespace POSENC_VERSION
}  // namespace posenc
