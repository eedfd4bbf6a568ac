// Session by libtorch: TorchScript files (.pt) and AOTInductor packages (.pt2).
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/cuda.h>
#include <torch/script.h>
#include <torch/version.h>

#include <cstring>
#include <optional>
#include <utility>

#include "session.hpp"

namespace posenc {
namespace {

/// Call what libtorch may refuse; its errors become ours.
template <class Call>
auto guarded(Call&& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw Error(one_line(error.what_without_backtrace()));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(one_line(error.what()));
  }
}

at::ScalarType scalar(DType dtype) {
  switch (dtype) {
    case DType::float32: return at::kFloat;
    case DType::float16: return at::kHalf;
    case DType::bfloat16: return at::kBFloat16;
    case DType::float64: return at::kDouble;
    case DType::int64: return at::kLong;
    case DType::int32: return at::kInt;
    case DType::boolean: return at::kBool;
  }
  throw Error("unknown dtype");
}

DType dtype_of(at::ScalarType type) {
  for (const auto dtype : {DType::float32, DType::float16, DType::bfloat16, DType::float64, DType::int64, DType::int32,
                           DType::boolean}) {
    if (scalar(dtype) == type) return dtype;
  }
  throw Error(std::string("the graph has an output of type ") + at::toString(type) + ", which is not supported");
}

/// Collect the tensors of an output, which may be one, or a tuple, list or dict of them, in order.
void flatten(const at::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    tensors.push_back(value.toTensor());
  } else if (value.isTuple()) {
    for (const auto& element : value.toTupleRef().elements()) flatten(element, tensors);
  } else if (value.isList()) {
    for (const at::IValue& element : value.toListRef()) flatten(element, tensors);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) flatten(entry.value(), tensors);
  } else {
    throw Error("outputs must be tensors, got " + value.tagKind());
  }
}

at::Tensor over(const View& view, at::Device device) {
  return at::for_blob(view.data, view.shape)
      .options(at::TensorOptions().dtype(scalar(view.dtype)).device(device))
      .target_device(device)
      .make_tensor();
}

/// Wait for what was started on CUDA.
void synchronise(at::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize();
}

}  // namespace

struct Session::Impl {
  Impl(const std::filesystem::path& file, Device where) : device(where == Device::cuda ? at::kCUDA : at::kCPU) {
    if (where == Device::cuda && !no_cuda().empty()) throw Error(no_cuda());
    if (file.extension() == ".pt2") {
      package.emplace(file.string());
      const auto metadata = package->get_metadata();
      const auto made_for = metadata.find("AOTI_DEVICE_KEY");
      if (where == Device::cuda && (made_for == metadata.end() || made_for->second != "cuda")) {
        throw Error(file.filename().string() + " was compiled for the CPU: it cannot run on CUDA");
      }
    } else {
      script = torch::jit::load(file.string(), device);
      script.eval();
    }
  }

  std::vector<at::Tensor> call(std::vector<at::Tensor> tensors) {
    if (package) return package->run(tensors);
    std::vector<at::Tensor> outputs;
    auto shared = script;  // a handle: calls of one module may run at once
    flatten(shared.forward({tensors.begin(), tensors.end()}), outputs);
    return outputs;
  }

  at::Device device;
  torch::jit::Module script;
  std::optional<torch::inductor::AOTIModelPackageLoader> package;
};

Session::Session(const std::filesystem::path& file, std::vector<Port> inputs, std::vector<Port> outputs, Device device)
    : inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(file, unknown)) throw Error(file.string() + " is not a file");
  guarded([&] { impl_ = std::make_unique<Impl>(file, device); });
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

namespace {

/// Run with inputs that lie in a kind of memory: as many tensors as there are outputs, on whatever device.
template <class Impl>
std::vector<at::Tensor> called(Impl& impl, std::span<const View> inputs, std::size_t outputs, Memory memory) {
  const c10::InferenceMode inference;
  std::vector<at::Tensor> tensors;
  for (const auto& view : inputs) {
    tensors.push_back(over(view, memory == Memory::device ? impl.device : at::Device(at::kCPU)).to(impl.device));
  }
  auto results = impl.call(std::move(tensors));
  if (results.size() != outputs) {
    throw Error("the graph gave " + std::to_string(results.size()) + " outputs, expected " + std::to_string(outputs));
  }
  return results;
}

}  // namespace

void Session::run(std::span<const View> inputs, std::span<const View> outputs, Memory memory) const {
  Checker checker;
  checker.check(inputs_, inputs, "input");
  checker.check(outputs_, outputs, "output");
  guarded([&] {
    const auto results = called(*impl_, inputs, outputs.size(), memory);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const View produced{dtype_of(results[i].scalar_type()), results[i].sizes().vec(), nullptr};
      if (produced.dtype != outputs[i].dtype || produced.shape != outputs[i].shape) {
        throw Error("the graph gave another dtype or shape than " + describe(outputs_[i]) + " in this call");
      }
      over(outputs[i], memory == Memory::device ? impl_->device : at::Device(at::kCPU)).copy_(results[i]);
    }
    synchronise(impl_->device);
    return 0;
  });
}

std::vector<Array> Session::run(std::span<const View> inputs) const {
  Checker().check(inputs_, inputs, "input");
  return guarded([&] {
    std::vector<Array> arrays;
    for (const auto& tensor : called(*impl_, inputs, outputs_.size(), Memory::host)) {
      const auto here = tensor.to(at::kCPU).contiguous();
      Array array{dtype_of(here.scalar_type()), here.sizes().vec(), std::vector<std::byte>(here.nbytes())};
      if (here.nbytes() > 0) std::memcpy(array.data.data(), here.const_data_ptr(), here.nbytes());
      arrays.push_back(std::move(array));
    }
    return arrays;
  });
}

std::string Session::no_cuda() {
  if (!at::hasCUDA()) return "this libtorch (" TORCH_VERSION ") has no CUDA: use one with it";
  return torch::cuda::is_available() ? "" : "libtorch finds no CUDA device: no NVIDIA driver, or no GPU";
}

std::string Session::versions() { return "libtorch " TORCH_VERSION; }

}  // namespace posenc
