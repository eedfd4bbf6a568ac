// ONNX Runtime whose functions of these names fail as a whole where `failing` says so, as if a block of memory could not be
// had in them. What they allocate themselves does not count: where that fails, some end the process, as Run, which frees
// what it never had, and CreateCpuMemoryInfo, which throws although it must not.
#include <dlfcn.h>
#include <onnxruntime_c_api.h>

#include "failing_memory.hpp"

namespace {

const OrtApi* original = nullptr;

template <auto function>
struct Whole;
template <class... Given, OrtStatus* (ORT_API_CALL* OrtApi::*function)(Given...) noexcept>
struct Whole<function> {
  static OrtStatus* ORT_API_CALL call(Given... given) noexcept {
    const bool fails = failing.next();
    const Failing before = failing;
    failing = {};
    auto* status = fails ? original->CreateStatus(ORT_RUNTIME_EXCEPTION, "std::bad_alloc") : (original->*function)(given...);
    failing = before;
    return status;
  }
};

/// What releases an object asks for memory, and ends the process where there is none, or forgets some.
template <auto function>
struct Spared;
template <class Object, void (ORT_API_CALL* OrtApi::*function)(Object*)>
struct Spared<function> {
  static void ORT_API_CALL call(Object* object) noexcept {
    const Failing before = failing;
    failing = {};
    (original->*function)(object);
    failing = before;
  }
};

const OrtApi* ORT_API_CALL get_api(uint32_t) noexcept {
  static OrtApi changed = *original;
  changed.Run = Whole<&OrtApi::Run>::call;
  changed.CreateSession = Whole<&OrtApi::CreateSession>::call;
  changed.CreateSessionFromArray = Whole<&OrtApi::CreateSessionFromArray>::call;
  changed.CreateEnv = Whole<&OrtApi::CreateEnv>::call;
  changed.CreateEnvWithGlobalThreadPools = Whole<&OrtApi::CreateEnvWithGlobalThreadPools>::call;
  changed.CreateCpuMemoryInfo = Whole<&OrtApi::CreateCpuMemoryInfo>::call;
  changed.CreateMemoryInfo = Whole<&OrtApi::CreateMemoryInfo>::call;
  changed.CreateSessionOptions = Whole<&OrtApi::CreateSessionOptions>::call;
  changed.CreateThreadingOptions = Whole<&OrtApi::CreateThreadingOptions>::call;
  changed.ReleaseValue = Spared<&OrtApi::ReleaseValue>::call;
  changed.ReleaseSession = Spared<&OrtApi::ReleaseSession>::call;
  return &changed;
}

}  // namespace

extern "C" const OrtApiBase* ORT_API_CALL OrtGetApiBase() noexcept {
  using Function = const OrtApiBase* (*)();
  static const auto* const base = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "OrtGetApiBase"))();
  static const OrtApiBase ours{get_api, base->GetVersionString};
  original = base->GetApi(ORT_API_VERSION);
  return &ours;
}
