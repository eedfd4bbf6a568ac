// Whether a graph is the one that is meant, by what its file says of it. Private to the session.
#pragma once

#include <functional>
#include <string>

#include "posenc/session.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

/// Looks a name up in the metadata of a file: puts its text into the second, or leaves that empty where there is none.
using LookUp = std::function<Status(const std::string& name, std::string& text)>;

/// Refuse a graph whose id is another than that of the graph that is meant, or that has none. No fact means any graph.
Status check_identity(const std::string& graph, Span<const Fact> made_for, const LookUp& look_up);

/// What a file is called in messages; a graph in memory.
inline std::string name_of(const std::filesystem::path& file) { return file.filename().string(); }
inline std::string name_of(const Bytes&) { return "the graph in memory"; }

}  // namespace POSENC_VERSION
}  // namespace posenc
