/// @file
/// Escaping of text for XML, JSON and terminals.
#pragma once

#include <string>
#include <string_view>

namespace fa {

/// A text escaped for XML, between tags or in quotes. Control characters, which XML does not allow,
/// become spaces.
/// @param text UTF-8
std::string xml_text(const std::string& text);

/// Text from a file made safe for a terminal: every byte of a control character, of a character
/// that changes the line or the writing direction, and of invalid UTF-8 becomes four characters
/// such as `\\x1b`. The result is its own printable() form.
/// @param bytes any
std::string printable(std::string_view bytes);

/// A text as a JSON string, with its quotes.
/// @param text UTF-8
std::string json_text(const std::string& text);

}  // namespace fa
