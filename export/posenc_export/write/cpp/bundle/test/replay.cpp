// Replays the golden cases of the bundle through its class and compares what comes out with what PyTorch gave.
//
//   replay MODEL cpu|cuda GOLDEN               every case, once
//   replay MODEL cpu|cuda GOLDEN THREADS RUNS  one case, so many times in all, in threads that share one model
#include <atomic>
#include <fstream>
#include <iostream>
#include <thread>

#include "cases.hpp"
#include "device_memory.hpp"

namespace {

using posenc::Error;
using replay::Model;
namespace fs = std::filesystem;

std::vector<std::byte> read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::vector<std::byte> bytes(fs::file_size(file));
  if (!stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()))) {
    throw Error("cannot read " + file.string());
  }
  return bytes;
}

/// The golden files have large tensors at some indices of one axis only: copy those rows from, or to, the tensor.
struct Rows {
  std::vector<std::int64_t> at;
  std::size_t outer = 1, length = 1, inner = 1;  // sizes before, of, and after the axis; `inner` in bytes

  template <class Copy>
  void each(Copy&& copy) const {
    for (std::size_t o = 0, stored = 0; o < outer; ++o) {
      for (const auto row : at) copy(stored++ * inner, (o * length + static_cast<std::size_t>(row)) * inner);
    }
  }
};

Rows rows_of(const fs::path& file, const posenc::Array& array, std::size_t axis) {
  const auto bytes = read(file);
  Rows rows{std::vector<std::int64_t>(bytes.size() / sizeof(std::int64_t)), 1, 1, size_of(array.dtype)};
  std::memcpy(rows.at.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < array.shape.size(); ++i) {
    (i < axis ? rows.outer : i == axis ? rows.length : rows.inner) *= static_cast<std::size_t>(array.shape[i]);
  }
  return rows;
}

posenc::Array zeros(const replay::Tensor& tensor) {
  return {tensor.dtype, tensor.shape, std::vector<std::byte>(posenc::count(tensor.shape) * size_of(tensor.dtype))};
}

posenc::Array input(const fs::path& golden, const replay::Case& one, const replay::Tensor& tensor) {
  auto array = zeros(tensor);
  const auto name = one.name + "." + tensor.name;
  if (!fs::exists(golden / (name + ".bin"))) return array;  // nothing depends on its values
  const auto stored = read(golden / (name + ".bin"));
  if (tensor.axis < 0) {
    array.data = stored;
  } else {
    const auto rows = rows_of(golden / (name + ".rows.bin"), array, static_cast<std::size_t>(tensor.axis));
    rows.each([&](std::size_t from, std::size_t to) { std::memcpy(&array.data[to], &stored[from], rows.inner); });
  }
  if (array.data.size() != posenc::count(tensor.shape) * size_of(tensor.dtype)) throw Error(name + " has another size");
  return array;
}

/// Return what a golden file has of a tensor: all of its bytes, or some rows.
std::vector<std::byte> stored_of(const fs::path& golden, const std::string& name, const posenc::Array& array,
                                 int axis) {
  if (axis < 0) return array.data;
  const auto rows = rows_of(golden / (name + ".rows.bin"), array, static_cast<std::size_t>(axis));
  std::vector<std::byte> stored(rows.outer * rows.at.size() * rows.inner);
  rows.each([&](std::size_t to, std::size_t from) { std::memcpy(&stored[to], &array.data[from], rows.inner); });
  return stored;
}

struct Call {
  std::vector<posenc::Array> inputs;
  std::vector<posenc::Array> outputs;
};

Call prepared(const fs::path& golden, const replay::Case& one) {
  Call call;
  for (const auto& tensor : one.inputs) call.inputs.push_back(input(golden, one, tensor));
  for (const auto& tensor : one.outputs) call.outputs.push_back(zeros(tensor));
  return call;
}

std::vector<posenc::View> views(std::vector<posenc::Array>& arrays) {
  std::vector<posenc::View> views;
  for (auto& array : arrays) views.push_back(posenc::view(array));
  return views;
}

/// Copies of tensors on the device, and views of them.
struct OnDevice {
  explicit OnDevice(const std::vector<posenc::Array>& arrays) {
    for (const auto& array : arrays) {
      memory.emplace_back(array.data);
      views.push_back({array.dtype, array.shape, memory.back().data(), posenc::count(array.shape)});
    }
  }

  std::vector<replay::DeviceMemory> memory;
  std::vector<posenc::View> views;
};

/// How a call is tried: with tensors of the host, with tensors on the device, with outputs in the place of inputs.
enum class Way { host, device, in_place };

/// Call the model with outputs over the inputs that they may replace, and take them from there.
void run_in_place(const Model& model, const replay::Case& one, Call& call) {
  const auto inputs = views(call.inputs);
  auto outputs = views(call.outputs);
  const auto place = [&](std::size_t o) { return static_cast<std::size_t>(one.outputs[o].in_place_of); };
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (one.outputs[o].in_place_of >= 0) outputs[o].data = inputs[place(o)].data;
  }
  replay::call(model, one.axes, inputs, outputs, posenc::Memory::host);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (one.outputs[o].in_place_of >= 0) call.outputs[o].data = call.inputs[place(o)].data;
  }
}

