#include "onnx_call.hpp"

#include <algorithm>

namespace posenc {
inline namespace POSENC_VERSION {

bool Call::same(const Tensor& tensor, const View& view) noexcept {
  return tensor.data == view.data && tensor.size == view.size && tensor.dtype == view.dtype &&
         std::equal(view.shape.begin(), view.shape.end(), tensor.shape.begin(), tensor.shape.end());
}

bool Call::has(Span<const View> inputs, Span<const View> outputs, const OrtMemoryInfo& memory) const noexcept {
  if (memory_ != &memory || inputs.size() + outputs.size() != tensors_.size()) return false;
  const auto* tensor = tensors_.data();
  for (const auto& view : inputs) {
    if (!same(*tensor++, view)) return false;
  }
  for (const auto& view : outputs) {
    if (!same(*tensor++, view)) return false;
  }
  return true;
}

Status Call::wrap(Span<const View> inputs, Span<const View> outputs, const OrtMemoryInfo& memory,
                  const OrtMemoryInfo* zeros) {
  const bool kept = memory_ == &memory;
  memory_ = nullptr;
  Status status;
  std::size_t index = 0;
  for (const auto views : {inputs, outputs}) {
    for (std::size_t i = 0; status.ok() && i < views.size(); ++i, ++index) {
      if (!kept || !same(tensors_[index], views[i])) status = wrap(index, views[i], memory, zeros);
    }
  }
  if (status.ok()) memory_ = &memory;
  return status;
}

Status Call::wrap(std::size_t index, const View& view, const OrtMemoryInfo& memory, const OrtMemoryInfo* zeros) {
  auto& tensor = tensors_[index];
  tensor.data = view.data;
  tensor.size = view.size;
  tensor.dtype = view.dtype;
  tensor.shape.assign(view.shape.begin(), view.shape.end());  // its memory stays: the rank is the same in every call
  const auto bytes = count(view.shape) * size_of(view.dtype);
  const bool stands_in = view.data == nullptr && zeros != nullptr;
  if (stands_in && tensor.zeros.size() < bytes) tensor.zeros.resize(bytes);
  auto status = made(tensor.value, ErrorKind::runtime, [&](auto** place) {
    return api().CreateTensorWithDataAsOrtValue(stands_in ? zeros : &memory, stands_in ? tensor.zeros.data() : view.data,
                                                bytes, view.shape.data(), view.shape.size(), element(view.dtype), place);
  });
  values_[index] = tensor.value.get();
  return status;
}

Calls::~Calls() {
  for (auto& one : free_) delete one.load(std::memory_order_acquire);
}

std::unique_ptr<Call> Calls::take(std::size_t ports) {
  for (auto& one : free_) {
    std::unique_ptr<Call> call(one.exchange(nullptr, std::memory_order_acquire));
    if (call != nullptr) return call;
  }
  return std::make_unique<Call>(ports);
}

void Calls::give(std::unique_ptr<Call> call) noexcept {
  for (auto& one : free_) {
    Call* nobody = nullptr;
    if (one.compare_exchange_strong(nobody, call.get(), std::memory_order_release, std::memory_order_relaxed)) {
      call.release();
      return;
    }
  }
}

}  // namespace POSENC_VERSION
}  // namespace posenc
