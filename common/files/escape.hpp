/// @file
/// Text inside of XML and JSON.
#pragma once

#include <string>

namespace fa {

/// What XML reads as a text, between tags or in quotes. Control characters, which it cannot have, become
/// spaces.
/// @param text UTF-8
std::string xml_text(const std::string& text);

/// A text as JSON writes it, with its quotes.
/// @param text UTF-8
std::string json_text(const std::string& text);

}  // namespace fa
