// Every operator new of a program, its libraries' too, made to fail where `failing` says so.
#include "failing_memory.hpp"

#include <cstdlib>
#include <new>

thread_local Failing failing;

namespace {

void* allocated(std::size_t size, std::size_t alignment = alignof(std::max_align_t)) noexcept {
  if (failing.next() || size > (std::size_t(1) << 40)) return nullptr;
  size = (size + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, size == 0 ? alignment : size);
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return or_throw(allocated(size)); }
void* operator new[](std::size_t size) { return or_throw(allocated(size)); }
void* operator new(std::size_t size, std::align_val_t to) { return or_throw(allocated(size, std::size_t(to))); }
void* operator new[](std::size_t size, std::align_val_t to) { return or_throw(allocated(size, std::size_t(to))); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocated(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocated(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
