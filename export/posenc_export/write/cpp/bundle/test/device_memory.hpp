// Memory of a CUDA device, by the CUDA library that the graph's runtime has loaded anyway: it needs no headers of CUDA.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#if defined(__linux__)
#include <dlfcn.h>
#endif

#include "posenc/session.hpp"

namespace replay {

/// The functions of the CUDA runtime that are used here; all null where there is no such library.
struct CudaRuntime {
  int (*allocate)(void**, std::size_t) = nullptr;
  int (*copy)(void*, const void*, std::size_t, int) = nullptr;
  int (*release)(void*) = nullptr;

  static const CudaRuntime& get() {
    static const CudaRuntime found = find();
    return found;
  }

 private:
  static CudaRuntime find() {
    CudaRuntime cuda;
#if defined(__linux__)
    for (const char* name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so"}) {
      void* library = dlopen(name, RTLD_NOW);
      if (library == nullptr) continue;
      cuda.allocate = reinterpret_cast<decltype(allocate)>(dlsym(library, "cudaMalloc"));
      cuda.copy = reinterpret_cast<decltype(copy)>(dlsym(library, "cudaMemcpy"));
      cuda.release = reinterpret_cast<decltype(release)>(dlsym(library, "cudaFree"));
      if (cuda.allocate != nullptr && cuda.copy != nullptr && cuda.release != nullptr) return cuda;
    }
#endif
    return {};
  }
};

/// A copy of bytes on the device.
class DeviceMemory {
 public:
  /// Why there can be none, or nothing.
  static std::string missing() {
    return CudaRuntime::get().allocate != nullptr ? "" : "libcudart.so, of CUDA 12 or 13, is not found";
  }

  explicit DeviceMemory(posenc::Span<const std::byte> bytes) : size_(bytes.size()) {
    if (size_ == 0) return;
    expect(CudaRuntime::get().allocate(&data_, size_), "cudaMalloc");
    expect(CudaRuntime::get().copy(data_, bytes.data(), size_, to_device), "cudaMemcpy");
  }
  ~DeviceMemory() {
    if (data_ != nullptr) CudaRuntime::get().release(data_);
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&&) = delete;

  void* data() const { return data_; }
  void read(posenc::Span<std::byte> bytes) const {
    if (size_ != 0) expect(CudaRuntime::get().copy(bytes.data(), data_, size_, to_host), "cudaMemcpy");
  }

 private:
  static constexpr int to_device = 1;
  static constexpr int to_host = 2;

  static void expect(int status, const char* what) {
    if (status != 0) throw posenc::Error(std::string(what) + " failed: CUDA error " + std::to_string(status));
  }

  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace replay
