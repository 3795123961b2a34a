#include "common/lab/fiber.hpp"

#include <boost/context/stack_context.hpp>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "common/lab/address_space.hpp"

#ifndef __has_feature  // Clang's word
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
// AddressSanitizer must know on which stack a fiber runs.
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define FA_ASAN(...) __VA_ARGS__
#else
#define FA_ASAN(...)
#endif

namespace fa::lab {
namespace {
__thread Fiber* running_fiber = nullptr;
__thread Fiber* yielded_fiber = nullptr;  // to the one that runs; null where its owner resumed it
}  // namespace

// Stacks of fibers that have ended, kept for the next launch: to map one anew takes longer than to
// run a small kernel on it. An allocator of boost::context.
class Fiber::KeptStacks {
 public:
  boost::context::stack_context allocate() {
    const std::lock_guard lock(mutex());
    if (kept().empty()) {
      boost::context::stack_context stack;
      stack.size = kStackBytes;
      stack.sp = map_stack() + kStackBytes;
      return stack;
    }
    const auto stack = kept().back();
    kept().pop_back();
    return stack;
  }
  void deallocate(boost::context::stack_context& stack) {
    // What AddressSanitizer remembers of frames that never returned is not for the next fiber.
    FA_ASAN(
        __asan_unpoison_memory_region(static_cast<const char*>(stack.sp) - stack.size, stack.size);)
    const std::lock_guard lock(mutex());
    kept().push_back(stack);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex result;
    return result;
  }
  static std::vector<boost::context::stack_context>& kept() {
    static std::vector<boost::context::stack_context> result;
    return result;
  }
};

void Fiber::before_switch([[maybe_unused]] const Stack& to, [[maybe_unused]] void** saved) {
  FA_ASAN(__sanitizer_start_switch_fiber(saved, to.bottom, to.size);)
}
// Returns the stack that control comes from.
Fiber::Stack Fiber::after_switch([[maybe_unused]] void* saved) {
  Stack from;
  FA_ASAN(__sanitizer_finish_switch_fiber(saved, &from.bottom, &from.size);)
  return from;
}

// This fiber runs from now on: keeps where control came from.
void Fiber::continues(boost::context::fiber&& from, void* saved) {
  const Stack stack = after_switch(saved);
  if (yielded_fiber == nullptr) {
    owner_ = std::move(from);
    owners_stack_ = stack;
    return;
  }
  Fiber& before = *std::exchange(yielded_fiber, nullptr);
  owner_ = std::move(before.owner_);
  owners_stack_ = before.owners_stack_;
  before.self_ = std::move(from);
}

Fiber* Fiber::running() {
  return running_fiber;
}

void Fiber::start(std::function<void()> function) {
  function_ = std::move(function);
  KeptStacks allocator;
  const auto memory = allocator.allocate();
  stack_ = {static_cast<const char*>(memory.sp) - memory.size, memory.size};
  self_ = boost::context::fiber(std::allocator_arg,
                                boost::context::preallocated(memory.sp, memory.size, memory),
                                allocator, [this](boost::context::fiber&& from) {
                                  continues(std::move(from), nullptr);
                                  try {
                                    if (!unwinding_) function_();
                                  } catch (const Unwind&) {
                                  }
                                  before_switch(owners_stack_, nullptr);
                                  return std::move(owner_);
                                });
}

Fiber::~Fiber() {
  if (!self_) return;
  if (!left_ && may_unwind_) {
    unwinding_ = true;
    resume();
  }
  if (self_) new boost::context::fiber(std::move(self_));  // to be leaked
}

// Boost's fiber is a pointer to where the registers were saved, the stack's lowest word.
std::pair<const std::uint64_t*, const std::uint64_t*> Fiber::used_stack() const {
  const void* lowest = nullptr;
  if (sizeof self_ != sizeof lowest) return {};
  std::memcpy(&lowest, static_cast<const void*>(&self_), sizeof lowest);
  if (!has_on_stack(lowest)) return {};
  const char* const end = static_cast<const char*>(stack_.bottom) + stack_.size;
  return {static_cast<const std::uint64_t*>(lowest), reinterpret_cast<const std::uint64_t*>(end)};
}

void Fiber::resume() {
  running_fiber = this;
  void* saved = nullptr;
  before_switch(stack_, &saved);
  auto last = std::move(self_).resume();
  after_switch(saved);
  std::exchange(running_fiber, nullptr)->self_ = std::move(last);
}

bool Fiber::yield_at_rest() {
  void* saved = nullptr;
  before_switch(owners_stack_, &saved);
  continues(std::move(owner_).resume(), saved);
  return !unwinding_;
}

void Fiber::yield() {
  if (!yield_at_rest()) throw Unwind{};
}

void Fiber::yield_to(Fiber& next) {
  void* saved = nullptr;
  before_switch(next.stack_, &saved);
  yielded_fiber = this;
  running_fiber = &next;
  continues(std::move(next.self_).resume(), saved);
  if (unwinding_) throw Unwind{};
}

void Fiber::yield_in_the_middle() {
  may_unwind_ = false;
  yield();
  may_unwind_ = true;
}

void Fiber::leave() {
  left_ = true;
  owner_ = std::move(owner_).resume();
}

}  // namespace fa::lab
