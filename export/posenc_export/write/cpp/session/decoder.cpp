#include "posenc/decoder.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "posenc/values.hpp"

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

Status refused(std::string text) { return {ErrorKind::bad_argument, std::move(text)}; }

/// Memory that is never filled with zeros: all that is read of it was written by a call.
class Block {
 public:
  std::byte* at(std::size_t offset) noexcept { return bytes_.get() + offset; }
  void grow(std::size_t size) {
    if (size > size_) bytes_.reset(new std::byte[size]);
    size_ = std::max(size_, size);
  }

 private:
  std::unique_ptr<std::byte[]> bytes_{new std::byte[1]};  // never null: a cache of no token is a view of no element
  std::size_t size_ = 1;
};

/// A part of the cache: the keys or the values of a layer, (batch, heads, tokens, features).
struct Cached {
  std::size_t input;
  std::size_t output;
  DType dtype;
  std::size_t token_bytes;  // of one token of one text
  std::array<std::int64_t, 4> before;
  std::array<std::int64_t, 4> after;
};

std::size_t unsigned_of(std::int64_t number) { return static_cast<std::size_t>(number); }

}  // namespace

struct Decoder::Impl {
  const Session* session;
  DecoderPorts ports;
  std::vector<Cached> cache;
  std::size_t token_bytes = 0;  // of all keys and values of one token of one text
  std::int64_t vocabulary = 0;
  DType logits_dtype = DType::float32;

  std::int64_t batch = 0;
  std::int64_t past = 0;
  std::int64_t reserved = 0;       // tokens of a text that there shall be room for
  std::vector<std::int64_t> pads;  // how many pad each text, on the left
  std::array<Block, 2> blocks;
  std::array<std::int64_t, 2> room = {0, 0};  // tokens of all texts that a block has room for
  int full = 0;                               // the block that holds the keys and values of the call before
  std::vector<std::int64_t> mask, positions;
  std::array<std::int64_t, 2> ids_shape, mask_shape;
  std::array<std::int64_t, 3> logits_shape;
  Block all_logits;  // of every token of a call
  std::vector<float> logits;  // of the last
  std::vector<View> inputs, outputs;

  Impl(const Session& given, DecoderPorts of_graph) : session(&given), ports(std::move(of_graph)) {
    if (!given.loaded()) return;
    const auto& head = given.outputs()[unsigned_of(ports.logits)];
    vocabulary = head.axes.back().size;
    logits_dtype = head.dtype;
    for (const auto& pair : ports.cache) {
      const auto& port = given.inputs()[unsigned_of(pair[0])];
      const std::int64_t heads = port.axes[1].size;
      const std::int64_t features = port.axes[3].size;
      Cached one{unsigned_of(pair[0]), unsigned_of(pair[1]), port.dtype,
                 unsigned_of(heads * features) * size_of(port.dtype), {0, heads, 0, features}, {0, heads, 0, features}};
      token_bytes += one.token_bytes;
      cache.push_back(one);
    }
    inputs.resize(given.inputs().size());
    outputs.resize(given.outputs().size());
  }

  /// Where a part of the cache lies in a block, for texts of so many tokens in all.
  void view_cache(Block& block, std::vector<View>& views, std::int64_t tokens, bool of_outputs) {
    std::size_t offset = 0;
    for (auto& one : cache) {
      auto& shape = of_outputs ? one.after : one.before;
      shape[0] = batch;
      shape[2] = tokens;
      const auto bytes = one.token_bytes * unsigned_of(batch * tokens);
      views[of_outputs ? one.output : one.input] = {one.dtype, shape, block.at(offset), bytes / size_of(one.dtype)};
      offset += bytes;
    }
  }

  /// Positions count from the first token that is no padding, which has position 0.
  void lay_out(std::int64_t tokens) {
    const auto total = past + tokens;
    mask.resize(unsigned_of(batch * total));
    positions.resize(unsigned_of(batch * tokens));
    for (std::int64_t row = 0; row < batch; ++row) {
      const auto padded = pads[unsigned_of(row)];
      auto* of_row = mask.data() + row * total;
      const auto first = std::min(padded, total);  // a part of a prompt may be padding alone
      std::fill(of_row, of_row + first, 0);
      std::fill(of_row + first, of_row + total, 1);
      for (std::int64_t i = 0; i < tokens; ++i) {
        positions[unsigned_of(row * tokens + i)] = std::max<std::int64_t>(past + i - padded, 0);
      }
    }
    ids_shape = {batch, tokens};
    mask_shape = {batch, total};
  }

  void keep_logits(std::int64_t tokens) {
    logits.resize(unsigned_of(batch * vocabulary));
    visit(logits_dtype, [&](auto element) {
      using T = decltype(element);
      for (std::int64_t row = 0; row < batch; ++row) {
        const auto last = unsigned_of((row * tokens + tokens - 1) * vocabulary) * sizeof(T);
        float* to = logits.data() + row * vocabulary;
        if constexpr (std::is_same_v<T, float>) {
          std::memcpy(to, all_logits.at(last), unsigned_of(vocabulary) * sizeof(float));
        } else {
          const auto* from = reinterpret_cast<const T*>(all_logits.at(last));
          for (std::int64_t i = 0; i < vocabulary; ++i) to[i] = static_cast<float>(value_of(from[i]));
        }
      }
    });
  }

