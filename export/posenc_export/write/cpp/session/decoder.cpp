#include "posenc/decoder.hpp"

#include <algorithm>
#include <cstring>

#include "layer_states.hpp"
#include "posenc/values.hpp"
#include "prompts.hpp"
#include "scene_feeds.hpp"

namespace posenc {
inline namespace POSENC_VERSION {
namespace {

/// A part of the cache: the keys or the values of a layer, (batch, heads, tokens, features).
struct Cached {
  std::size_t input;
  std::size_t output;
  bool of_states;  // its tokens are those of an encoder: the same in every call behind the first
  DType dtype;
  std::size_t heads;
  std::size_t token_bytes;  // of one token of one text, in one head
  std::array<std::int64_t, 4> before;
  std::array<std::int64_t, 4> after;
};

}  // namespace

struct Decoder::Impl {
  const Session* session;
  DecoderPorts ports;
  std::unique_ptr<SceneFeeds> scene;  // of a model that sees or hears
  LayerStates layer_states;
  std::vector<Cached> cache;
  std::size_t token_bytes = 0;   // of all keys and values of one token of one text
  std::size_t states_bytes = 0;  // of all keys and values of one token of an encoder
  std::int64_t vocabulary = 0;
  bool gives_last_alone = false;  // the graph gives the logits of the last token of a call, and no others
  DType logits_dtype = DType::float32;
  std::int64_t ids_end = 0;  // every id is below; 0 where the graph does not say
  std::int64_t end = 0;      // no text has more tokens; 0 where the graph does not say

  // What the texts attend to.
  Buffer<std::byte> states;
  Buffer<std::int64_t> states_mask;
  std::array<std::int64_t, 3> states_shape{{0, 0, 0}};

  // The texts: nothing else of a decoder outlasts a call.
  std::int64_t batch = 0;
  std::int64_t past = 0;
  Buffer<std::int64_t> pads;  // how many pad each text, on the left
  std::array<Buffer<std::byte>, 2> blocks;
  std::size_t full = 0;  // the block that holds the keys and values of all tokens
  std::int64_t capacity = 0;  // tokens of a text that the block has room for, where the graph works in place
  Buffer<float> logits;       // of the last token of each text
  bool has_logits = false;

  std::int64_t reserved = 0;  // tokens of a text that there shall be room for
  std::byte nothing{};        // where a cache of no token lies
  Buffer<std::int64_t> some, mask, positions;
  std::size_t position_rows = 1;  // positions of a token: some graphs take three, which are alike in a text
  std::size_t position_rank = 2;  // (rows, batch, tokens) of those, else (batch, tokens)
  std::array<std::int64_t, 2> ids_shape, mask_shape;
  std::array<std::int64_t, 3> logits_shape, positions_shape;
  Buffer<std::byte> all_logits;  // of every token of a call, or of the last
  std::vector<View> inputs, outputs;

  Impl(const Session& given, DecoderPorts of_graph, const SceneGraphs* graphs)
      : session(&given), ports(std::move(of_graph)) {
    if (!given.loaded() || (graphs != nullptr && !is_loaded(*graphs))) return;
    if (graphs != nullptr) scene = std::make_unique<SceneFeeds>(given, *graphs);
    const auto& head = given.outputs()[unsigned_of(ports.logits)];
    vocabulary = head.axes.back().size;
    gives_last_alone = head.axes[1].size == 1;
    logits_dtype = head.dtype;
    const auto& ids = graphs == nullptr ? given.inputs()[unsigned_of(ports.ids)] : graphs->words->inputs()[0];
    ids_end = ids.limit.end;
    if (ports.positions >= 0) {
      const auto& port = given.inputs()[unsigned_of(ports.positions)];
      const auto& ends = port.limit.ends;
      end = ends.empty() ? port.limit.end : *std::min_element(ends.begin(), ends.end());
      position_rank = port.axes.size();
      if (position_rank == 3) position_rows = unsigned_of(port.axes[0].size);
    }
    for (const auto& pair : ports.cache) token_bytes += add_part(pair, false);
    for (const auto& pair : ports.of_states) states_bytes += add_part(pair, true);
    for (const auto& pair : ports.layer_states) {
      layer_states.add(unsigned_of(pair[0]), unsigned_of(pair[1]), given.inputs()[unsigned_of(pair[0])]);
    }
    inputs.resize(given.inputs().size());
    outputs.resize(given.outputs().size());
  }

  static bool is_loaded(const SceneGraphs& graphs) noexcept {
    return graphs.words->loaded() && graphs.tower->loaded() && (graphs.positions == nullptr || graphs.positions->loaded());
  }

  /// Note a part of the cache; return the bytes of one token of one text in it.
  std::size_t add_part(const std::array<int, 2>& pair, bool of_states) {
    const auto& port = session->inputs()[unsigned_of(pair[0])];
    const std::int64_t heads = port.axes[1].size;
    const std::int64_t features = port.axes[3].size;
    const Cached one{unsigned_of(pair[0]), unsigned_of(pair[1]), of_states, port.dtype, unsigned_of(heads),
                     unsigned_of(features) * size_of(port.dtype), {0, heads, 0, features}, {0, heads, 0, features}};
    cache.push_back(one);
    return one.heads * one.token_bytes;
  }

  /// Where a part of the cache lies in a block, for texts of so many tokens in all.
  void view_cache(Buffer<std::byte>& block, std::vector<View>& views, std::int64_t tokens, bool of_outputs) {
    std::byte* at = tokens == 0 || block.size() == 0 ? &nothing : block.data();
    for (auto& one : cache) {
      auto& shape = of_outputs ? one.after : one.before;
      shape[0] = batch;
      // before the first call nothing is cached, of an encoder's states neither
      shape[2] = one.of_states && tokens > 0 ? states_shape[1] : tokens;
      const auto bytes = one.heads * one.token_bytes * unsigned_of(batch * shape[2]);
      views[of_outputs ? one.output : one.input] = {one.dtype, shape, at, bytes / size_of(one.dtype)};
      at += bytes;
    }
  }

  /// Bytes of a block for texts of so many tokens.
  std::size_t bytes_of(std::int64_t tokens) const noexcept {
    const auto of_tokens = product(product(unsigned_of(batch), unsigned_of(tokens)), token_bytes);
    const auto of_states = product(product(unsigned_of(batch), unsigned_of(states_shape[1])), states_bytes);
    return of_tokens > std::numeric_limits<std::size_t>::max() - of_states ? of_tokens : of_tokens + of_states;
  }

  /// Copy the keys and values of so many tokens out of a block that has room for others.
  void copy_cache(const std::byte* from, std::int64_t from_tokens, std::byte* to, std::int64_t to_tokens,
                  std::int64_t tokens) const noexcept {
    for (const auto& one : cache) {
      const auto of_row = [&](std::int64_t count) {
        return one.token_bytes * unsigned_of(one.of_states && tokens > 0 ? states_shape[1] : count);
      };
      for (std::size_t row = 0; row < unsigned_of(batch) * one.heads; ++row) {
        if (tokens > 0) std::memmove(to, from, of_row(tokens));
        to += of_row(to_tokens);
        from += of_row(from_tokens);
      }
    }
  }

  /// Tokens of a text for which a block is laid out.
  std::int64_t laid_out() const noexcept { return ports.in_place ? capacity : past; }

  /// Positions count from the first token that is no padding, which has position 0.
  bool lay_out(std::int64_t tokens) {
    const auto total = past + tokens;
    const auto of_row = unsigned_of(batch * tokens);
    if (!mask.grow(unsigned_of(batch * total)) || !positions.grow(position_rows * of_row)) return false;
    for (std::int64_t row = 0; row < batch; ++row) {
      const auto padded = pads.data()[row];
      const auto moved = scene == nullptr ? 0 : scene->moved(row);
      auto* seen = mask.data() + row * total;
      const auto first = std::min(padded, total);  // a part of a prompt may be padding alone
      std::fill(seen, seen + first, 0);
      std::fill(seen + first, seen + total, 1);
      for (std::int64_t i = 0; i < tokens; ++i) {
        positions.data()[row * tokens + i] = std::max<std::int64_t>(past + i - padded, 0) + moved;
      }
    }
    for (std::size_t row = 1; row < position_rows; ++row) {
      std::copy_n(positions.data(), of_row, positions.data() + row * of_row);
    }
    ids_shape = {batch, tokens};
    mask_shape = {batch, total};
    positions_shape = {static_cast<std::int64_t>(position_rows), batch, tokens};
    return true;
  }

  /// Have room for the keys and values of so many tokens in the block that a call fills, and, where nothing has been read,
  /// for those that are reserved in the other one as well, so that the step after a prompt asks for no memory.
  bool grow_cache(std::int64_t tokens) {
    if (ports.in_place) return grow_in_place(tokens);
    auto& next = blocks[1 - full];
    const auto needed = bytes_of(std::max(tokens, reserved));
    if (past == 0 && !blocks[full].grow(bytes_of(reserved))) return false;
    if (needed <= next.size()) return true;
    return next.grow(std::max(needed, product(next.size(), 2))) || next.grow(needed);
  }

  /// Have room for so many tokens in the one block: twice as many as before, but none beyond the end of a text.
  bool grow_in_place(std::int64_t tokens) {
    const auto needed = std::max(tokens, reserved);
    if (past == 0) {  // whatever room there is, laid out for these texts
      const auto of_token = std::max<std::size_t>(bytes_of(1), 1);
      capacity = static_cast<std::int64_t>(blocks[full].size() / of_token);
    }
    if (needed <= capacity) return true;
    const auto most = end == 0 ? std::numeric_limits<std::int64_t>::max() / 2 : end;
    auto& next = blocks[1 - full];
    auto wanted = std::max(needed, std::min(2 * capacity, most));
    if (!next.grow(bytes_of(wanted))) {
      wanted = needed;
      if (!next.grow(bytes_of(wanted))) return false;
    }
    copy_cache(blocks[full].data(), capacity, next.data(), wanted, past);
    blocks[full].free();
    full = 1 - full;
    capacity = wanted;
    return true;
  }

  Status no_memory(std::int64_t tokens) const {
    const auto of_text = std::max(past + tokens, reserved);
    const auto bytes = bytes_of(of_text);
    const bool countable = bytes < std::numeric_limits<std::size_t>::max();
    return {ErrorKind::memory, "out of memory: " + counted(batch, "text") + " of " + counted(of_text, "token") + " have " +
                                   (countable ? std::to_string(bytes) : "too many") + " bytes of keys and values" +
                                   (reserved > past + tokens ? ": reserve less" : "")};
  }

  /// Copy rows of the logits that a call gave, of (batch x tokens), as floats.
  void copy_logits(std::int64_t first, std::int64_t rows, float* to) const {
    const auto numbers = unsigned_of(rows * vocabulary);
    visit(logits_dtype, [&](auto element) {
      using T = decltype(element);
      const auto* at = all_logits.data() + unsigned_of(first * vocabulary) * sizeof(T);
      if constexpr (std::is_same_v<T, float>) {
        std::memcpy(to, at, numbers * sizeof(float));
      } else {
        const auto* from = reinterpret_cast<const T*>(at);
        for (std::size_t i = 0; i < numbers; ++i) to[i] = static_cast<float>(value_of(from[i]));
      }
    });
  }

  void keep_logits() {
    for (std::int64_t row = 0; row < batch; ++row) {
      copy_logits((row + 1) * logits_shape[1] - 1, 1, logits.data() + row * vocabulary);
    }
  }

  /// Run the graph on the next tokens of every text, (batch, tokens), of which `first` is that of a prompt.
  Status run(Span<const std::int64_t> ids, std::int64_t first, std::int64_t tokens) {
    logits_shape = {batch, gives_last_alone ? 1 : tokens, vocabulary};
    const auto scores = product(unsigned_of(batch * logits_shape[1]), unsigned_of(vocabulary));
    const bool room = lay_out(tokens) && grow_cache(past + tokens);
    if (!room || !all_logits.grow(product(scores, size_of(logits_dtype)))) return no_memory(tokens);
    view_cache(blocks[full], inputs, laid_out(), false);
    if (ports.in_place) {
      view_cache(blocks[full], outputs, capacity, true);
    } else {
      view_cache(blocks[1 - full], outputs, past + tokens, true);
    }
    layer_states.view(batch, inputs, outputs);
    if (ports.ids >= 0) inputs[unsigned_of(ports.ids)] = view(ids, ids_shape);
    if (ports.mask >= 0) inputs[unsigned_of(ports.mask)] = {DType::int64, mask_shape, mask.data(), count(mask_shape)};
    if (ports.positions >= 0) {
      const Span<const std::int64_t> shape(positions_shape.data() + (3 - position_rank), position_rank);
      inputs[unsigned_of(ports.positions)] = {DType::int64, shape, positions.data(), count(shape)};
    }
    if (ports.states >= 0) {
      const auto of_states = session->inputs()[unsigned_of(ports.states)].dtype;
      inputs[unsigned_of(ports.states)] = {of_states, states_shape, states.data(), count(states_shape)};
    }
    const Span<const std::int64_t> masked(states_shape.data(), 2);
    if (ports.states_mask >= 0) inputs[unsigned_of(ports.states_mask)] = {DType::int64, masked, states_mask.data(), count(masked)};
    outputs[unsigned_of(ports.logits)] = {logits_dtype, logits_shape, all_logits.data(), scores};
    auto status = scene == nullptr ? Status() : scene->feed(ids, first, tokens, inputs);
    if (status.ok()) status = session->try_run(inputs, outputs);
    if (!status.ok()) return status;  // the cache is as it was
    if (!ports.in_place) full = 1 - full;
    layer_states.advance();
    past += tokens;
    return {};
  }

  /// Run the graph on the tokens, a part after another, and keep the logits of the last; those of one text's every token
  /// go to `each`, if there is room in it.
  Status run_in_parts(Span<const std::int64_t> ids, std::int64_t tokens, std::int64_t at_once, Span<float> each) {
    // Where tokens have been read, there is room for their logits: these are not lost.
    if (!logits.grow(product(unsigned_of(batch), unsigned_of(vocabulary)))) return no_memory(tokens);
    // In place, several texts are read at once where nothing is cached, and a token at a time behind it.
    if (ports.in_place && batch > 1) at_once = past == 0 ? tokens : 1;
    if (scene != nullptr && scene->is_whole()) at_once = tokens;
    // behind states, no graph knows of tokens that pad
    if (!layer_states.empty() && batch > 1) at_once = tokens;
    std::int64_t size = 0;
    for (std::int64_t first = 0; first < tokens; first += size) {
      size = std::min(at_once, tokens - first);
      auto of_part = Span<const std::int64_t>(ids.data() + first, unsigned_of(batch * size));
      if (batch > 1 && size < tokens) {
        if (!some.grow(of_part.size())) return no_memory(tokens);
        for (std::int64_t row = 0; row < batch; ++row) {
          std::copy_n(ids.data() + row * tokens + first, size, some.data() + row * size);
        }
        of_part = {some.data(), of_part.size()};
      }
      auto status = run(of_part, first, size);
      if (!status.ok()) return status;
      if (!each.empty()) copy_logits(0, size, each.data() + first * vocabulary);
    }
    keep_logits();
    has_logits = true;
    return {};
  }

  /// Read tokens that have been checked: all of them, or, where memory or the runtime fails, none.
  Status read(Span<const std::int64_t> ids, std::int64_t tokens, std::int64_t at_once, bool is_prompt,
              Span<float> each = {}) noexcept {
    const auto before = past;
    auto status = detail::guarded([&] {
      if (!layer_states.begin(batch, past == 0)) return no_memory(tokens);
      auto begun = scene == nullptr ? Status() : scene->begin({batch, past, pads.data()}, ids, tokens, is_prompt);
      return begun.ok() ? run_in_parts(ids, tokens, at_once, each) : begun;
    });
    if (!status.ok()) {
      layer_states.drop();
      forget(before);
      return status;
    }
    layer_states.keep();
    if (scene != nullptr) scene->keep(past);
    return status;
  }

  /// Forget the tokens behind the first `tokens`. What is left of the cache moves to the front of its own block.
  void forget(std::int64_t tokens) noexcept {
    if (!ports.in_place && tokens < past && tokens > 0) {
      copy_cache(blocks[full].data(), past, blocks[full].data(), tokens, tokens);
    }
    past = tokens;
    if (past == 0) batch = 0;
  }

  Status check_ids(Span<const std::int64_t> ids) const { return check_ids_below(ids, ids_end); }
  Status check_length(std::int64_t tokens) const { return check_length_of_text(past, tokens, end); }

  /// Whether there is what so many texts attend to.
  Status check_states(std::int64_t texts) const {
    if (ports.states < 0 || (states_shape[1] > 0 && states_shape[0] == texts)) return {};
    if (states_shape[1] == 0) return refused("no states of an encoder are here: attend before the first prompt");
    return refused("there are states of an encoder for " + counted(states_shape[0], "text") + ": expected " +
                   std::to_string(states_shape[0]) + " prompts, got " + std::to_string(texts));
  }

  /// Whether prompts have a place for each row of the pictures that wait.
  Status check_places(Span<const std::int64_t> ids) const { return scene == nullptr ? Status() : scene->check_places(ids); }

  /// Take states of an encoder: nothing changes unless they fit, and there is memory for them.
  Status attend(const View& given, Span<const std::int64_t> mask_of_states) {
    if (ports.states < 0) return refused("this model has no encoder: begin with a prompt");
    const auto& port = session->inputs()[unsigned_of(ports.states)];
    const auto features = port.axes.back().size;
    const auto& shape = given.shape;
    if (given.dtype != port.dtype || shape.size() != 3 || shape[0] < 1 || shape[1] < 1 || shape[2] != features ||
        given.size != count(shape) || given.data == nullptr) {
      return refused("states of an encoder are (texts, tokens, " + std::to_string(features) + "), in the dtype of " +
                     describe(port));
    }
    const auto rows = unsigned_of(shape[0] * shape[1]);
    if (!mask_of_states.empty() && ports.states_mask < 0) return refused("this model takes no mask of its encoder's tokens");
    if (!mask_of_states.empty() && mask_of_states.size() != rows) {
      return refused("the mask has " + std::to_string(mask_of_states.size()) + " numbers: expected " + std::to_string(rows) +
                     ", one for each state");
    }
    const auto bytes = given.size * size_of(given.dtype);
    Buffer<std::byte> taken;
    Buffer<std::int64_t> of_mask;
    if (!taken.grow(bytes) || !of_mask.grow(rows)) {
      return {ErrorKind::memory, "out of memory: states of an encoder have " + std::to_string(bytes) + " bytes"};
    }
    std::memcpy(taken.data(), given.data, bytes);
    if (mask_of_states.empty()) {
      std::fill_n(of_mask.data(), rows, 1);
    } else {
      std::copy_n(mask_of_states.data(), rows, of_mask.data());
    }
    states = std::move(taken);
    states_mask = std::move(of_mask);
    states_shape = {shape[0], shape[1], shape[2]};
    forget(0);
    return {};
  }

  Status read_prompt(Span<const std::int64_t> ids, std::int64_t at_once, Span<float> each = {}) {
    if (ids.empty()) return refused("a prompt has no token: expected at least one");
    if (batch > 1) return refused("a batch of texts goes on by step: clear it before another prompt");
    const auto tokens = static_cast<std::int64_t>(ids.size());
    auto status = check_length(tokens);
    if (status.ok()) status = check_ids(ids);
    if (status.ok()) status = check_states(1);
    if (status.ok()) status = check_places(ids);
    if (!status.ok()) return status;
    if (past == 0) {
      if (!pads.grow(1)) return {ErrorKind::memory, "out of memory"};
      pads.data()[0] = 0;
      batch = 1;
    }
    return read(ids, tokens, at_once, true, each);
  }

  Status read_scored(Span<const std::int64_t> ids, std::int64_t at_once, Span<float> each) {
    if (gives_last_alone) return refused("this graph gives the logits of the last token alone: read with prefill or step");
    const auto scores = product(ids.size(), unsigned_of(vocabulary));
    if (each.size() != scores) {
      return refused("logits have room for " + std::to_string(each.size()) + " numbers: expected " + std::to_string(scores) +
                     ", for each id " + std::to_string(vocabulary));
    }
    return read_prompt(ids, at_once, each);
  }

  Status read_prompts(Span<const std::int64_t> ids, Span<const std::int64_t> lengths, std::int64_t at_once) {
    if (past > 0) return refused("a batch begins with its prompts: clear the texts that were read");
    auto status = check_lengths(lengths, ids.size(), end);
    if (status.ok()) status = check_ids(ids);
    if (status.ok()) status = check_states(static_cast<std::int64_t>(lengths.size()));
    if (status.ok()) status = check_places(ids);
    if (!status.ok()) return status;
    const auto longest = *std::max_element(lengths.begin(), lengths.end());
    if (ports.mask < 0 && *std::min_element(lengths.begin(), lengths.end()) != longest) {
      return refused("this graph takes no mask, so that nothing can pad a prompt: expected prompts of one length");
    }
    Buffer<std::int64_t> padded;
    if (!padded.grow(product(lengths.size(), unsigned_of(longest))) || !pads.grow(lengths.size())) {
      return {ErrorKind::memory, "out of memory: prompts are padded to " + counted(longest, "token") + " each"};
    }
    const auto* next = ids.data();
    auto* to = padded.data();
    for (std::size_t row = 0; row < lengths.size(); ++row) {
      pads.data()[row] = longest - lengths[row];
      to = std::fill_n(to, longest - lengths[row], 0);
      to = std::copy_n(next, lengths[row], to);
      next += lengths[row];
    }
    batch = static_cast<std::int64_t>(lengths.size());
    return read({padded.data(), unsigned_of(batch * longest)}, longest, at_once, true);
  }

  Status rewind(std::int64_t tokens) {
    if (tokens < 0 || tokens > past) {
      return beyond("rewind is " + std::to_string(tokens) + ", out of range: expected 0 to " + std::to_string(past));
    }
    if (!layer_states.empty() && tokens > 0 && tokens < past) {
      return refused("this model has states of all tokens that were read, and none of the first " + counted(tokens, "token") +
                     " alone: rewind to 0, or go on with a copy that was made there");
    }
    auto status = scene == nullptr ? Status() : scene->check_rewind(batch, tokens);
    if (!status.ok()) return status;
    if (tokens < past) has_logits = false;
    forget(tokens);
    return {};
  }

  /// Take the texts of another decoder: nothing changes before there is memory for all of them.
  Status copy(const Impl& other) {
    if (this == &other) return {};
    if (session != other.session || (scene == nullptr) != (other.scene == nullptr)) {
      return refused("a decoder copies another of its own session");
    }
    const auto room = ports.in_place ? std::max(other.past, reserved) : other.past;
    const auto scores = product(unsigned_of(other.batch), unsigned_of(vocabulary));
    auto& next = blocks[1 - full];
    Buffer<std::int64_t> their_pads, their_mask;
    Buffer<float> their_logits;
    Buffer<std::byte> their_states;
    if (!next.grow(other.bytes_of(room)) || !their_pads.grow(unsigned_of(other.batch)) || !their_logits.grow(scores) ||
        !their_states.grow(other.states.size()) || !their_mask.grow(other.states_mask.size()) ||
        (scene != nullptr && !scene->grow(other.batch)) || !layer_states.grow(other.layer_states, other.batch)) {
      return {ErrorKind::memory, "out of memory: " + counted(other.batch, "text") + " of " +
                                     counted(other.past, "token") + " are not copied"};
    }
    std::copy_n(other.states.data(), other.states.size(), their_states.data());
    std::copy_n(other.states_mask.data(), other.states_mask.size(), their_mask.data());
    states = std::move(their_states);
    states_mask = std::move(their_mask);
    states_shape = other.states_shape;
    batch = other.batch;
    past = other.past;
    copy_cache(other.blocks[other.full].data(), other.laid_out(), next.data(), room, past);
    std::copy_n(other.pads.data(), unsigned_of(batch), their_pads.data());
    if (other.has_logits) std::copy_n(other.logits.data(), scores, their_logits.data());
    has_logits = other.has_logits;
    if (scene != nullptr) scene->copy(*other.scene, batch);
    layer_states.copy(other.layer_states, batch);
    pads = std::move(their_pads);
    logits = std::move(their_logits);
    if (ports.in_place) {
      capacity = room;
      blocks[full].free();
    }
    full = 1 - full;
    return {};
  }

  Status step(Span<const std::int64_t> ids) {
    if (past == 0) return refused("a text begins with a prompt: prefill before the first step");
    if (static_cast<std::int64_t>(ids.size()) != batch) {
      return refused("a step takes a token for each text: expected " + std::to_string(batch) + ", got " +
                     std::to_string(ids.size()));
    }
    auto status = check_length(1);
    if (status.ok()) status = check_ids(ids);
    return status.ok() ? read(ids, 1, 1, false) : status;
  }
};

Decoder::Decoder(const Session& session, DecoderPorts ports) : impl_(new Impl(session, std::move(ports), nullptr)) {}
Decoder::Decoder(const Session& session, DecoderPorts ports, const SceneGraphs& graphs)
    : impl_(new Impl(session, std::move(ports), &graphs)) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

template <class Call>
Status Decoder::on_graph(Call&& call) noexcept {
  return detail::guarded([&] {
    if (impl_ == nullptr) return refused("this decoder was moved from: make another");
    if (impl_->inputs.empty()) return refused("the model held no graph when its decoder was made: load one first");
    if (part < 1) return refused("part is " + std::to_string(part) + ": expected 1 or more tokens");
    return call();
  });
}

Status Decoder::try_attend(const View& states, Span<const std::int64_t> mask) noexcept {
  return on_graph([&] { return impl_->attend(states, mask); });
}

Status Decoder::try_sense(Span<const View> pictures) noexcept {
  return on_graph([&] {
    return impl_->scene == nullptr ? refused("this model sees no pictures and hears no sounds") : impl_->scene->sense(pictures);
  });
}

Status Decoder::try_prefill(Span<const std::int64_t> ids) noexcept {
  return on_graph([&] { return impl_->read_prompt(ids, part); });
}

Status Decoder::try_prefill(Span<const std::int64_t> ids, Span<const std::int64_t> lengths) noexcept {
  return on_graph([&] { return impl_->read_prompts(ids, lengths, part); });
}

Status Decoder::try_read(Span<const std::int64_t> ids, Span<float> logits) noexcept {
  return on_graph([&] { return impl_->read_scored(ids, part, logits); });
}

Status Decoder::try_step(Span<const std::int64_t> ids) noexcept {
  return on_graph([&] { return impl_->step(ids); });
}

Status Decoder::try_reserve(std::int64_t tokens) noexcept {
  return on_graph([&]() -> Status {
    const auto end = impl_->end;
    const auto given = "reserve is " + std::to_string(tokens);
    const auto expected = end == 0 ? ": expected 0 or more tokens" : ": expected 0 to " + std::to_string(end) + " tokens";
    if (tokens < 0) return refused(given + expected);
    if (end != 0 && tokens > end) return beyond(given + ", out of range" + expected);
    impl_->reserved = tokens;
    return {};
  });
}

Status Decoder::try_rewind(std::int64_t tokens) noexcept {
  return on_graph([&] { return impl_->rewind(tokens); });
}

Status Decoder::try_copy(const Decoder& other) noexcept {
  return on_graph([&] {
    if (other.impl_ == nullptr) return refused("the other decoder was moved from: make another");
    return impl_->copy(*other.impl_);
  });
}

Span<const float> Decoder::logits() const noexcept {
  if (length() == 0 || !impl_->has_logits) return {};
  return {impl_->logits.data(), unsigned_of(impl_->batch * impl_->vocabulary)};
}
std::int64_t Decoder::vocabulary() const noexcept { return impl_ == nullptr ? 0 : impl_->vocabulary; }
std::int64_t Decoder::batch() const noexcept { return impl_ == nullptr ? 0 : impl_->batch; }
std::int64_t Decoder::length() const noexcept { return impl_ == nullptr ? 0 : impl_->past; }
std::int64_t Decoder::places() const noexcept {
  return impl_ == nullptr || impl_->scene == nullptr ? 0 : impl_->scene->places();
}

void Decoder::clear() noexcept {
  if (impl_ == nullptr) return;
  impl_->forget(0);
  if (impl_->scene != nullptr) impl_->scene->forget_pictures();
}

}  // namespace POSENC_VERSION
}  // namespace posenc
