// Session by ONNX Runtime's C++ API.
#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

#include <cstdlib>
#include <utility>

#include "session.hpp"

namespace posenc {
namespace {

/// Give the C++ API its functions, once; a library older than its headers has none for it, and would crash.
void start() {
  static const bool started = [] {
    const std::string version = OrtGetApiBase()->GetVersionString();  // 1.31.1: the API's version is the second number
    const auto* api = std::atoi(version.c_str() + version.find('.') + 1) < ORT_API_VERSION
                          ? nullptr
                          : OrtGetApiBase()->GetApi(ORT_API_VERSION);
    if (api == nullptr) {
      throw Error("ONNX Runtime " + version + " is older than the headers of 1." + std::to_string(ORT_API_VERSION) +
                  " this was compiled with: give it a newer library or older headers");
    }
    Ort::InitApi(api);
    return true;
  }();
  static_cast<void>(started);
}

/// Call what ONNX Runtime may refuse; its errors become ours.
template <class Call>
auto guarded(Call&& call) {
  try {
    return call();
  } catch (const Ort::Exception& error) {
    throw Error(one_line(error.what()));
  }
}

Ort::Env& environment() {
  static Ort::Env env(ORT_LOGGING_LEVEL_FATAL, "posenc");
  return env;
}

ONNXTensorElementDataType element(DType dtype) {
  switch (dtype) {
    case DType::float32: return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    case DType::float16: return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
    case DType::bfloat16: return ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
    case DType::float64: return ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE;
    case DType::int64: return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
    case DType::int32: return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
    case DType::boolean: return ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL;
  }
  throw Error("unknown dtype");
}

DType dtype_of(ONNXTensorElementDataType type) {
  for (const auto dtype : {DType::float32, DType::float16, DType::bfloat16, DType::float64, DType::int64, DType::int32,
                           DType::boolean}) {
    if (element(dtype) == type) return dtype;
  }
  throw Error("the graph has an output of ONNX element type " + std::to_string(type) + ", which is not supported");
}

Ort::SessionOptions options_for(Device device) {
  Ort::SessionOptions options;
  options.SetLogSeverityLevel(ORT_LOGGING_LEVEL_FATAL);
  if (device == Device::cuda) {
    // Throws where CUDA cannot be used: there is no falling back to the CPU without a word.
    OrtCUDAProviderOptionsV2* cuda = nullptr;
    Ort::ThrowOnError(Ort::GetApi().CreateCUDAProviderOptions(&cuda));
    const std::unique_ptr<OrtCUDAProviderOptionsV2, void (*)(OrtCUDAProviderOptionsV2*)> owned(
        cuda, [](OrtCUDAProviderOptionsV2* one) { Ort::GetApi().ReleaseCUDAProviderOptions(one); });
    const char* key = "use_tf32";
    const char* value = "0";
    Ort::ThrowOnError(Ort::GetApi().UpdateCUDAProviderOptions(cuda, &key, &value, 1));
    options.AppendExecutionProvider_CUDA_V2(*cuda);
  }
  return options;
}

Ort::MemoryInfo memory_of(Memory memory, Device device) {
  if (memory == Memory::device && device == Device::cuda) {
    return Ort::MemoryInfo("Cuda", OrtDeviceAllocator, 0, OrtMemTypeDefault);
  }
  return Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
}

Ort::Value wrap(const Ort::MemoryInfo& memory, const View& view) {
  return Ort::Value::CreateTensor(memory, view.data, count(view.shape) * size_of(view.dtype), view.shape.data(),
                                  view.shape.size(), element(view.dtype));
}

std::vector<Ort::Value> wrapped(const Ort::MemoryInfo& memory, std::span<const View> views) {
  std::vector<Ort::Value> values;
  values.reserve(views.size());
  for (const auto& view : views) values.push_back(wrap(memory, view));
  return values;
}

Array copied(const Ort::Value& value) {
  const auto info = value.GetTensorTypeAndShapeInfo();
  Array array{dtype_of(info.GetElementType()), info.GetShape(), {}};
  const auto* first = static_cast<const std::byte*>(value.GetTensorRawData());
  array.data.assign(first, first + count(array.shape) * size_of(array.dtype));
  return array;
}

std::vector<const char*> names_of(const std::vector<Port>& ports) {
  std::vector<const char*> names;
  for (const auto& port : ports) names.push_back(port.name.c_str());
  return names;
}

/// Throw Error where the graph has not the inputs, or the outputs, that the ports name.
void expect_names(const std::vector<Port>& ports, const std::vector<std::string>& names, std::string_view kind) {
  bool same = ports.size() == names.size();
  for (std::size_t i = 0; same && i < names.size(); ++i) same = names[i] == ports[i].name;
  if (same) return;
  std::string actual;
  for (const auto& name : names) actual += (actual.empty() ? "" : ", ") + name;
  std::string wanted;
  for (const auto& port : ports) wanted += (wanted.empty() ? "" : ", ") + port.name;
  throw Error("the graph's " + std::string(kind) + "s are " + actual + ": expected " + wanted);
}

}  // namespace

struct Session::Impl {
  Impl(const std::filesystem::path& file, Device where)
      : device(where), env(environment()), session(env, file.c_str(), options_for(where)) {
    quiet.SetRunLogSeverityLevel(ORT_LOGGING_LEVEL_FATAL);
  }

