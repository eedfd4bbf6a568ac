// Session by ONNX Runtime's C API: it compiles without exceptions and without run-time type information.
#include <utility>

#include "contract.hpp"
#include "identity.hpp"
#include "onnx_call.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

struct Session::Impl {
  Contract contract;
  Device device = Device::cpu;
  Owned<OrtSession> session;
  Owned<OrtMemoryInfo> host;
  Owned<OrtMemoryInfo> on_device;
  const OrtMemoryInfo* zeros = nullptr;  // for inputs of no memory; null: nothing copies what it does not read
  std::vector<const char*> names;  // of inputs, then of outputs
  mutable Calls calls;

  std::size_t inputs() const { return contract.inputs().size(); }
  std::size_t outputs() const { return contract.outputs().size(); }

  Status open(const Options& options, const std::filesystem::path& file);
  Status open(const Options& options, const Bytes& graph);
  Status prepare();
  Status run(Call& call) const;
  Status run_bound(Call& call) const;
  Status wrap(Call& call, Span<const View> inputs, Span<const View> outputs, Memory memory) const;
};

namespace {

struct Opening {
  OrtEnv* env = nullptr;
  Owned<OrtSessionOptions> options;
};

Status opening(const Options& wanted, bool share_threads, Opening& with) {
  with.env = wanted.env;
  auto status = with.env == nullptr ? environment(share_threads, with.env) : Status();
  return status.ok() ? make_options(wanted, share_threads, with.options) : status;
}

/// Create a session: with the threads that all share, or, where there are none or others are wanted, with its own.
template <class Create>
Status created(const Options& wanted, Owned<OrtSession>& session, Create&& create) {
  Status status;
  for (const bool share_threads : {true, false}) {
    if (share_threads && !may_share_threads(wanted)) continue;
    Opening with;
    status = opening(wanted, share_threads, with);
    if (status.ok()) {
      const auto make = [&](auto** place) { return create(with.env, with.options.get(), place); };
      status = made(session, ErrorKind::bad_file, make);
    }
    if (!has_no_shared_threads(status)) break;
  }
  return status;
}

/// Copy what ONNX Runtime gave into an array.
Status copied(const OrtValue& value, Array& array) {
  const auto then = [](OrtStatus* status) { return taken(status, ErrorKind::runtime); };
  Owned<OrtTensorTypeAndShapeInfo> info;
  auto status = made(info, ErrorKind::runtime, [&](auto** place) { return api().GetTensorTypeAndShape(&value, place); });
  auto type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  std::size_t rank = 0;
  if (status.ok()) status = then(api().GetTensorElementType(info.get(), &type));
  if (status.ok()) status = then(api().GetDimensionsCount(info.get(), &rank));
  if (status.ok()) array.shape.resize(rank);
  if (status.ok()) status = then(api().GetDimensions(info.get(), array.shape.data(), rank));
  if (status.ok() && !find_dtype(type, array.dtype)) {
    return {ErrorKind::bad_file, "the graph has an output of ONNX element type " + std::to_string(type)};
  }
  void* data = nullptr;
  if (status.ok()) status = then(api().GetTensorMutableData(const_cast<OrtValue*>(&value), &data));
  if (!status.ok()) return status;
  const auto* first = static_cast<const std::byte*>(data);
  array.data.assign(first, first + count(array.shape) * size_of(array.dtype));
  return {};
}

}  // namespace

Status Session::Impl::open(const Options& options, const std::filesystem::path& file) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(file, unknown)) return {ErrorKind::bad_file, file.string() + " is not a file"};
  return created(options, session, [&](OrtEnv* env, const OrtSessionOptions* with, OrtSession** place) {
    return api().CreateSession(env, file.c_str(), with, place);
  });
}

Status Session::Impl::open(const Options& options, const Bytes& graph) {
  return created(options, session, [&](OrtEnv* env, const OrtSessionOptions* with, OrtSession** place) {
    return api().CreateSessionFromArray(env, graph.data(), graph.size(), with, place);
  });
}

/// Make what calls need beside the graph.
Status Session::Impl::prepare() {
  auto status = check_graph(*session, contract.inputs(), contract.outputs());
  const auto make_host = [](auto** place) { return api().CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, place); };
  if (status.ok()) status = made(host, ErrorKind::runtime, make_host);
  if (!status.ok()) return status;
  const char* name = device == Device::cuda ? "Cuda" : "Cpu";
  status = made(on_device, ErrorKind::runtime, [&](auto** place) {
    return api().CreateMemoryInfo(name, OrtDeviceAllocator, 0, OrtMemTypeDefault, place);
  });
  for (const auto& port : contract.inputs()) names.push_back(port.name.c_str());
  for (const auto& port : contract.outputs()) names.push_back(port.name.c_str());
  return status;
}

