/// @file
/// What the engine does about a mistake in a kernel: a finding for the observer, or an exception
/// that ends the launch.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/lab/observer.hpp"

namespace fa::lab {

/// "file:line".
inline std::string text_of(const SourceLocation& location) {
  return fmt::format("{}:{}", location.file, location.line);
}

/// Ends the launch.
/// @throws std::runtime_error "file:line: message"
template <class... Arguments>
[[noreturn]] void fail(const SourceLocation& location, fmt::format_string<Arguments...> message,
                       Arguments&&... arguments) {
  throw std::runtime_error(text_of(location) + ": " +
                           fmt::format(message, std::forward<Arguments>(arguments)...));
}

/// Reports a finding if there is an observer; see Observer::finds().
inline void note_finding(const char* kind, const SourceLocation& location,
                         const SourceLocation& other, const std::string& message) {
  if (observer != nullptr) observer->finds(kind, location, other, message);
}

/// Reports a finding; ends the launch if there is no observer.
/// @throws std::runtime_error
void finding_or_fail(const char* kind, const SourceLocation& location, const SourceLocation& other,
                     const std::string& message);

}  // namespace fa::lab