  /// Run the graph on the next tokens of every text: (batch, tokens).
  Status run(Span<const std::int64_t> ids, std::int64_t tokens) {
    lay_out(tokens);
    const auto next = 1 - full;
    auto& room_of = room[unsigned_of(next)];
    const auto needed = batch * (past + tokens);
    if (needed > room_of) {
      room_of = std::max({needed, 2 * room_of, batch * reserved});
      blocks[unsigned_of(next)].grow(unsigned_of(room_of) * token_bytes);
    }
    view_cache(blocks[unsigned_of(full)], inputs, past, false);
    view_cache(blocks[unsigned_of(next)], outputs, past + tokens, true);
    inputs[unsigned_of(ports.ids)] = view(ids, ids_shape);
    if (ports.mask >= 0) inputs[unsigned_of(ports.mask)] = view(Span<std::int64_t>(mask), mask_shape);
    if (ports.positions >= 0) inputs[unsigned_of(ports.positions)] = view(Span<std::int64_t>(positions), ids_shape);
    logits_shape = {batch, tokens, vocabulary};
    const auto scores = unsigned_of(batch * tokens * vocabulary);
    all_logits.grow(scores * size_of(logits_dtype));
    outputs[unsigned_of(ports.logits)] = {logits_dtype, logits_shape, all_logits.at(0), scores};
    auto status = session->try_run(inputs, outputs);
    if (!status.ok()) return status;  // the cache is as it was
    full = next;
    past += tokens;
    keep_logits(tokens);
    return {};
  }

  /// Run the graph on a part of the tokens after another.
  Status run_in_parts(Span<const std::int64_t> ids, std::int64_t tokens, std::int64_t at_once) {
    std::vector<std::int64_t> some;
    Status status;
    for (std::int64_t first = 0; status.ok() && first < tokens; first += at_once) {
      const auto size = std::min(at_once, tokens - first);
      if (batch == 1 || size == tokens) {
        status = run({ids.data() + first, unsigned_of(batch * size)}, size);
        continue;
      }
      some.clear();
      for (std::int64_t row = 0; row < batch; ++row) {
        const auto* of_row = ids.data() + row * tokens + first;
        some.insert(some.end(), of_row, of_row + size);
      }
      status = run(some, size);
    }
    return status;
  }
};

Decoder::Decoder(const Session& session, DecoderPorts ports) : impl_(new Impl(session, std::move(ports))) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

Status Decoder::try_prefill(Span<const std::int64_t> ids) {
  if (impl_->inputs.empty()) return refused("the model held no graph when its decoder was made: load one first");
  if (ids.empty()) return refused("a prompt has no token: expected at least one");
  if (part < 1) return refused("part is " + std::to_string(part) + ": expected 1 or more tokens");
  if (impl_->batch > 1) return refused("a batch of texts goes on by step: clear it before another prompt");
  if (impl_->batch == 0) {
    impl_->batch = 1;
    impl_->pads.assign(1, 0);
  }
  return impl_->run_in_parts(ids, static_cast<std::int64_t>(ids.size()), part);
}

Status Decoder::try_prefill(Span<const std::int64_t> ids, Span<const std::int64_t> lengths) {
  if (impl_->inputs.empty()) return refused("the model held no graph when its decoder was made: load one first");
  if (part < 1) return refused("part is " + std::to_string(part) + ": expected 1 or more tokens");
  if (impl_->past > 0) return refused("a batch begins with its prompts: clear the texts that were read");
  std::int64_t sum = 0;
  std::int64_t longest = 0;
  for (const auto length : lengths) {
    if (length < 1) return refused("a prompt has " + std::to_string(length) + " tokens: expected at least one");
    sum += length;
    longest = std::max(longest, length);
  }
  if (lengths.empty() || sum != static_cast<std::int64_t>(ids.size())) {
    return refused("prompts have " + std::to_string(sum) + " tokens in all, and there are " +
                   std::to_string(ids.size()) + " ids");
  }
  impl_->batch = static_cast<std::int64_t>(lengths.size());
  impl_->pads.clear();
  std::vector<std::int64_t> padded;
  const auto* next = ids.data();
  for (const auto length : lengths) {
    impl_->pads.push_back(longest - length);
    padded.insert(padded.end(), unsigned_of(longest - length), 0);
    padded.insert(padded.end(), next, next + length);
    next += length;
  }
  auto status = impl_->run_in_parts(padded, longest, part);
  if (impl_->past == 0) clear();
  return status;
}

Status Decoder::try_step(Span<const std::int64_t> ids) {
  if (impl_->past == 0) return refused("a text begins with a prompt: prefill before the first step");
  if (static_cast<std::int64_t>(ids.size()) != impl_->batch) {
    return refused("a step takes a token for each of " + std::to_string(impl_->batch) + " texts, got " +
                   std::to_string(ids.size()));
  }
  return impl_->run(ids, 1);
}

Span<const float> Decoder::logits() const noexcept { return impl_->logits; }
std::int64_t Decoder::batch() const noexcept { return impl_->batch; }
std::int64_t Decoder::length() const noexcept { return impl_->past; }

void Decoder::clear() noexcept {
  impl_->batch = 0;
  impl_->past = 0;
  impl_->logits.clear();
}

void Decoder::reserve(std::int64_t tokens) noexcept { impl_->reserved = tokens; }

}  // namespace POSENC_VERSION
}  // namespace posenc
