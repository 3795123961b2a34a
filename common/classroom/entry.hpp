/// @file
/// The side of an exercise that runs the student's code. An exercise's entry includes the student's
/// file and offers functions to the grader, which is another program and calls them by their names.
/// README.md has the whole. It is precompiled for entries and graders without kernels: a check then
/// takes a second or two. Nothing of a grader is in it.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "common/classroom/wire.hpp"

namespace fa::classroom {

/// Ends the call: the grader refuses with this message.
[[noreturn]] void fail(const std::string& message);

/// Calls a function of the grader.
std::string call_back(std::uint32_t function, const std::string& arguments);

/// A function of the grader as a parameter of an entry: R(Arguments...).
template <class Signature>
class Callback;
/// For a signature that is taken apart.
template <class R, class... Arguments>
class Callback<R(Arguments...)> {
 public:
  /// What the grader's function returns.
  R operator()(const Arguments&... arguments) const {
    return unpacked<R>(call_back(function, packed(arguments...)));
  }
  std::uint32_t function = 0;  ///< its number
};

/// Offers a function that reads its arguments and writes its result to the grader, by this name.
bool offer(const char* name, std::function<void(Wire& arguments, Wire& result)> function);

/// The same for a function whose parameters are values. Use FA_ENTRY().
template <class R, class... Arguments>
bool offer(const char* name, R (*function)(Arguments...)) {
  return offer(name, [function](Wire& in, Wire& out) {
    std::tuple<std::decay_t<Arguments>...> arguments;
    in.pass(arguments);
    in.end();
    if constexpr (std::is_void_v<R>) {
      std::apply(function, arguments);
    } else {
      std::decay_t<R> result = std::apply(function, arguments);
      out.pass(result);
    }
  });
}

}  // namespace fa::classroom

/// FA_ENTRY(name, [](std::vector<double> x) { return student::f(x); });
#define FA_ENTRY(name, ...) \
  static const bool fa_entry_##name = ::fa::classroom::offer(#name, +__VA_ARGS__)
