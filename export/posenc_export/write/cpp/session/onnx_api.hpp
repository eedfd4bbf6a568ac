// ONNX Runtime's C API: its functions, its objects with owners, its errors as ours. Private to the session.
#pragma once

#include <onnxruntime_c_api.h>

#include <memory>
#include <string>
#include <vector>

#include "posenc/session.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

/// The functions of the library that is linked, once `start` was ok.
const OrtApi& api() noexcept;
/// Look them up; a library older than the headers of this has none for it.
Status start();
/// What ONNX Runtime answered, as a status of a kind; releases it.
Status taken(OrtStatus* status, ErrorKind kind);
/// The environment that all sessions share that are given none: the first of them says whether it has threads to share.
Status environment(bool with_threads, OrtEnv*& env);

struct Release {
  void operator()(OrtSessionOptions* one) const { api().ReleaseSessionOptions(one); }
  void operator()(OrtThreadingOptions* one) const { api().ReleaseThreadingOptions(one); }
  void operator()(OrtStatus* one) const { api().ReleaseStatus(one); }
  void operator()(OrtSession* one) const { api().ReleaseSession(one); }
  void operator()(OrtMemoryInfo* one) const { api().ReleaseMemoryInfo(one); }
  void operator()(OrtValue* one) const { api().ReleaseValue(one); }
  void operator()(OrtTypeInfo* one) const { api().ReleaseTypeInfo(one); }
  void operator()(OrtIoBinding* one) const { api().ReleaseIoBinding(one); }
  void operator()(OrtModelMetadata* one) const { api().ReleaseModelMetadata(one); }
  void operator()(OrtTensorTypeAndShapeInfo* one) const { api().ReleaseTensorTypeAndShapeInfo(one); }
  void operator()(OrtCUDAProviderOptionsV2* one) const { api().ReleaseCUDAProviderOptions(one); }
};
/// An object of ONNX Runtime's that is released with its owner.
template <class T>
using Owned = std::unique_ptr<T, Release>;

/// What is answered where memory ran out, and ONNX Runtime had none to say so: it then answers as if all were well.
Status no_memory();
/// Have an object made: `make` is called with the place where a function of the API puts it.
template <class T, class Make>
Status made(Owned<T>& owner, ErrorKind kind, Make&& make) {
  T* object = nullptr;
  auto* const answer = make(&object);
  owner.reset(object);
  auto status = taken(answer, kind);
  return status.ok() && object == nullptr ? no_memory() : status;
}

/// Copy a text that ONNX Runtime asked an allocator for, and give it back.
Status take_text(OrtAllocator* allocator, char* text, std::string& copy);

ONNXTensorElementDataType element(DType dtype) noexcept;
/// The dtype of an element type; false where it is none of ours.
bool find_dtype(ONNXTensorElementDataType type, DType& dtype) noexcept;

/// Whether nothing is said of a session's threads: it then uses those of the environment that all share.
bool may_share_threads(const Options& options);
/// Whether a session was refused since the environment has no threads to share.
bool has_no_shared_threads(const Status& status);
/// Options of ONNX Runtime, from ours.
Status make_options(const Options& options, bool share_threads, Owned<OrtSessionOptions>& made);
/// Refuse a graph whose names, dtypes or fixed sizes are not those of the ports.
Status check_graph(const OrtSession& session, const std::vector<Port>& inputs, const std::vector<Port>& outputs);
/// Refuse a graph that is another than the one that is meant.
Status check_identity(const OrtSession& session, const std::string& graph, Span<const Fact> made_for);

}  // namespace POSENC_VERSION
}  // namespace posenc
