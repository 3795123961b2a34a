/// @file
/// Files that programs write whole or not at all, and text that is safe in a terminal and JSON.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fa {

/// Writes a new file beside the old one, then renames it, so that a reader never sees half a file
/// and programs that write the same file do not interfere. Symbolic links are followed, and an
/// existing file keeps its mode. Devices, FIFOs and /dev/stdout are written in place.
/// @throws std::runtime_error when the file cannot be written; no temporary file remains
void write_file(const std::filesystem::path& path, std::string_view text);

/// Appends a line to a file, which is created if missing. Lines of several programs do not mix.
/// @throws std::runtime_error when the file cannot be written
void append_to_file(const std::filesystem::path& path, std::string_view line);

/// Checks, before long work, that write_file() could write a file. Nothing is changed.
/// @throws std::runtime_error when it cannot
void check_writable(const std::filesystem::path& path);

/// Text from a file made safe for a terminal: every byte of a control character, of a character
/// that changes the line or the writing direction, and of invalid UTF-8 becomes four characters
/// such as `\\x1b`. The result is its own printable() form.
std::string printable(std::string_view bytes);

/// UTF-8 as a JSON string, with its quotes.
std::string json_text(const std::string& text);

}  // namespace fa
