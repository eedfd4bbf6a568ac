// What the class of --cpp costs beyond ONNX Runtime's own time, at a step of decoding and a prefill: the 10th percentile of
// 2,000 calls of each, in random order, and allocations, which are counted in both. Run by hand, with two bundles that lie in one folder F:
//
//   posenc-export --dynamic --cpp --cpp-name additive -f onnx -o F/additive -q
//   posenc-export rope --dynamic -p head_dim=128 --cpp --cpp-name rotary -f onnx -o F/rotary -q
//   cmake -S export/posenc_export/write/cpp/runner -B build -DPOSENC_OVERHEAD=F && cmake --build build --target overhead
//   build/overhead F [CALLS [THREADS]]
#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <random>

#include "additive.hpp"
#include "rotary.hpp"

namespace {

std::atomic<long> allocations{0};

}  // namespace

#if defined(__GLIBC__)
// Every allocation of the program goes through these, those of libraries and of operator new too.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void* malloc(std::size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** made, std::size_t alignment, std::size_t size) {
  ++allocations;
  *made = __libc_memalign(alignment, size);
  return *made == nullptr ? 12 : 0;
}
}
#endif

namespace {

/// What calls took, one by one, and what they allocated in all.
struct Seen {
  std::vector<double> microseconds;
  long allocated = 0;

  template <class Call>
  void time(Call&& call) {
    const auto before = allocations.load();
    const auto start = std::chrono::steady_clock::now();
    call();
    const auto end = std::chrono::steady_clock::now();
    allocated += allocations.load() - before;
    microseconds.push_back(std::chrono::duration<double, std::micro>(end - start).count());
  }
  /// What a tenth of the calls took at most: work of others on the machine is in the slower ones.
  double tenth() {
    const auto at = microseconds.begin() + static_cast<std::ptrdiff_t>(microseconds.size() / 10);
    std::nth_element(microseconds.begin(), at, microseconds.end());
    return *at;
  }
};

/// Make as many calls of either kind, in random order; print how they compare.
template <class Ours, class Theirs>
void compare(const std::string& what, int calls, Ours&& ours, Theirs&& theirs) {
  const auto count = static_cast<std::size_t>(calls);
  std::vector<char> order(2 * count);
  std::fill_n(order.begin(), count, 1);
  std::shuffle(order.begin(), order.end(), std::mt19937(std::random_device()()));
  Seen one;
  Seen other;
  one.microseconds.reserve(count);
  other.microseconds.reserve(count);
  for (int i = 0; i < calls / 5; ++i) {
    ours();
    theirs();
  }
  for (const char is_ours : order) {
    if (is_ours != 0) {
      one.time(ours);
    } else {
      other.time(theirs);
    }
  }
  const double run = other.tenth();
  const double class_run = one.tenth();
  std::cout << what << ": ONNX Runtime " << run << " us, " << other.allocated << " allocations; class " << class_run
            << " us, " << one.allocated << " allocations; " << class_run / run << "x, at most "
            << 1.02 * run + 0.5 << " us: " << (class_run <= 1.02 * run + 0.5 ? "kept" : "MISSED") << std::endl;
}

/// A session of ONNX Runtime with values over memory, as one writes it by hand.
class Bare {
 public:
  Bare(Ort::Env& env, const std::string& file, const Ort::SessionOptions& options) : session_(env, file.c_str(), options) {}

  template <class T>
  void add(const char* name, std::vector<T>& data, std::vector<std::int64_t> shape) {
    names_.push_back(name);
    values_.push_back(value(data.data(), data.size(), shape));
    shapes_.push_back(std::move(shape));
  }
  /// Let a tensor be elsewhere from now on.
  void move(std::size_t port, float* data, std::size_t size) { values_[port] = value(data, size, shapes_[port]); }
  void run(std::size_t inputs) {
    session_.Run(Ort::RunOptions{nullptr}, names_.data(), values_.data(), inputs, names_.data() + inputs,
                 values_.data() + inputs, values_.size() - inputs);
  }

