/// @file
/// The side of an exercise that runs the student's code. An exercise's entry.cpp includes the
/// student's file and offers functions to the grader, which is another program and calls them by
/// their names. README.md has the whole.
#pragma once

#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

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

/// Offers a function. Use FA_ENTRY().
class Entry {
 public:
  /// For the grader by this name; the function's parameters are values.
  template <class Function>
  Entry(const char* name, Function function)
      : Entry(name,
              std::function<std::string(const std::string&)>([function](const std::string& bytes) {
                return invoke(function, &Function::operator(), bytes);
              })) {}

 private:
  Entry(const char* name, std::function<std::string(const std::string&)> function);

  template <class Function, class R, class... Arguments>
  static std::string invoke(const Function& function, R (Function::*)(Arguments...) const,
                            const std::string& bytes) {
    Wire wire(bytes);
    std::tuple<std::decay_t<Arguments>...> arguments;
    wire.pass(arguments);
    wire.end();
    if constexpr (std::is_void_v<R>) {
      std::apply(function, arguments);
      return {};
    } else {
      return packed(std::apply(function, arguments));
    }
  }
};

}  // namespace fa::classroom

/// FA_ENTRY(name, [](std::vector<double> x) { return student::f(x); });
#define FA_ENTRY(name, ...) static const ::fa::classroom::Entry fa_entry_##name(#name, __VA_ARGS__)
