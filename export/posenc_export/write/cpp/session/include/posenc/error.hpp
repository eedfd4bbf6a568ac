/// @file
/// What went wrong: a Status that is returned, and the Error that is thrown where there are exceptions.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "posenc/version.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

enum class ErrorKind {
  none,
  bad_argument,  ///< a size, a dtype, memory that overlaps, an option
  out_of_range,  ///< a position, a start or a length that the graph does not hold
  bad_file,      ///< no file, a damaged one, the graph of something else
  device,        ///< CUDA cannot be used, this CPU cannot run the file, or the runtime is older than its headers
  runtime,       ///< what ONNX Runtime or libtorch itself refused in a call
  memory,        ///< there is not enough memory: nothing has changed, and the same call may go well later
};

/// How a call went: its kind, and one line of text where it is not `none`.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

  bool ok() const noexcept { return kind_ == ErrorKind::none; }
  explicit operator bool() const noexcept { return ok(); }
  ErrorKind kind() const noexcept { return kind_; }
  const std::string& message() const noexcept { return message_; }

 private:
  ErrorKind kind_ = ErrorKind::none;
  std::string message_;
};

namespace detail {

/// Call what returns a Status; what it throws becomes one. The texts of this are so short that no string asks for memory.
template <class Call>
Status guarded(Call&& call) noexcept {
#if POSENC_EXCEPTIONS
  try {
    try {
      return call();
    } catch (const std::bad_alloc&) {
      return {ErrorKind::memory, "out of memory"};
    } catch (const std::length_error&) {  // of a vector that no memory holds
      return {ErrorKind::memory, "out of memory"};
    } catch (const std::exception& error) {
      return {ErrorKind::runtime, error.what()};
    }
  } catch (const std::bad_alloc&) {
    return {ErrorKind::memory, "out of memory"};
  } catch (...) {
    return {ErrorKind::runtime, "unknown error"};
  }
#else
  return call();
#endif
}

}  // namespace detail

#if POSENC_EXCEPTIONS
/// What went wrong, in one line.
class POSENC_VISIBLE Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ErrorKind kind = ErrorKind::bad_argument)
      : std::runtime_error(message), kind_(kind) {}

  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// Throw what a status says, if it is not ok.
inline void expect(const Status& status) {
  if (!status.ok()) throw Error(status.message(), status.kind());
}
#endif

}  // namespace POSENC_VERSION
}  // namespace posenc
