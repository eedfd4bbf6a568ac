// The classes that a program of texts with pictures tries, by -DSCENE and -DHEADER; with -DALONE those of a decoder alone,
// under the same names.
#pragma once

#include <filesystem>

#include HEADER
#ifndef ALONE
#include "pictures.hpp"
#endif

#ifdef ALONE
using Text = posenc::Decoder;
struct Graphs {
  explicit Graphs(const std::filesystem::path& folder, const posenc::Options& options = {})
      : decoder(folder / "model.onnx", options) {}
  Text text() const { return decoder.decoder(); }
  posenc::SCENE::Model decoder;
};
#else
using posenc::SCENE::Graphs;
using posenc::SCENE::Text;
#endif
