// Memory of a decoder that is asked for without exceptions, and words for what it refuses. Private to the session.
#pragma once

#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "posenc/session.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

inline Status refused(std::string text) { return {ErrorKind::bad_argument, std::move(text)}; }
inline Status beyond(std::string text) { return {ErrorKind::out_of_range, std::move(text)}; }

inline std::size_t unsigned_of(std::int64_t number) noexcept { return static_cast<std::size_t>(number); }

/// A product of sizes; where they are too many for any memory, more than there can be.
inline std::size_t product(std::size_t one, std::size_t other) noexcept {
  constexpr auto most = std::numeric_limits<std::size_t>::max();
  return other != 0 && one > most / other ? most : one * other;
}

inline std::string counted(std::int64_t number, const char* unit) {
  return std::to_string(number) + ' ' + unit + (number == 1 ? "" : "s");
}

/// Memory that is never filled with zeros: all that is read of it was written before. It is asked for without exceptions.
template <class T>
class Buffer {
 public:
  T* data() noexcept { return items_.get(); }
  const T* data() const noexcept { return items_.get(); }
  std::size_t size() const noexcept { return size_; }

  /// Have room for so many; what it held is forgotten. Where memory does not have them, it holds what it held.
  bool grow(std::size_t size) noexcept { return size <= size_ || take(size); }

  /// Give its memory back.
  void free() noexcept {
    items_.reset();
    size_ = 0;
  }

 private:
  bool take(std::size_t size) noexcept {
    if (size > unsigned_of(std::numeric_limits<std::ptrdiff_t>::max()) / sizeof(T)) return false;
    std::unique_ptr<T[]> larger(new (std::nothrow) T[size]);
    if (larger == nullptr) return false;
    items_ = std::move(larger);
    size_ = size;
    return true;
  }

  std::unique_ptr<T[]> items_;
  std::size_t size_ = 0;
};

}  // namespace POSENC_VERSION
}  // namespace posenc
