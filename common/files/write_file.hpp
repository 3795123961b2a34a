/// @file
/// Files that appear whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>
#include <string_view>

namespace fa {

/// Writes a file beside its place, then renames it: a reader, or an interrupt, never meets half a file.
/// @param path  the file; one that exists is replaced
/// @param write puts the bytes into the stream
/// @throws std::runtime_error when the file cannot be written; nothing is left behind
void write_file(const std::filesystem::path& path,
                const std::function<void(std::ostream&)>& write);

/// Writes a text, see above.
/// @throws std::runtime_error when the file cannot be written
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace fa
