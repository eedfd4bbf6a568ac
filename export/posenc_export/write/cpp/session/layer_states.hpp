// What layers replace in each call: states of convolutions and of recurrences, which hold all tokens so far and none by
// itself. Private to the session.
#pragma once

#include <array>
#include <cstring>
#include <vector>

#include "buffer.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

/// States of texts in three blocks of memory: those that the texts have, which stay until all of a prompt has been read,
/// and two that take turns between its parts.
class LayerStates {
 public:
  /// Note a state: the input, and the output that it is in the next call.
  void add(std::size_t input, std::size_t output, const Port& port) {
    State state{input, output, port.dtype, {}, 0};
    for (const auto& axis : port.axes) state.shape.push_back(axis.name.empty() ? axis.size : 1);
    state.bytes = count(state.shape) * size_of(port.dtype);
    states_.push_back(std::move(state));
  }

  bool empty() const noexcept { return states_.empty(); }

  /// Begin to read tokens of so many texts, behind the states that they have, or behind zeros; false without memory.
  bool begin(std::int64_t batch, bool is_fresh) noexcept {
    now_ = kept_;
    const auto bytes = bytes_of(batch);
    if (is_fresh && !blocks_[kept_].grow(bytes)) return false;
    if (is_fresh && bytes > 0) std::memset(blocks_[kept_].data(), 0, bytes);
    return blocks_[(kept_ + 1) % 3].grow(bytes) && blocks_[(kept_ + 2) % 3].grow(bytes);
  }

  /// Where the states lie before a call, and behind it.
  void view(std::int64_t batch, std::vector<View>& inputs, std::vector<View>& outputs) {
    auto* before = blocks_[now_].data();
    auto* after = blocks_[next()].data();
    for (auto& state : states_) {
      state.shape[0] = batch;
      inputs[state.input] = {state.dtype, state.shape, before, count(state.shape)};
      outputs[state.output] = {state.dtype, state.shape, after, count(state.shape)};
      before += room_of(state, batch);
      after += room_of(state, batch);
    }
  }

  /// Go on from what a call gave.
  void advance() noexcept { now_ = next(); }
  /// Have the texts keep the states, since all of their tokens were read; or those from before, since some were not.
  void keep() noexcept { kept_ = now_; }
  void drop() noexcept { now_ = kept_; }

  /// Have room for the states that other texts have; then take them.
  bool grow(const LayerStates& other, std::int64_t batch) noexcept { return blocks_[(kept_ + 1) % 3].grow(other.bytes_of(batch)); }
  void copy(const LayerStates& other, std::int64_t batch) noexcept {
    const auto bytes = bytes_of(batch);
    kept_ = now_ = (kept_ + 1) % 3;
    if (bytes > 0) std::memcpy(blocks_[kept_].data(), other.blocks_[other.kept_].data(), bytes);
  }

 private:
  struct State {
    std::size_t input;
    std::size_t output;
    DType dtype;
    std::vector<std::int64_t> shape;  // of one text, or of those of a call
    std::size_t bytes;                // of one text
  };

  /// Bytes of a state in a block: each begins where any element may lie.
  static std::size_t room_of(const State& state, std::int64_t batch) noexcept {
    return (product(unsigned_of(batch), state.bytes) + 15) / 16 * 16;
  }
  std::size_t bytes_of(std::int64_t batch) const noexcept {
    std::size_t bytes = 0;
    for (const auto& state : states_) bytes += room_of(state, batch);
    return bytes;
  }
  /// The block that a call fills: none that holds what is needed.
  std::size_t next() const noexcept { return now_ == kept_ ? (kept_ + 1) % 3 : 3 - now_ - kept_; }

  std::vector<State> states_;
  std::array<Buffer<std::byte>, 3> blocks_;
  std::size_t kept_ = 0;  // the block of the states that the texts have
  std::size_t now_ = 0;   // the block of those behind the last call
};

}  // namespace POSENC_VERSION
}  // namespace posenc