/// Call the model in a way; the memory of the CPU is that of the host, so that the path for the device can be tried there.
void run(const Model& model, const replay::Case& one, Call& call, bool cuda, Way way) {
  if (way == Way::in_place) return run_in_place(model, one, call);
  if (!cuda || way == Way::host) {
    const auto memory = way == Way::host ? posenc::Memory::host : posenc::Memory::device;
    return replay::call(model, one.axes, views(call.inputs), views(call.outputs), memory);
  }
  const OnDevice inputs(call.inputs);
  const OnDevice outputs(call.outputs);
  replay::call(model, one.axes, inputs.views, outputs.views, posenc::Memory::device);
  for (std::size_t i = 0; i < call.outputs.size(); ++i) outputs.memory[i].read(call.outputs[i].data);
}

/// Return what is wrong with the outputs of a case, or nothing.
std::string judged(const fs::path& golden, const replay::Case& one, const Call& call, bool cuda) {
#ifdef POSENC_BACKEND_ONNX
  const auto& tolerance = one.tolerances[0][cuda ? 1 : 0];
#else
  const auto& tolerance = one.tolerances[1][cuda ? 1 : 0];
#endif
  for (std::size_t i = 0; i < one.outputs.size(); ++i) {
    const auto& tensor = one.outputs[i];
    const auto name = one.name + "." + tensor.name;
    const auto expected = read(golden / (name + ".bin"));
    const auto file = golden / (name + ".masked.bin");  // only where elements of masked tokens may be farther off
    const auto masked = fs::exists(file) ? read(file) : std::vector<std::byte>();
    const auto actual = stored_of(golden, name, call.outputs[i], tensor.axis);
    const auto width = tensor.shape.empty() ? 1 : static_cast<std::size_t>(tensor.shape.back());
    const auto wrong = posenc::visit(tensor.dtype, [&](auto element) {
      using T = decltype(element);
      return replay::difference<T>(posenc::elements<const T>(actual), posenc::elements<const T>(expected),
                                   std::max<std::size_t>(width, 1), tolerance, {masked, one.masked_atol});
    });
    if (!wrong.empty()) return tensor.name + " " + wrong;
  }
  return {};
}

/// Return what is wrong with a case, or nothing; one that must be refused shall throw.
std::string replayed(const Model& model, const fs::path& golden, const replay::Case& one, bool cuda, Way way) {
  auto call = prepared(golden, one);
  try {
    run(model, one, call, cuda, way);
  } catch (const Error& error) {
    return one.refused ? std::string() : error.what();
  }
  const bool refused = cuda ? one.refused_on_cuda : one.refused;
  if (refused) return "gave an answer, expected an error";
  if (one.refused) return {};
  return judged(golden, one, call, cuda);
}

/// Return what is wrong with a case in any of the ways that can be tried, or nothing.
std::string replayed_in_all_ways(const Model& model, const fs::path& golden, const replay::Case& one, bool cuda,
                                 bool device) {
  auto wrong = replayed(model, golden, one, cuda, Way::host);
  if (!wrong.empty()) return wrong;
  if (device) wrong = replayed(model, golden, one, cuda, Way::device);
  if (!wrong.empty()) return "with Memory::device: " + wrong;
  wrong = replayed(model, golden, one, cuda, Way::in_place);
  return wrong.empty() ? wrong : "in place: " + wrong;
}

int replay_all(const Model& model, const fs::path& golden, bool cuda) {
  int failed = 0;
  const auto missing = cuda ? replay::DeviceMemory::missing() : std::string();
  if (!missing.empty()) std::cout << "not run  Memory::device: " << missing << '\n';
  for (const auto& one : replay::cases()) {
    const auto wrong = replayed_in_all_ways(model, golden, one, cuda, missing.empty());
    std::cout << (wrong.empty() ? "pass  " : "FAIL  ") << one.name << "  " << wrong << '\n';
    failed += wrong.empty() ? 0 : 1;
  }
  std::cout << replay::cases().size() << " cases, " << failed << " failed\n";
  return failed == 0 ? 0 : 1;
}

int replay_in_threads(const Model& model, const fs::path& golden, bool cuda, int threads, int runs) {
  const auto all = replay::cases();
  const auto usable = std::find_if(all.begin(), all.end(), [](const replay::Case& one) { return !one.refused; });
  if (usable == all.end()) throw Error("there is no case to run");
  std::atomic<int> left = runs;
  std::atomic<int> failed = 0;
  const auto work = [&] {
    try {
      auto call = prepared(golden, *usable);
      while (left-- > 0) {
        for (auto& output : call.outputs) std::fill(output.data.begin(), output.data.end(), std::byte{255});
        run(model, *usable, call, cuda, Way::host);
        if (!judged(golden, *usable, call, cuda).empty()) ++failed;
      }
    } catch (const std::exception& error) {
      std::cerr << error.what() << '\n';
      ++failed;
    }
  };
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) pool.emplace_back(work);
  for (auto& thread : pool) thread.join();
  std::cout << runs << " runs in " << threads << " threads, " << failed << " failed\n";
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count != 4 && count != 6) throw Error("expected MODEL cpu|cuda GOLDEN [THREADS RUNS]");
    const bool cuda = std::string(words[2]) == "cuda";
    const Model model(words[1], cuda ? posenc::Device::cuda : posenc::Device::cpu);
    if (count == 4) return replay_all(model, words[3], cuda);
    return replay_in_threads(model, words[3], cuda, std::stoi(words[4]), std::stoi(words[5]));
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
