// What goes into a decoder of embeddings: those of words and, in the places of pictures, what a tower makes of these.
// Private to the session.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "buffer.hpp"
#include "posenc/scene.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

/// Texts about to be read on: how many, their tokens so far, and how many of those pad each text, on the left.
struct Texts {
  std::int64_t batch;
  std::int64_t past;
  const std::int64_t* pads;
};

/// The feeds of a decoder that are made of ids and of pictures. Pictures wait for the prompt that has places for them, and
/// are given back behind it. What the texts keep of pictures is how far these move the positions behind them.
class SceneFeeds {
 public:
  SceneFeeds(const Session& decoder, const SceneGraphs& graphs);

  /// Run the tower on pictures, and keep what it makes of them.
  Status sense(Span<const View> pictures);
  /// Places that the pictures fill which wait.
  std::int64_t places() const noexcept;
  /// Whether prompts have as many places as the pictures fill that wait.
  Status check_places(Span<const std::int64_t> ids) const;
  /// Whether the texts may go back to so many tokens: positions behind a picture follow from its grid, which is not kept.
  Status check_rewind(std::int64_t batch, std::int64_t tokens) const;
  /// Whether a prompt goes through at once, since its tokens see those behind them.
  bool is_whole() const noexcept { return types_ != none; }

  /// Find which row goes where among tokens, (texts, tokens), and count their positions where pictures are among them.
  Status begin(const Texts& texts, Span<const std::int64_t> ids, std::int64_t tokens, bool is_prompt);
  /// Give the decoder what goes in of `size` of those tokens from `first` on, whose ids are (texts, size).
  Status feed(Span<const std::int64_t> ids, std::int64_t first, std::int64_t size, std::vector<View>& inputs);
  /// Note that the tokens were read; pictures that were among them are given back.
  void keep(std::int64_t length) noexcept;
  /// How far pictures move the positions of the tokens that are being read, in one of the texts.
  std::int64_t moved(std::int64_t row) const noexcept { return moves_.data()[row]; }

  void forget_pictures() noexcept { std::vector<Seen>().swap(seen_); }
  /// Have room for what other feeds keep of so many texts.
  bool grow(std::int64_t batch) noexcept { return moves_.grow(unsigned_of(batch)); }
  /// Keep what other feeds do.
  void copy(const SceneFeeds& other, std::int64_t batch) noexcept;

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  /// What the tower made of the pictures of a call, and what positions are counted from.
  struct Seen {
    std::vector<Array> features;
    std::vector<Array> grids;
  };
  /// An input of the decoder whose rows at pictures are those of an output of the tower.
  struct Fed {
    std::size_t output;
    std::size_t input;
    Buffer<std::byte> tokens;
  };
  /// An input of the tower that positions are counted from, too.
  struct Shared {
    std::size_t of_tower;
    std::size_t of_positions;
  };

  Status check_grids(Span<const View> pictures) const;
  Status check_features(const std::vector<Array>& features) const;
  std::size_t row_bytes(const Fed& fed) const noexcept;
  const std::byte* row_of(std::size_t output, std::int64_t row) const noexcept;
  bool find_places(const Texts& texts, Span<const std::int64_t> ids);
  Status count_positions(const Texts& texts, Span<const std::int64_t> ids);
  bool fill_mask(const Texts& texts);
  Status put_in_places(Fed& fed, std::int64_t first, std::int64_t size, bool of_words);

  const Session* decoder_;
  SceneGraphs graphs_;
  std::vector<Fed> fed_;  // the embeddings first
  std::vector<Shared> shared_;
  std::size_t types_ = none;
  std::size_t positions_ = none;
  std::int64_t position_rows_ = 1;

  std::vector<Seen> seen_;        // the pictures that wait
  Buffer<std::int64_t> kept_;     // how far pictures moved positions so far, by text
  std::int64_t pictures_end_ = 0;  // tokens up to the end of the last prompt with a picture

  // of the tokens that are being read
  Texts texts_{0, 0, nullptr};
  std::int64_t tokens_ = 0;
  bool has_places_ = false;
  bool has_positions_ = false;
  Buffer<std::int64_t> moves_, rows_, counted_, mask_, types_of_, part_positions_;
  std::array<std::int64_t, 2> ids_shape_{{0, 0}}, types_shape_{{0, 0}};
  std::array<std::int64_t, 3> fed_shape_{{0, 0, 0}}, positions_shape_{{0, 0, 0}};
};

}  // namespace POSENC_VERSION
}  // namespace posenc
