/// @file
/// A loaded graph: views of tensors in, views of tensors out. One of session_onnx.cpp (ONNX Runtime) and
/// session_torch.cpp (libtorch) implements it. What returns a Status throws nothing: memory that ran out is one, too, where
/// this was compiled with exceptions. What throws posenc::Error is there where exceptions are.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "posenc/tensor.hpp"

struct OrtEnv;  // of ONNX Runtime's C API
struct OrtSessionOptions;

namespace posenc {
inline namespace POSENC_VERSION {

enum class Device { cpu, cuda };
/// Where the tensors of a call lie: in the memory of the host, or in that of the graph's own device.
enum class Memory { host, device };

/// How a graph is loaded. Device::cuda is refused where CUDA cannot be used. What is ONNX Runtime's is refused by libtorch.
struct Options {
  Options(Device where = Device::cpu) : device(where) {}

  Device device;
  int threads = 0;        ///< that one call uses; 0: those that all sessions share, as many as there are cores
  bool any_graph = false; ///< load a graph of the same ports whatever its file says that it is
  OrtEnv* env = nullptr;  ///< the environment to share, which must outlive the session; null: one that is made for all
  /// Is called before the graph is loaded. A session with a number of threads, an env or this has threads of its own.
  std::function<void(OrtSessionOptions*)> session_options = {};
};

/// What a graph's file says of it: `posenc.NAME` in its metadata.
struct Fact {
  const char* name;
  const char* value;
};

/// A graph, ready to run. `run` may be called from several threads at once. One that holds no graph, since none was
/// loaded or since it was moved from, may be destroyed, assigned to, loaded; running it is refused.
class POSENC_API Session {
 public:
  Session() noexcept;
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Load a graph from a file, or from memory, which it no longer needs afterwards; it must have these inputs and
  /// outputs. Where that fails, the session holds what it held before. `made_for`: the facts of the graph that is meant,
  /// its id first; another is refused, in words of the first fact that differs. Without any, every graph is taken.
  Status load(const std::filesystem::path& file, std::vector<Port> inputs, std::vector<Port> outputs,
              const Options& options = {}, Span<const Fact> made_for = {}) noexcept;
  Status load(Bytes graph, std::vector<Port> inputs, std::vector<Port> outputs, const Options& options = {},
              Span<const Fact> made_for = {}) noexcept;
  /// Whether it holds a graph.
  bool loaded() const noexcept { return impl_ != nullptr; }

  /// Run into memory of the caller's: inputs are only read, outputs have the shapes that the call will give. Returns when
  /// the outputs are there; with Memory::device on CUDA, what makes the inputs must have been synchronised before. An
  /// output may overlap nothing, but lie exactly where the input does that its port may replace. Positions are held
  /// against their limits where the host can read them. A view of an input whose port is `unread` may be of no memory, a
  /// null pointer: ONNX Runtime on the CPU and TorchScript then ask for none, while a session with CUDA, one whose
  /// `session_options` were called, and an AOTInductor package keep zeros, of the most that was asked for.
  Status try_run(Span<const View> inputs, Span<const View> outputs, Memory memory = Memory::host) const noexcept;
  /// Run, and return outputs of whatever shapes the graph gives; where that fails, those that were there stay.
  Status try_run(Span<const View> inputs, std::vector<Array>& outputs) const noexcept;

#if POSENC_EXCEPTIONS
  Session(const std::filesystem::path& file, std::vector<Port> inputs, std::vector<Port> outputs,
          const Options& options = {})
      : Session() {
    expect(load(file, std::move(inputs), std::move(outputs), options));
  }
  void run(Span<const View> inputs, Span<const View> outputs, Memory memory = Memory::host) const {
    expect(try_run(inputs, outputs, memory));
  }
  std::vector<Array> run(Span<const View> inputs) const {
    std::vector<Array> outputs;
    expect(try_run(inputs, outputs));
    return outputs;
  }
#endif

  const std::vector<Port>& inputs() const noexcept;
  const std::vector<Port>& outputs() const noexcept;
  /// Versions of the library that runs the graph, and of the headers this was compiled with.
  static std::string versions();
  /// Why this library can load no graph, or nothing: it is older than the headers this was compiled with.
  static std::string unusable();
  /// Why this library cannot use CUDA here, or nothing.
  static std::string no_cuda();

 private:
  struct Impl;
  template <class Source>
  Status load_from(const Source& source, std::vector<Port> inputs, std::vector<Port> outputs, const Options& options,
                   Span<const Fact> made_for) noexcept;

  std::unique_ptr<Impl> impl_;
};

/// The first line of a text, without paths of source files; for TorchScript's errors, the last, which says what happened.
POSENC_API std::string one_line(std::string_view text);

}  // namespace POSENC_VERSION
}  // namespace posenc
