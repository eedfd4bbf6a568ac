// Records of an archive of torch (.pt, .pt2): read by name, without loading what the archive holds. Private to the session.
#pragma once

#include <caffe2/serialize/inline_container.h>

#include <filesystem>
#include <memory>
#include <string>

#include "identity.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

/// An archive in memory, as libtorch reads it: the memory must stay.
std::shared_ptr<caffe2::serialize::ReadAdapterInterface> readable(const Bytes& archive);

/// An archive, of which records are read; throws c10::Error where it is none.
class Archive {
 public:
  explicit Archive(const std::filesystem::path& file) : reader_(file.string()) {}
  explicit Archive(const Bytes& bytes) : reader_(readable(bytes)) {}

  /// The text of a record, or nothing where there is none, or one longer than any that says what a graph is.
  std::string text(const std::string& record);

 private:
  caffe2::serialize::PyTorchStreamReader reader_;
};

/// Refuse an archive of another graph than the one that is meant.
Status check_identity(Archive& archive, const std::string& graph, Span<const Fact> made_for);

}  // namespace POSENC_VERSION
}  // namespace posenc
