/// @file
/// A causal language model that writes a text, a token at a time: what keeps the keys and values of all tokens so far.
#pragma once

#include <array>
#include <vector>

#include "posenc/scene.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

/// Which port of a graph is what: its number among the inputs, or among the outputs; -1 for an input that it lacks.
struct DecoderPorts {
  int ids = -1;
  int mask = -1;
  int positions = -1;
  int logits = -1;
  std::vector<std::array<int, 2>> cache;  ///< keys and values: the input, and the output that it is in the next call
  /// Whether the graph writes new keys and values behind those that are there, into one buffer for both, which may have
  /// room for more. Such a graph reads several tokens at once behind a cache for one text alone.
  bool in_place = false;
  int states = -1;       ///< states of an encoder, (texts, its tokens, features)
  int states_mask = -1;  ///< which of these count, (texts, its tokens)
  std::vector<std::array<int, 2>> of_states = {};  ///< keys and values of these states, which the graph computes once
  /// States of convolutions and of recurrences, which a call replaces, and which are zeros before the first token.
  std::vector<std::array<int, 2>> layer_states = {};
};

/// A text, or a batch of them, that a model goes on with. The session must outlive it, and stay where it is; several
/// decoders may share one. A decoder is used by one thread at a time.
///
/// Whatever a call refuses, and whatever fails in it, the texts stay as they were: `length`, `batch`, `logits`, and what
/// the next call gives. Ids, lengths and the end of the text are checked before anything runs; where memory or the runtime
/// fails in the middle of a prompt, what was read of it is forgotten again. What returns a Status throws nothing: memory
/// that ran out is ErrorKind::memory.
///
/// Keys and values lie in two blocks of memory that take turns: what a call gives in one, the next call takes from there.
/// Nothing is copied between calls, and memory is asked for when a text outgrows it, twice as much each time if there is.
/// Where the graph works in place (`DecoderPorts::in_place`), there is one block, a step writes one row of it, and what is
/// there is copied when a text outgrows the block.
class POSENC_API Decoder {
 public:
  Decoder(const Session& session, DecoderPorts ports);
  /// Go on with texts that have pictures, or sounds, among their tokens.
  Decoder(const Session& session, DecoderPorts ports, const SceneGraphs& graphs);
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  /// Take the states of an encoder, (texts, its tokens, features): each text attends to one row. `mask`, (texts, its tokens),
  /// is 1 for each token of the encoder that counts, else 0; without a mask all count. Call it before the first prompt. The
  /// states are copied, and stay until the next call of this; texts that were read are forgotten. Refused where the graph
  /// belongs to no encoder.
  Status try_attend(const View& states, Span<const std::int64_t> mask = {}) noexcept;
  /// Run the tower on pictures, or on sounds: its inputs in their order. What it makes of them, a row for each place, waits
  /// for the next prompt, behind that of earlier calls, and is given back once a prompt has been read; a step, which has no
  /// places, leaves it there. A prompt is refused unless it has just as many places, `places`; `clear` forgets what waits.
  /// Refused where the model has no tower.
  Status try_sense(Span<const View> pictures) noexcept;
  /// Places that the pictures fill which wait for a prompt.
  std::int64_t places() const noexcept;
  /// Read tokens of one text: a prompt, or what somebody says after the model has written. They go through the graph in
  /// parts of `part` tokens at most, so that the logits of a long prompt take no more memory.
  Status try_prefill(Span<const std::int64_t> ids) noexcept;
  /// Read the prompts of a batch, one behind the other in `ids`, as long as `lengths` says. Shorter ones are padded on the
  /// left. Refused where tokens have been read: `clear` first.
  Status try_prefill(Span<const std::int64_t> ids, Span<const std::int64_t> lengths) noexcept;
  /// Read tokens of one text as `try_prefill` does, and write the scores of what follows each of them, row by row:
  /// (tokens, vocabulary). Where the tokens are the guess of a smaller model, they say which of them hold: `rewind` to those.
  /// Refused where the graph gives the logits of the last token alone.
  Status try_read(Span<const std::int64_t> ids, Span<float> logits) noexcept;
  /// Go on by a token in each text of the batch.
  Status try_step(Span<const std::int64_t> ids) noexcept;
  Status try_step(std::int64_t id) noexcept { return try_step(Span<const std::int64_t>(&id, 1)); }
  /// Have the next prompt make room for texts of so many tokens at once, so that no step asks for memory for keys and
  /// values. 0: as much as there are tokens. Refused below 0, and beyond the last position that the graph holds, if it
  /// says so. Where memory does not have the room, the next call says so; then reserve less.
  Status try_reserve(std::int64_t tokens) noexcept;

  /// The scores of every token to come next, row by row: (batch, vocabulary). Which is taken is the caller's choice. They
  /// stay until the next call that goes well.
  Span<const float> logits() const noexcept;
  /// How many tokens there are to choose from: columns of `logits`.
  std::int64_t vocabulary() const noexcept;
  /// Texts of the batch; 0 before anything was read.
  std::int64_t batch() const noexcept;
  /// Tokens that each text has so far, with those that pad it.
  std::int64_t length() const noexcept;
  /// Forget the tokens of every text but the first `tokens`, with those that pad it: to write an answer again, or to go
  /// on behind the same beginning. There are no logits until the next token is read. Refused beyond `length`; where
  /// pictures moved positions, into what was read up to the last of them; and where layers have states, to any but 0.
  Status try_rewind(std::int64_t tokens) noexcept;
  /// Have the texts that another decoder of this session has, with their logits: to keep a prompt that many begin with,
  /// or to go on in several ways. Its own texts are forgotten.
  Status try_copy(const Decoder& other) noexcept;
  /// Forget every token, and the pictures that wait; memory is kept.
  void clear() noexcept;

  std::int64_t part = 512;

#if POSENC_EXCEPTIONS
  void attend(const View& states, Span<const std::int64_t> mask = {}) { expect(try_attend(states, mask)); }
  void prefill(Span<const std::int64_t> ids) { expect(try_prefill(ids)); }
  void prefill(Span<const std::int64_t> ids, Span<const std::int64_t> lengths) { expect(try_prefill(ids, lengths)); }
  void read(Span<const std::int64_t> ids, Span<float> logits) { expect(try_read(ids, logits)); }
  void step(Span<const std::int64_t> ids) { expect(try_step(ids)); }
  void step(std::int64_t id) { expect(try_step(id)); }
  void reserve(std::int64_t tokens) { expect(try_reserve(tokens)); }
  void rewind(std::int64_t tokens) { expect(try_rewind(tokens)); }
  void copy(const Decoder& other) { expect(try_copy(other)); }
#endif

 private:
  struct Impl;
  template <class Call>
  Status on_graph(Call&& call) noexcept;

  std::unique_ptr<Impl> impl_;
};

}  // namespace POSENC_VERSION
}  // namespace posenc
