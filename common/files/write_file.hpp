/// @file
/// Files that are written completely or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>
#include <string_view>

namespace fa {

/// Writes a new file beside the old one, then renames it. A reader never sees half a file, not even
/// after an interrupt, and programs that write the same file at the same time do not interfere.
/// Symbolic links are followed, and the mode of an existing file is kept. Devices and FIFOs are
/// written in place.
/// @param path  the file; an existing one is replaced
/// @param write writes the bytes into the stream
/// @throws std::runtime_error when the file cannot be written; no temporary file remains
void write_file(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);

/// Writes a text, as above.
/// @throws std::runtime_error when the file cannot be written
void write_file(const std::filesystem::path& path, std::string_view text);

/// Appends a text to a file, which is created if missing. Texts that several programs append at the
/// same time do not mix.
/// @throws std::runtime_error when the file cannot be written; its old content is kept
void append_to_file(const std::filesystem::path& path, std::string_view text);

/// Checks, before long work, that write_file() could write a file. The file is not changed.
/// @throws std::runtime_error when it cannot be written
void check_writable(const std::filesystem::path& path);

/// The same for new files in an existing folder.
/// @throws std::runtime_error when no file can be created there
void check_folder_writable(const std::filesystem::path& folder);

}  // namespace fa
