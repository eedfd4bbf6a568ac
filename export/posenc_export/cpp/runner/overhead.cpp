// What the class of --cpp costs beyond ONNX Runtime's own time: medians of many calls, made by turns on the same memory,
// and allocations, which are counted in both. Run by hand, with two bundles that lie in one folder F:
//
//   posenc-export --dynamic --cpp --cpp-name additive -f onnx -o F/additive -q
//   posenc-export rope --dynamic -p head_dim=128 --cpp --cpp-name rotary -f onnx -o F/rotary -q
//   cmake -S export/posenc_export/cpp/runner -B build -DPOSENC_OVERHEAD=F && cmake --build build --target overhead
//   build/overhead F [CALLS]
#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>

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
  double median() {
    const auto middle = microseconds.begin() + static_cast<std::ptrdiff_t>(microseconds.size() / 2);
    std::nth_element(microseconds.begin(), middle, microseconds.end());
    return *middle;
  }
};

/// Make calls of both kinds by turns, the first of a pair now one and now the other; print how they compare.
template <class Ours, class Theirs>
void compare(const char* what, int calls, Ours&& ours, Theirs&& theirs) {
  Seen one;
  Seen other;
  one.microseconds.reserve(static_cast<std::size_t>(calls));
  other.microseconds.reserve(static_cast<std::size_t>(calls));
  for (int i = 0; i < calls / 5; ++i) {
    ours();
    theirs();
  }
  for (int i = 0; i < calls; ++i) {
    if (i % 2 == 0) one.time(ours);
    other.time(theirs);
    if (i % 2 == 1) one.time(ours);
  }
  const double run = other.median();
  const double class_run = one.median();
  std::cout << what << ": ONNX Runtime " << run << " us, " << other.allocated << " allocations; class " << class_run
            << " us, " << one.allocated << " allocations; ratio " << class_run / run << '\n';
}

/// A session of ONNX Runtime with values over memory, as one writes it by hand.
class Bare {
 public:
  Bare(Ort::Env& env, const std::string& file) : session_(env, file.c_str(), Ort::SessionOptions()) {}

  template <class T>
  void add(const char* name, std::vector<T>& data, std::vector<std::int64_t> shape) {
    names_.push_back(name);
    values_.push_back(Ort::Value::CreateTensor<T>(memory_, data.data(), data.size(), shape.data(), shape.size()));
  }
  void run(std::size_t inputs) {
    session_.Run(Ort::RunOptions{nullptr}, names_.data(), values_.data(), inputs, names_.data() + inputs,
                 values_.data() + inputs, values_.size() - inputs);
  }

 private:
  Ort::Session session_;
  Ort::MemoryInfo memory_ = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  std::vector<const char*> names_;
  std::vector<Ort::Value> values_;
};

/// x + PE of one token.
void additive(Ort::Env& env, const std::string& file, int calls) {
  using posenc::additive::Model;
  const Model model(file);
  const auto axes = Model::Axes().with_batch(1).with_seq(1);
  std::vector<float> x(Model::x_size(axes), 1.0F);
  std::vector<float> y(Model::y_size(axes));
  const auto width = static_cast<std::int64_t>(x.size());
  Bare bare(env, file);
  bare.add("x", x, {1, 1, width});
  bare.add("y", y, {1, 1, width});
  compare("x + PE (1, 1, d_model)", calls, [&] { model.run(axes, x, y); }, [&] { bare.run(1); });
}

/// A step of decoding: one token of 32 query heads and 8 key heads.
void rotary(Ort::Env& env, const std::string& file, int calls) {
  using posenc::rotary::Model;
  const Model model(file);
  const auto axes = Model::Axes().with_batch(1).with_head(32).with_head_kv(8).with_seq(1);
  std::vector<float> q(Model::q_size(axes), 1.0F);
  std::vector<float> k(Model::k_size(axes), 1.0F);
  std::vector<std::int64_t> positions{4095};
  std::vector<float> q_rotated(q.size());
  std::vector<float> k_rotated(k.size());
  const auto dim = static_cast<std::int64_t>(q.size() / 32);
  Bare bare(env, file);
  bare.add("q", q, {1, 32, 1, dim});
  bare.add("k", k, {1, 8, 1, dim});
  bare.add("positions", positions, {1, 1});
  bare.add("q_rotated", q_rotated, {1, 32, 1, dim});
  bare.add("k_rotated", k_rotated, {1, 8, 1, dim});
  compare("rope decode step (1, 32 + 8, 1, head_dim)", calls,
          [&] { model.run(axes, q, k, positions, q_rotated, k_rotated); }, [&] { bare.run(3); });
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count != 2 && count != 3) throw posenc::Error("expected FOLDER [CALLS]");
    const std::string folder = words[1];
    const int calls = count == 3 ? std::stoi(words[2]) : 50'000;
    Ort::InitApi(OrtGetApiBase()->GetApi(ORT_API_VERSION));
    Ort::Env env(ORT_LOGGING_LEVEL_FATAL, "overhead");
    additive(env, folder + "/additive/model.onnx", calls);
    rotary(env, folder + "/rotary/model.onnx", calls);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
