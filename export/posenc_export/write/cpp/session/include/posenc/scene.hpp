/// @file
/// The graphs of a model that sees pictures, or hears sounds, among the tokens of a text, beside its decoder.
#pragma once

#include "posenc/session.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

/// The other graphs of such a model, and what its texts say of pictures; spectra of sounds are pictures, too. Which port is
/// what follows from its name: the decoder's `inputs_embeds` and `token_type_ids`, and each of its inputs that the tower
/// gives as an output, too, are fed. The sessions must outlive a decoder, and stay where they are.
struct SceneGraphs {
  const Session* words = nullptr;      ///< ids of tokens to embeddings, (texts, tokens, features)
  const Session* tower = nullptr;      ///< pictures to embeddings, (rows, features): a row for each place
  const Session* positions = nullptr;  ///< counts positions over pictures; null where they count as those of words do
  std::int64_t place = 0;              ///< the id of a token in whose place such a row goes
  bool types = false;  ///< whether `token_type_ids` tell places; else they are 1 behind the first call of a text
  const char* picture = "picture";     ///< what one is called
  int grids = -1;                      ///< the tower's input of steps, rows and columns of patches, (pictures, 3)
  int patches = -1;                    ///< its input whose first axis is that of those patches
  std::int64_t multiple = 1;           ///< what rows and columns are multiples of
};

}  // namespace POSENC_VERSION
}  // namespace posenc