 private:
  template <class T>
  Ort::Value value(T* data, std::size_t size, const std::vector<std::int64_t>& shape) const {
    return Ort::Value::CreateTensor<T>(memory_, data, size, shape.data(), shape.size());
  }

  Ort::Session session_;
  Ort::MemoryInfo memory_ = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  std::vector<const char*> names_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<Ort::Value> values_;
};

/// How all calls are made.
struct Run {
  std::string folder;
  int calls = 2000;
  int threads = 1;

  posenc::Options options() const {
    posenc::Options options;
    options.threads = threads;
    return options;
  }
  Bare bare(Ort::Env& env, const std::string& file) const {
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(threads);
    return Bare(env, file, options);
  }
};

/// x + PE of some tokens.
void additive(Ort::Env& env, const Run& how, std::int64_t tokens) {
  using posenc::additive::Model;
  const std::string file = how.folder + "/additive/model.onnx";
  const Model model(file, how.options());
  const auto axes = Model::Axes().with_batch(1).with_seq(tokens);
  std::vector<float> x(Model::x_size(axes), 1.0F);
  std::vector<float> y(Model::y_size(axes));
  const auto width = static_cast<std::int64_t>(x.size()) / tokens;
  Bare bare = how.bare(env, file);
  bare.add("x", x, {1, tokens, width});
  bare.add("y", y, {1, tokens, width});
  const std::string what = "x + PE (1, " + std::to_string(tokens) + ", d_model)";
  compare(what, how.calls, [&] { model.run(axes, x, y); }, [&] { bare.run(1); });
}

/// Some tokens of 32 query heads and 8 key heads; then the same, with keys that go each time to another place of a cache.
void rotary(Ort::Env& env, const Run& how, std::int64_t tokens) {
  using posenc::rotary::Model;
  constexpr std::size_t places = 64;
  const std::string file = how.folder + "/rotary/model.onnx";
  const Model model(file, how.options());
  const auto axes = Model::Axes().with_batch(1).with_head(32).with_head_kv(8).with_seq(tokens);
  std::vector<float> q(Model::q_size(axes), 1.0F);
  std::vector<float> k(Model::k_size(axes), 1.0F);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(tokens), 4095);
  std::vector<float> q_rotated(q.size());
  std::vector<float> k_rotated(k.size());
  std::vector<float> cache(places * k.size());
  const auto dim = static_cast<std::int64_t>(q.size()) / 32 / tokens;
  Bare bare = how.bare(env, file);
  bare.add("q", q, {1, 32, tokens, dim});
  bare.add("k", k, {1, 8, tokens, dim});
  bare.add("positions", positions, {1, tokens});
  bare.add("q_rotated", q_rotated, {1, 32, tokens, dim});
  bare.add("k_rotated", k_rotated, {1, 8, tokens, dim});
  const std::string what = "rope (1, 32 + 8, " + std::to_string(tokens) + ", head_dim)";
  compare(what, how.calls, [&] { model.run(axes, q, k, positions, q_rotated, k_rotated); }, [&] { bare.run(3); });
  std::size_t at = 0;
  const auto next = [&] { return cache.data() + (++at % places) * k.size(); };
  compare(
      what + " into a cache", how.calls,
      [&] { model.run(axes, q, k, positions, q_rotated, posenc::Span<float>(next(), k.size())); },
      [&] {
        bare.move(4, next(), k.size());
        bare.run(3);
      });
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count < 2 || count > 4) throw posenc::Error("expected FOLDER [CALLS [THREADS]]");
    Run how{words[1]};
    if (count > 2) how.calls = std::stoi(words[2]);
    if (count > 3) how.threads = std::stoi(words[3]);
    Ort::InitApi(OrtGetApiBase()->GetApi(ORT_API_VERSION));
    Ort::Env env(ORT_LOGGING_LEVEL_FATAL, "overhead");
    for (const std::int64_t tokens : {1, 128}) {
      additive(env, how, tokens);
      rotary(env, how, tokens);
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
