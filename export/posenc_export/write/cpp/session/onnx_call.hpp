// The objects of one call of ONNX Runtime, kept for the next one. Private to the session.
#pragma once

#include <array>
#include <atomic>

#include "onnx_api.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

/// ONNX Runtime's values over memory of the caller's. A call with the memory and the shapes of the one before finds them
/// made and checked; one that differs in some of them, as a step of decoding in its place of a cache, makes those anew.
/// Nothing of that memory is touched in between.
class Call {
 public:
  explicit Call(std::size_t ports) : tensors_(ports), values_(ports, nullptr) {}

  /// Whether it has values over just these tensors of a kind of memory.
  bool has(Span<const View> inputs, Span<const View> outputs, const OrtMemoryInfo& memory) const noexcept;
  /// Make values over tensors, inputs and then outputs, where those of the call before are not over the same. `zeros`:
  /// what kind of memory stands for views of none, which is kept; null: ONNX Runtime takes them as they are.
  Status wrap(Span<const View> inputs, Span<const View> outputs, const OrtMemoryInfo& memory,
              const OrtMemoryInfo* zeros);
  /// The values of all ports: inputs, then outputs.
  OrtValue** values() noexcept { return values_.data(); }

 private:
  struct Tensor {
    void* data = nullptr;
    std::size_t size = 0;
    DType dtype = DType::float32;
    std::vector<std::int64_t> shape;
    Owned<OrtValue> value;
    std::vector<std::byte> zeros;
  };
  static bool same(const Tensor& tensor, const View& view) noexcept;
  Status wrap(std::size_t index, const View& view, const OrtMemoryInfo& memory, const OrtMemoryInfo* zeros);

  const OrtMemoryInfo* memory_ = nullptr;  // null: not every value is there
  std::vector<Tensor> tensors_;
  std::vector<OrtValue*> values_;
};

/// Calls that nobody is making: as many as were ever made at once, up to some.
class Calls {
 public:
  ~Calls();
  /// Take one that nobody else has, or make one.
  std::unique_ptr<Call> take(std::size_t ports);
  void give(std::unique_ptr<Call> call) noexcept;

 private:
  std::array<std::atomic<Call*>, 16> free_ = {};
};

}  // namespace POSENC_VERSION
}  // namespace posenc