  Device device;
  Ort::Env& env;  // before the options: they may log
  mutable Ort::Session session;  // its Run changes nothing and may be called from several threads
  Ort::RunOptions quiet;
  Ort::MemoryInfo host = memory_of(Memory::host, device);
};

Session::Session(const std::filesystem::path& file, std::vector<Port> inputs, std::vector<Port> outputs, Device device)
    : inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
  start();
  guarded([&] {
    impl_ = std::make_unique<Impl>(file, device);
    std::vector<std::string> input_names;
    std::vector<std::string> output_names;
    Ort::AllocatorWithDefaultOptions allocator;
    for (std::size_t i = 0; i < impl_->session.GetInputCount(); ++i) {
      input_names.emplace_back(impl_->session.GetInputNameAllocated(i, allocator).get());
    }
    for (std::size_t i = 0; i < impl_->session.GetOutputCount(); ++i) {
      output_names.emplace_back(impl_->session.GetOutputNameAllocated(i, allocator).get());
    }
    expect_names(inputs_, input_names, "input");
    expect_names(outputs_, output_names, "output");
  });
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

void Session::run(std::span<const View> inputs, std::span<const View> outputs, Memory memory) const {
  Checker checker;
  checker.check(inputs_, inputs, "input");
  checker.check(outputs_, outputs, "output");
  guarded([&] {
    if (memory == Memory::host) {
      const auto fed = wrapped(impl_->host, inputs);
      auto filled = wrapped(impl_->host, outputs);
      impl_->session.Run(impl_->quiet, names_of(inputs_).data(), fed.data(), fed.size(), names_of(outputs_).data(),
                         filled.data(), filled.size());
      return;
    }
    const auto device = memory_of(memory, impl_->device);
    Ort::IoBinding binding(impl_->session);
    for (std::size_t i = 0; i < inputs.size(); ++i) binding.BindInput(inputs_[i].name.c_str(), wrap(device, inputs[i]));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      binding.BindOutput(outputs_[i].name.c_str(), wrap(device, outputs[i]));
    }
    binding.SynchronizeInputs();
    impl_->session.Run(impl_->quiet, binding);
    binding.SynchronizeOutputs();
  });
}

std::vector<Array> Session::run(std::span<const View> inputs) const {
  Checker().check(inputs_, inputs, "input");
  return guarded([&] {
    const auto fed = wrapped(impl_->host, inputs);
    const auto values = impl_->session.Run(impl_->quiet, names_of(inputs_).data(), fed.data(), fed.size(),
                                           names_of(outputs_).data(), outputs_.size());
    std::vector<Array> arrays;
    for (const auto& value : values) arrays.push_back(copied(value));
    return arrays;
  });
}

std::string Session::no_cuda() {
  try {
    start();
    environment();
    return guarded([] {
      options_for(Device::cuda);
      return std::string();
    });
  } catch (const Error& error) {
    return error.what();
  }
}

std::string Session::versions() {
  start();
  return "ONNX Runtime " + std::string(OrtGetApiBase()->GetVersionString()) + ", headers 1." +
         std::to_string(ORT_API_VERSION);
}

}  // namespace posenc
