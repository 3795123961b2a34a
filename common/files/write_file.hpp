/// @file
/// Files that appear whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>
#include <string_view>

namespace fa {

/// Writes a new file beside the old one, then renames it: a reader, or an interrupt, never meets half a file, and
/// programs that write the same file at once do not disturb each other. The file that symbolic links lead to is
/// written, and keeps its mode; devices and FIFOs are written as they are.
/// @param path  the file; one that exists is replaced
/// @param write puts the bytes into the stream
/// @throws std::runtime_error when the file cannot be written; nothing is left behind
void write_file(const std::filesystem::path& path,
                const std::function<void(std::ostream&)>& write);

/// Writes a text, see above.
/// @throws std::runtime_error when the file cannot be written
void write_file(const std::filesystem::path& path, std::string_view text);

/// Adds a text to the end of a file, which is made if it is missing. Texts that programs add at once do not mix.
/// @throws std::runtime_error when the file cannot be written; it is as it was then
void append_to_file(const std::filesystem::path& path, std::string_view text);

/// Finds out before long work whether write_file() could write a file now. The file is not touched.
/// @throws std::runtime_error when it cannot be written
void check_writable(const std::filesystem::path& path);

/// The same for files in a folder, which exists.
/// @throws std::runtime_error when no file can be written there
void check_folder_writable(const std::filesystem::path& folder);

}  // namespace fa
