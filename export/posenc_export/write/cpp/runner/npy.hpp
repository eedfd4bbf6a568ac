// Tensors in .npy files, by xtensor.
#pragma once

#include <filesystem>

#include "posenc/session.hpp"

namespace runner {

/// Read NAME.npy of a folder as a port has it; Error where the file is missing, damaged, or of another dtype. bfloat16,
/// which NumPy has not, lies there as its bits in uint16.
posenc::Array read_npy(const std::filesystem::path& folder, const posenc::Port& port);
/// Write an array as NAME.npy into a folder.
void write_npy(const std::filesystem::path& folder, const std::string& name, const posenc::Array& array);

}  // namespace runner
