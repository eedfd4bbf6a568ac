// Session by libtorch: TorchScript files (.pt) and AOTInductor packages (.pt2).
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/cuda.h>
#include <torch/script.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "contract.hpp"
#include "package.hpp"
#include "torch_archive.hpp"

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

/// What libtorch said, as a status: of `kind`, or of memory if the text says so. Releases and systems differ in the words
/// for a tensor without memory, and TorchScript hands these words on in errors of its own.
Status status_of(ErrorKind kind, std::string text) {
  for (const auto* words : {"can't allocate memory", "not enough memory", "bad_alloc"}) {
    if (text.find(words) != std::string::npos) kind = ErrorKind::memory;
  }
  return {kind, std::move(text)};
}

/// Call what libtorch may refuse; its errors become a status of a kind.
template <class Call>
Status guarded(ErrorKind kind, Call&& call) {
  try {
    call();
    return {};
  } catch (const c10::OutOfMemoryError& error) {
    return {ErrorKind::memory, one_line(error.what_without_backtrace())};
  } catch (const c10::Error& error) {
    return status_of(kind, one_line(error.what_without_backtrace()));
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  } catch (const std::bad_alloc&) {
    throw;  // whoever catches it needs no memory for its words
  } catch (const std::exception& error) {
    return status_of(kind, one_line(error.what()));
  }
}

at::ScalarType scalar(DType dtype) {
  switch (dtype) {
    case DType::float16: return at::kHalf;
    case DType::bfloat16: return at::kBFloat16;
    case DType::float64: return at::kDouble;
    case DType::int64: return at::kLong;
    case DType::int32: return at::kInt;
    case DType::boolean: return at::kBool;
    case DType::float32: break;
  }
  return at::kFloat;
}

DType dtype_of(at::ScalarType type) {
  for (const auto dtype : {DType::float32, DType::float16, DType::bfloat16, DType::float64, DType::int64, DType::int32,
                           DType::boolean}) {
    if (scalar(dtype) == type) return dtype;
  }
  throw Error(std::string("the graph has an output of type ") + at::toString(type) + ", which is not supported",
              ErrorKind::bad_file);
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
    throw Error("outputs must be tensors, got " + value.tagKind(), ErrorKind::bad_file);
  }
}

at::Tensor over(const View& view, at::Device device) {
  return at::for_blob(view.data, at::IntArrayRef(view.shape.data(), view.shape.size()))
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
  Contract contract;
  at::Device device = at::kCPU;
  torch::jit::Module script;
  std::optional<torch::inductor::AOTIModelPackageLoader> package;
  at::Tensor kept;  // zeros
  std::mutex kept_growing;

  void open(const std::filesystem::path& file) {
    if (file.extension() == ".pt2") {
      expect_made_for(device.is_cuda() ? Device::cuda : Device::cpu, file, facts_of_package(file));
      package.emplace(file.string());
    } else {
      script = torch::jit::load(file.string(), device);
      script.eval();
    }
  }

  void open(const Bytes& graph) {
    if (is_package(graph)) throw Error("an AOTInductor package is loaded from its file: give the path", ErrorKind::bad_file);
    script = torch::jit::load(readable(graph), device);
    script.eval();
  }

  /// Zeros of a view's shape: one number for all of them, or, for a package, which reads no strides, memory that is kept.
  at::Tensor zeros(const View& view) {
    const at::IntArrayRef shape(view.shape.data(), view.shape.size());
    const auto options = at::TensorOptions().dtype(scalar(view.dtype)).device(device);
    if (!package) return at::zeros({}, options).expand(shape);
    const auto bytes = static_cast<std::int64_t>(count(view.shape) * size_of(view.dtype));
    const std::lock_guard<std::mutex> growing(kept_growing);
    if (!kept.defined() || kept.numel() < bytes) kept = at::zeros({bytes}, options.dtype(at::kByte));
    return kept.slice(0, 0, bytes).view(scalar(view.dtype)).view(shape);
  }

  std::vector<at::Tensor> call(const std::vector<at::Tensor>& tensors) {
    if (package) return package->run(tensors);
    std::vector<at::Tensor> outputs;
    auto shared = script;  // a handle: calls of one module may run at once
    flatten(shared.forward({tensors.begin(), tensors.end()}), outputs);
    return outputs;
  }

  /// Run with inputs that lie in a kind of memory: as many tensors as there are outputs, on whatever device.
  std::vector<at::Tensor> called(Span<const View> inputs, Memory memory) {
    const c10::InferenceMode inference;
    std::vector<at::Tensor> tensors;
    for (const auto& view : inputs) {
      tensors.push_back(view.data == nullptr ? zeros(view) : over(view, place(memory)).to(device));
    }
    auto results = call(tensors);
    for (auto& result : results) {  // one that is an input itself would change while outputs are written in its place
      const auto of_input = [&](const at::Tensor& tensor) { return result.is_alias_of(tensor); };
      if (std::any_of(tensors.begin(), tensors.end(), of_input)) result = result.clone();
    }
    const auto expected = contract.outputs().size();
    if (results.size() == expected) return results;
    throw Error("the graph gave " + std::to_string(results.size()) + " outputs, expected " + std::to_string(expected),
                ErrorKind::bad_file);
  }

  /// Where tensors of a kind of memory lie.
  at::Device place(Memory memory) const { return memory == Memory::device ? device : at::Device(at::kCPU); }
};

