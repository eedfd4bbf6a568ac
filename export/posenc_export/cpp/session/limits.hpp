// Positions held against the end of their table. Private to the session.
#pragma once

#include "posenc/tensor.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

/// Whether every integer of an input is at least 0, and the last of `counted` positions from it below the end of the
/// port's limit.
bool keeps_limit(const Port& port, const View& view, std::int64_t counted) noexcept;
/// The words for the first that is not: the integer as the caller gave it, and where.
Status explain_limit(const Port& port, const View& view, std::int64_t counted);

}  // namespace POSENC_VERSION
}  // namespace posenc
