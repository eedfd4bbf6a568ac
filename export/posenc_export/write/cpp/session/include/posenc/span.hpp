/// @file
/// Contiguous memory of somebody else: what std::span is in C++20, in C++17.
#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>

#include "posenc/version.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

/// A pointer and a number of elements. A vector, an array, a std::span: whatever has data() and size() becomes one. A list
/// of numbers, {1, 2, 3}, becomes one that is only read, and lives as long as the call that it is an argument of.
template <class T>
class Span {
  template <class Container>
  using Element = std::remove_pointer_t<decltype(std::data(std::declval<Container&>()))>;
  class NoList {
    NoList();
  };
  // not of bools: a pointer would be one, and {pointer, size} a list of two
  static constexpr bool takes_lists = std::is_const_v<T> && std::is_arithmetic_v<T> && !std::is_same_v<T, const bool>;
  using List = std::conditional_t<takes_lists, std::initializer_list<std::remove_const_t<T>>, NoList>;
  template <class Container, class E = Element<Container>>
  using Fits = std::enable_if_t<!std::is_same_v<std::decay_t<Container>, Span> && std::is_convertible_v<E (*)[], T (*)[]>>;

 public:
  constexpr Span() noexcept = default;
  constexpr Span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <class Container, class = Fits<Container>>
  constexpr Span(Container&& container) noexcept : data_(std::data(container)), size_(std::size(container)) {}
  constexpr Span(List numbers) noexcept : data_(std::data(numbers)), size_(std::size(numbers)) {}

  constexpr T* data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T* begin() const noexcept { return data_; }
  constexpr T* end() const noexcept { return data_ + size_; }
  constexpr T& operator[](std::size_t index) const noexcept { return data_[index]; }
  constexpr Span first(std::size_t count) const noexcept { return {data_, count}; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

template <class Container>
Span(Container&&) -> Span<std::remove_pointer_t<decltype(std::data(std::declval<Container&>()))>>;

/// A file's content in memory: any contiguous elements of one byte, but a string, which is a path.
class Bytes {
  template <class Container>
  using Element = std::remove_pointer_t<decltype(std::data(std::declval<const Container&>()))>;
  template <class Container, class E = Element<Container>>
  using Fits = std::enable_if_t<!std::is_same_v<Container, Bytes> && sizeof(E) == 1 &&
                                !std::is_convertible_v<const Container&, std::filesystem::path>>;

 public:
  Bytes(const void* data, std::size_t size) noexcept : data_(static_cast<const std::byte*>(data)), size_(size) {}
  template <class Container, class = Fits<Container>>
  Bytes(const Container& container) noexcept : Bytes(std::data(container), std::size(container)) {}

  const std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  const std::byte* data_;
  std::size_t size_;
};

}  // namespace POSENC_VERSION
}  // namespace posenc
