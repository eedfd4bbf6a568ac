#include "onnx_api.hpp"

#include <cstdlib>

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

const OrtApi* found = nullptr;

Status look_up() {
  const std::string version = OrtGetApiBase()->GetVersionString();  // 1.31.1: the API's version is the second number
  const auto minor = std::strtoul(version.c_str() + version.find('.') + 1, nullptr, 10);
  if (minor >= ORT_API_VERSION) found = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (found != nullptr) return {};
  return {ErrorKind::device, "ONNX Runtime " + version + " is older than the headers of 1." +
                                 std::to_string(ORT_API_VERSION) +
                                 " this was compiled with: give it a newer library or older headers"};
}

/// The kind of an error, by what the runtime says: what it finds out of range is the caller's number.
ErrorKind kind_of(const std::string& text, ErrorKind otherwise) {
  const bool range = text.find("out of data bounds") != std::string::npos || text.find("out of range") != std::string::npos;
  return range && otherwise == ErrorKind::runtime ? ErrorKind::out_of_range : otherwise;
}

/// CUDA's provider, for which there is no falling back to the CPU without a word.
Status add_cuda(OrtSessionOptions* options) {
  Owned<OrtCUDAProviderOptionsV2> cuda;
  auto status = taken(api().CreateCUDAProviderOptions(into(cuda)), ErrorKind::device);
  const char* key = "use_tf32";
  const char* value = "0";
  if (status.ok()) status = taken(api().UpdateCUDAProviderOptions(cuda.get(), &key, &value, 1), ErrorKind::device);
  if (!status.ok()) return status;
  return taken(api().SessionOptionsAppendExecutionProvider_CUDA_V2(options, cuda.get()), ErrorKind::device);
}

Status call_hook(const Options& options, OrtSessionOptions* made) {
  if (!options.session_options) return {};
#if POSENC_EXCEPTIONS
  try {
    options.session_options(made);
  } catch (const std::exception& error) {
    return {ErrorKind::bad_argument, "session_options failed: " + one_line(error.what())};
  }
#else
  options.session_options(made);
#endif
  return {};
}

}  // namespace

const OrtApi& api() noexcept { return *found; }

Status start() {
  static const Status once = look_up();
  return once;
}

Status taken(OrtStatus* status, ErrorKind kind) {
  if (status == nullptr) return {};
  std::string text = one_line(api().GetErrorMessage(status));
  api().ReleaseStatus(status);
  kind = kind_of(text, kind);
  return {kind, std::move(text)};
}

Status environment(OrtEnv*& env) {
  // Never released: other objects with static storage may run graphs until the very end.
  static OrtEnv* shared = nullptr;
  static const Status made = taken(api().CreateEnv(ORT_LOGGING_LEVEL_FATAL, "posenc", &shared), ErrorKind::runtime);
  env = shared;
  return made;
}

ONNXTensorElementDataType element(DType dtype) noexcept {
  switch (dtype) {
    case DType::float16: return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
    case DType::bfloat16: return ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
    case DType::float64: return ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE;
    case DType::int64: return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
    case DType::int32: return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
    case DType::boolean: return ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL;
    case DType::float32: break;
  }
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

bool find_dtype(ONNXTensorElementDataType type, DType& dtype) noexcept {
  for (const auto one : {DType::float32, DType::float16, DType::bfloat16, DType::float64, DType::int64, DType::int32,
                         DType::boolean}) {
    if (element(one) != type) continue;
    dtype = one;
    return true;
  }
  return false;
}

Status make_options(const Options& options, Owned<OrtSessionOptions>& made) {
  if (options.threads < 0) {
    return {ErrorKind::bad_argument, "threads is " + std::to_string(options.threads) + ": expected 0 or more"};
  }
  auto status = taken(api().CreateSessionOptions(into(made)), ErrorKind::runtime);
  const auto then = [&](OrtStatus* next) { status = taken(next, ErrorKind::runtime); };
  if (status.ok()) then(api().SetSessionLogSeverityLevel(made.get(), ORT_LOGGING_LEVEL_FATAL));
  if (status.ok() && options.threads > 0) then(api().SetIntraOpNumThreads(made.get(), options.threads));
  if (status.ok() && options.device == Device::cuda) status = add_cuda(made.get());
  return status.ok() ? call_hook(options, made.get()) : status;
}

}  // namespace POSENC_VERSION
}  // namespace posenc
