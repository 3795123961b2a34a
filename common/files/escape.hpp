/// @file
/// Text inside of XML and JSON, and on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace fa {

/// What XML reads as a text, between tags or in quotes. Control characters, which it cannot have, become
/// spaces.
/// @param text UTF-8
std::string xml_text(const std::string& text);

/// What a terminal shows as a text and does not obey, for what comes from files: every byte of a control character, of a
/// character that changes the direction or the line, and of what is not UTF-8 becomes four characters such as `\\x1b`. A
/// text of this kind stays as it is.
/// @param bytes any
std::string printable(std::string_view bytes);

/// A text as JSON writes it, with its quotes.
/// @param text UTF-8
std::string json_text(const std::string& text);

}  // namespace fa