namespace {

/// Throw Error where there is no such file.
void expect_file(const std::filesystem::path& file) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(file, unknown)) throw Error(file.string() + " is not a file", ErrorKind::bad_file);
}
void expect_file(const Bytes&) {}

/// Throw Error where an archive is another graph than the one that is meant. Nothing of it is loaded for that.
template <class Source>
void expect_identity(const Source& source, Span<const Fact> made_for) {
  if (made_for.empty()) return;
  Archive archive(source);
  expect(check_identity(archive, name_of(source), made_for));
}

/// Throw Error for options that libtorch has not.
void expect_options(const Options& options) {
  if (options.threads != 0) {
    throw Error("threads is ONNX Runtime's: libtorch has one number for all of a program, at::set_num_threads");
  }
  if (options.env != nullptr || options.session_options) {
    throw Error("env and session_options are ONNX Runtime's: this session was built for libtorch");
  }
  const bool cuda = options.device == Device::cuda;
  if (cuda && !Session::no_cuda().empty()) throw Error(Session::no_cuda(), ErrorKind::device);
}

/// Copy a result into memory of the caller's.
void copy_into(const Port& port, const at::Tensor& result, const View& view, at::Device place) {
  const auto sizes = result.sizes();
  const bool same = dtype_of(result.scalar_type()) == view.dtype &&
                    std::equal(sizes.begin(), sizes.end(), view.shape.begin(), view.shape.end());
  if (!same) throw Error("the graph gave another dtype or shape than " + describe(port) + " in this call", ErrorKind::bad_file);
  over(view, place).copy_(result);
}

Array array_of(const at::Tensor& tensor) {
  const auto here = tensor.to(at::kCPU).contiguous();
  Array array{dtype_of(here.scalar_type()), here.sizes().vec(), std::vector<std::byte>(here.nbytes())};
  if (here.nbytes() > 0) std::memcpy(array.data.data(), here.const_data_ptr(), here.nbytes());
  return array;
}

}  // namespace

Session::Session() noexcept = default;
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

template <class Source>
Status Session::load_from(const Source& source, std::vector<Port> inputs, std::vector<Port> outputs,
                          const Options& options, Span<const Fact> made_for) noexcept {
  return detail::guarded([&] {
    auto made = std::make_unique<Impl>();
    auto status = made->contract.set(std::move(inputs), std::move(outputs));
    if (!status.ok()) return status;
    status = guarded(ErrorKind::bad_file, [&] {
      expect_options(options);
      expect_file(source);
      if (!options.any_graph) expect_identity(source, made_for);
      made->device = options.device == Device::cuda ? at::kCUDA : at::kCPU;
      made->open(source);
    });
    if (status.ok()) impl_ = std::move(made);
    return status;
  });
}

Status Session::load(const std::filesystem::path& file, std::vector<Port> inputs, std::vector<Port> outputs,
                     const Options& options, Span<const Fact> made_for) noexcept {
  return load_from(file, std::move(inputs), std::move(outputs), options, made_for);
}

Status Session::load(Bytes graph, std::vector<Port> inputs, std::vector<Port> outputs, const Options& options,
                     Span<const Fact> made_for) noexcept {
  return load_from(graph, std::move(inputs), std::move(outputs), options, made_for);
}

Status Session::try_run(Span<const View> inputs, Span<const View> outputs, Memory memory) const noexcept {
  return detail::guarded([&] {
    if (impl_ == nullptr) return no_graph();
    auto status = impl_->contract.check(inputs, outputs, impl_->place(memory).is_cpu());
    if (!status.ok()) return status;
    return guarded(ErrorKind::runtime, [&] {
      const auto results = impl_->called(inputs, memory);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        copy_into(impl_->contract.outputs()[i], results[i], outputs[i], impl_->place(memory));
      }
      synchronise(impl_->device);
    });
  });
}

Status Session::try_run(Span<const View> inputs, std::vector<Array>& outputs) const noexcept {
  return detail::guarded([&] {
    if (impl_ == nullptr) return no_graph();
    auto status = impl_->contract.check(inputs);
    if (!status.ok()) return status;
    return guarded(ErrorKind::runtime, [&] {
      std::vector<Array> arrays;
      for (const auto& tensor : impl_->called(inputs, Memory::host)) arrays.push_back(array_of(tensor));
      outputs = std::move(arrays);
    });
  });
}

const std::vector<Port>& Session::inputs() const noexcept {
  static const std::vector<Port> none;
  return impl_ == nullptr ? none : impl_->contract.inputs();
}

const std::vector<Port>& Session::outputs() const noexcept {
  static const std::vector<Port> none;
  return impl_ == nullptr ? none : impl_->contract.outputs();
}

std::string Session::unusable() { return ""; }

std::string Session::no_cuda() {
  if (!at::hasCUDA()) return "this libtorch (" TORCH_VERSION ") has no CUDA: use one with it";
  return torch::cuda::is_available() ? "" : "libtorch finds no CUDA device: no NVIDIA driver, or no GPU";
}

std::string Session::versions() { return "libtorch " TORCH_VERSION; }

}  // namespace POSENC_VERSION
}  // namespace posenc