/// Have checked values over the tensors of a call.
Status Session::Impl::wrap(Call& call, Span<const View> inputs, Span<const View> outputs, Memory memory) const {
  const bool readable = memory == Memory::host || device == Device::cpu;
  const auto& where = memory == Memory::host ? *host : *on_device;
  if (call.has(inputs, outputs, where)) return readable ? contract.check_limits(inputs) : Status();
  auto status = contract.check(inputs, outputs, readable);
  return status.ok() ? call.wrap(inputs, outputs, where, zeros) : status;
}

Status Session::Impl::run(Call& call) const {
  return taken(api().Run(session.get(), nullptr, names.data(), call.values(), inputs(), names.data() + inputs(),
                         outputs(), call.values() + inputs()),
               ErrorKind::runtime);
}

/// Run with tensors that lie on the device, where ONNX Runtime shall leave them.
Status Session::Impl::run_bound(Call& call) const {
  const auto then = [](OrtStatus* status) { return taken(status, ErrorKind::runtime); };
  Owned<OrtIoBinding> binding;
  auto status = made(binding, ErrorKind::runtime, [&](auto** place) { return api().CreateIoBinding(session.get(), place); });
  for (std::size_t i = 0; status.ok() && i < names.size(); ++i) {
    const auto bind = i < inputs() ? api().BindInput : api().BindOutput;
    status = then(bind(binding.get(), names[i], call.values()[i]));
  }
  if (status.ok()) status = then(api().SynchronizeBoundInputs(binding.get()));
  if (status.ok()) status = then(api().RunWithBinding(session.get(), nullptr, binding.get()));
  return status.ok() ? then(api().SynchronizeBoundOutputs(binding.get())) : status;
}

Session::Session() noexcept = default;
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

template <class Source>
Status Session::load_from(const Source& source, std::vector<Port> inputs, std::vector<Port> outputs,
                          const Options& options, Span<const Fact> made_for) noexcept {
  return detail::guarded([&] {
    auto status = start();
    auto made = std::make_unique<Impl>();
    made->device = options.device;
    if (status.ok()) status = made->contract.set(std::move(inputs), std::move(outputs));
    if (status.ok()) status = made->open(options, source);
    if (status.ok() && !options.any_graph) status = check_identity(*made->session, name_of(source), made_for);
    if (status.ok()) status = made->prepare();
    // A provider other than the CPU's copies inputs to where it runs, and a hook may have added one.
    if (options.device != Device::cpu || options.session_options) made->zeros = made->host.get();
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
    auto call = impl_->calls.take(impl_->names.size());
    auto status = impl_->wrap(*call, inputs, outputs, memory);
    if (status.ok()) status = memory == Memory::host ? impl_->run(*call) : impl_->run_bound(*call);
    impl_->calls.give(std::move(call));
    return status;
  });
}

Status Session::try_run(Span<const View> inputs, std::vector<Array>& outputs) const noexcept {
  return detail::guarded([&] {
    if (impl_ == nullptr) return no_graph();
    auto status = impl_->contract.check(inputs);
    Call call(impl_->names.size());
    std::vector<Array> arrays(impl_->outputs());
    std::vector<Owned<OrtValue>> values(arrays.size());
    if (status.ok()) status = call.wrap(inputs, {}, *impl_->host, impl_->zeros);
    if (status.ok()) status = impl_->run(call);
    for (std::size_t i = 0; i < values.size(); ++i) values[i].reset(call.values()[impl_->inputs() + i]);
    for (std::size_t i = 0; status.ok() && i < values.size(); ++i) {
      status = values[i] == nullptr ? no_memory() : copied(*values[i], arrays[i]);
    }
    if (status.ok()) outputs = std::move(arrays);
    return status;
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

std::string Session::unusable() { return start().message(); }

std::string Session::no_cuda() {
  OrtEnv* env = nullptr;
  Owned<OrtSessionOptions> options;
  auto status = start();
  if (status.ok()) status = environment(true, env);
  if (status.ok()) status = make_options(Device::cuda, false, options);
  return status.message();
}

std::string Session::versions() {
  return "ONNX Runtime " + std::string(OrtGetApiBase()->GetVersionString()) + ", headers 1." +
         std::to_string(ORT_API_VERSION);
}

}  // namespace POSENC_VERSION
}  // namespace posenc
