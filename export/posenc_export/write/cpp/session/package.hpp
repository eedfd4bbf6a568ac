// What an AOTInductor package says of itself, read before any code of it is loaded. Private to the session of libtorch.
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>

#include "posenc/session.hpp"

namespace posenc {
inline namespace POSENC_VERSION {

using PackageFacts = std::unordered_map<std::string, std::string>;

/// Read them; throws what libtorch throws of a file that is no package.
PackageFacts facts_of_package(const std::filesystem::path& file);
/// Whether the bytes are those of a package, by the names of its files; libtorch loads one from a file alone.
bool is_package(const Bytes& graph);
/// Throw Error of the kind `device` where a package was compiled for another device, or for instructions that this CPU
/// has not: running those would end the process.
void expect_made_for(Device device, const std::filesystem::path& file, const PackageFacts& facts);

}  // namespace POSENC_VERSION
}  // namespace posenc
