/// @file
/// The running program: where the loader of Linux put it, its symbols, and which lines of its
/// kernels were never reached.
///
/// In watched code the compiler calls the observer before each load and store, and at the beginning
/// of each basic block. These calls stand in the machine code of the program, where they can be
/// listed; those that were never executed belong to lines that no thread reached.
///
/// Limit: lines are those that the compiler kept. Code of a template that was never instantiated,
/// and code that the compiler removed or moved out of a branch, is not listed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace fa::lab {

/// The executable, without its libraries.
struct Program {
  std::uintptr_t load_address = 0;      ///< what its symbols' addresses are relative to
  std::uintptr_t code = 0;              ///< where its machine code begins
  std::size_t code_bytes = 0;           ///< of it
  const void* thread_locals = nullptr;  ///< its thread-local variables on this thread
  std::size_t thread_local_bytes = 0;   ///< of them

  /// The one that runs.
  static Program running();
};

/// A function or variable of the executable.
struct Symbol {
  std::uintptr_t begin = 0;  ///< its address
  std::size_t size = 0;      ///< bytes
  int kind = 0;              ///< STT_FUNC, STT_OBJECT: <elf.h>
  std::string name;          ///< as linkers know it

  /// All of them; none where the file has no table of them. (Not all are in the table that the
  /// loader has in memory.)
  static const std::vector<Symbol>& of_this_program();
};

/// Lines of kernels, as "file:line".
struct Coverage {
  std::set<std::string> lines;    ///< that the compiled kernels have
  std::set<std::string> reached;  ///< of these, those that a thread reached

  /// Adds what another launch reached, of the same kernel or of another one.
  void add(const Coverage& other) {
    lines.insert(other.lines.begin(), other.lines.end());
    reached.insert(other.reached.begin(), other.reached.end());
  }
};

/// Whether there is a line and it says more than that a block ends. The compiler gives much of what
/// it adds for exceptions to the closing brace of a function.
/// @param place "file:line"; of a file that cannot be read all lines count
bool says_something(const std::string& place);

/// The watched code of this program, from its machine code and its table of symbols.
class WatchedCode {
 public:
  /// That of this program, read once.
  static const WatchedCode& of_this_program();

  /// The first address of the program's code.
  std::uintptr_t begin() const { return begin_; }
  /// How many bytes of code there are.
  std::size_t size() const { return size_; }
  /// The calls of the observer in the functions that were entered, and in all that these call, and
  /// so on.
  /// @param reached return addresses of calls of the observer that were executed
  /// @return return addresses, in order; empty when the program's symbols were removed
  std::vector<std::uintptr_t> calls_around(const std::vector<std::uintptr_t>& reached) const;

 private:
  struct Function {
    std::uintptr_t begin, end;
    bool watches;  // is one of the observer's
  };
  struct Call {
    std::uintptr_t returns_to;
    const Function* callee;
  };

  WatchedCode();
  void read_symbols();
  void read_calls();
  const Function* function_at(std::uintptr_t address) const;

  std::uintptr_t begin_ = 0;
  std::size_t size_ = 0;
  std::vector<Function> functions_;  // by their beginnings
  std::vector<Call> calls_;          // by their addresses
};

}  // namespace fa::lab
