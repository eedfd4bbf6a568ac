// Positions held against the end of their table, starts against keys, numbers against their range. Private to the session.
#pragma once

#include "posenc/tensor.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

/// What a limit says of one call: how many positions count from each integer, and among how many keys; -1 where no keys
/// are.
struct Counts {
  std::int64_t positions = 1;
  std::int64_t keys = -1;
};

/// Whether there is anything that an input must keep to.
bool has_limit(const Port& port) noexcept;
/// Whether every integer of an input is at least 0, and the last of the positions from it below the end of the port's
/// limit and among the keys; or every float in its range.
bool keeps_limit(const Port& port, const View& view, const Counts& counts) noexcept;
/// The words for the first that is not: the number as the caller gave it, and where.
Status explain_limit(const Port& port, const View& view, const Counts& counts);

}  // namespace POSENC_VERSION
}  // namespace posenc
