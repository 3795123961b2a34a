/// @file
/// Fibers: functions that stop in the middle and continue later, all on one thread of the operating
/// system. Boost.Context switches the stacks. This adds what broken kernels need: a fiber can be
/// left in the middle for good, and the stacks are kept for later fibers.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace fa::lab {

/// A function with a stack of its own. Its owner calls resume(), the function calls yield().
class Fiber {
 public:
  /// Thrown out of yield() when the fiber is destroyed: destructors on its stack run. A function
  /// that catches everything must rethrow it.
  struct Unwind {};

  Fiber() = default;
  /// Unwinds the stack of a function that has not ended. If that is impossible, leaks it.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Sets the function; the first resume() begins it.
  void start(std::function<void()> function);
  /// Runs the function until it yields, ends, or is left.
  void resume();
  /// Gives control back to resume(). Called by the function.
  void yield();
  /// The same where nothing on the stack needs a destructor: nothing is thrown.
  /// @return false when the fiber is destroyed: the function must end
  bool yield_at_rest();
  /// As yield(), but another fiber that has yielded, or not begun, continues in the place of the
  /// owner, to whom it gives control back: one switch instead of two.
  void yield_to(Fiber& next);
  /// The same where the compiler assumes that nothing throws: a fiber that is destroyed here is not
  /// unwound.
  void yield_in_the_middle();
  /// Gives control back to resume() and never continues. May be called by a signal handler.
  void leave();
  /// Whether it was left.
  bool left() const { return left_; }

  /// Whether an address is on its stack.
  bool has_on_stack(const void* address) const {
    const auto* at = static_cast<const char*>(address);
    return at >= static_cast<const char*>(stack_.bottom) &&
           at < static_cast<const char*>(stack_.bottom) + stack_.size;
  }
  /// Whether an address lies below its stack, before anything else.
  bool has_overflowed(const void* address) const {
    const auto* at = static_cast<const char*>(address);
    return at < static_cast<const char*>(stack_.bottom) &&
           at >= static_cast<const char*>(stack_.bottom) - stack_.size / 2;
  }

  /// What a fiber that has yielded has on its stack, its registers among it.
  /// @return its lowest word and the end; both null where that is not known
  std::pair<const std::uint64_t*, const std::uint64_t*> used_stack() const;

  /// The fiber that this thread of the operating system runs; null outside.
  static Fiber* running();

 private:
  struct Stack {  // as AddressSanitizer wants it
    const void* bottom = nullptr;
    std::size_t size = 0;
  };
  class KeptStacks;
  static void before_switch(const Stack& to, void** saved);
  static Stack after_switch(void* saved);
  void continues(boost::context::fiber&& from, void* saved);

  std::function<void()> function_;
  boost::context::fiber self_, owner_;
  Stack stack_, owners_stack_;
  bool left_ = false, unwinding_ = false, may_unwind_ = true;
};

}  // namespace fa::lab
