#include "onnx_api.hpp"

#include <cstdlib>
#include <mutex>

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
  const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
  if (says("bad_alloc") || says("Failed to allocate memory") || says("out of memory")) return ErrorKind::memory;
  const bool range = says("out of data bounds") || says("out of range");
  return range && otherwise == ErrorKind::runtime ? ErrorKind::out_of_range : otherwise;
}

/// Why CUDA cannot be used; of what the loader of libraries says, the name of the one that is missing.
Status no_cuda(const Status& status) {
  if (status.ok()) return status;
  const auto& text = status.message();
  const auto end = text.find(": cannot open shared object file");
  if (end == std::string::npos) return {ErrorKind::device, "no CUDA: " + text};
  const auto first = text.find_last_of(" /", end) + 1;
  return {ErrorKind::device, "no CUDA: " + text.substr(first, end - first) + " is not found"};
}

/// CUDA's provider, for which there is no falling back to the CPU without a word.
Status add_cuda(OrtSessionOptions* options) {
  Owned<OrtCUDAProviderOptionsV2> cuda;
  auto status = made(cuda, ErrorKind::device, [](auto** place) { return api().CreateCUDAProviderOptions(place); });
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
  } catch (...) {
    return {ErrorKind::bad_argument, "session_options failed: it threw what is no exception"};
  }
#else
  options.session_options(made);
#endif
  return {};
}

/// An environment, with threads to share if those are asked for. A process has one: where the program has made it before,
/// that is taken as it is.
Status make_environment(bool with_threads, OrtEnv*& env) {
  Status status;
  const auto then = [&](OrtStatus* next) { status = taken(next, ErrorKind::runtime); };
  if (!with_threads) {
    then(api().CreateEnv(ORT_LOGGING_LEVEL_FATAL, "posenc", &env));
    return status.ok() && env == nullptr ? no_memory() : status;
  }
  Owned<OrtThreadingOptions> threads;
  status = made(threads, ErrorKind::runtime, [](auto** place) { return api().CreateThreadingOptions(place); });
  if (status.ok()) then(api().SetGlobalInterOpNumThreads(threads.get(), 1));  // of operators side by side: none
  if (status.ok()) then(api().CreateEnvWithGlobalThreadPools(ORT_LOGGING_LEVEL_FATAL, "posenc", threads.get(), &env));
  return status.ok() && env == nullptr ? no_memory() : status;
}

}  // namespace

const OrtApi& api() noexcept { return *found; }

Status start() {
  static const Status once = look_up();
  return once;
}

Status taken(OrtStatus* status, ErrorKind kind) {
  if (status == nullptr) return {};
  const Owned<OrtStatus> released(status);
  std::string text = one_line(api().GetErrorMessage(status));
  kind = kind_of(text, kind);
  return {kind, std::move(text)};
}

Status no_memory() { return {ErrorKind::memory, "out of memory"}; }

Status take_text(OrtAllocator* allocator, char* text, std::string& copy) {
  if (text == nullptr) return no_memory();
  const auto give_back = [=](char* taken) { api().ReleaseStatus(api().AllocatorFree(allocator, taken)); };
  const std::unique_ptr<char, decltype(give_back)> owned(text, give_back);
  copy = text;
  return {};
}

Status environment(bool with_threads, OrtEnv*& env) {
  // Never released: other objects with static storage may run graphs until the very end. One that fails, as where memory
  // ran out, is tried again by the next that asks.
  static std::mutex making;
  static OrtEnv* shared = nullptr;
  const std::lock_guard<std::mutex> alone(making);
  auto status = shared == nullptr ? make_environment(with_threads, shared) : Status();
  env = shared;
  return status;
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

bool may_share_threads(const Options& options) {
  return options.threads == 0 && options.env == nullptr && !options.session_options;
}

bool has_no_shared_threads(const Status& status) {
  return status.message().find("CreateEnvWithGlobalThreadPools") != std::string::npos;
}

Status make_options(const Options& options, bool share_threads, Owned<OrtSessionOptions>& made) {
  if (options.threads < 0) {
    return {ErrorKind::bad_argument, "threads is " + std::to_string(options.threads) + ": expected 0 or more"};
  }
  auto status = posenc::made(made, ErrorKind::runtime, [](auto** place) { return api().CreateSessionOptions(place); });
  const auto then = [&](OrtStatus* next) { status = taken(next, ErrorKind::runtime); };
  if (status.ok()) then(api().SetSessionLogSeverityLevel(made.get(), ORT_LOGGING_LEVEL_FATAL));
  if (status.ok() && options.threads > 0) then(api().SetIntraOpNumThreads(made.get(), options.threads));
  if (status.ok() && share_threads) then(api().DisablePerSessionThreads(made.get()));
  if (status.ok() && options.device == Device::cuda) status = no_cuda(add_cuda(made.get()));
  return status.ok() ? call_hook(options, made.get()) : status;
}

}  // namespace POSENC_VERSION
}  // namespace posenc
