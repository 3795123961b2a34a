#include "common/lab/mbarrier.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/lab/lab_thread.hpp"
#include "common/lab/record.hpp"

namespace fa::lab {

void Mbarriers::State::land() {
  // In place: most often all of them land.
  std::size_t left = 0;
  for (auto& entry : copies) {
    if (entry.first < phases) {
      entry.second.perform();
    } else {
      if (&copies[left] != &entry) copies[left] = entry;
      ++left;
    }
  }
  copies.resize(left);
  for (auto& [phase, group] : matmuls) {
    if (phase >= phases || group.memory == nullptr) continue;
    group.memory->finish(group);
    computed[group.queue] = group.number;
    group.memory = nullptr;
  }
  const auto done = [](const auto& entry) { return entry.second.memory == nullptr; };
  matmuls.erase(std::remove_if(matmuls.begin(), matmuls.end(), done), matmuls.end());
}

Mbarriers::State& Mbarriers::state_of(const void* barrier, const SourceLocation& location) {
  const auto found = states_.find(barrier);
  if (found == states_.end()) {
    fail(location,
         "a thread uses an mbarrier that is not initialised yet; a __syncthreads() after init() is "
         "probably missing");
  }
  return found->second;
}

void Mbarriers::init(const LabThread& thread, const void* barrier, int arrivals,
                     const SourceLocation& location) {
  if (arrivals < 1 || arrivals > 0xfffff) {
    fail(location, "an mbarrier of {} arrivals; allowed are 1 to 1048575", arrivals);
  }
  if (reinterpret_cast<std::uintptr_t>(barrier) % 8 != 0) {
    fail(location, "an mbarrier at an address that is not a multiple of 8");
  }
  State& state = states_[barrier];
  if (state.arrivals > 0) {
    note_finding(
        "barrier", location, state.made,
        fmt::format("thread {} initialises an mbarrier again; one thread must initialise it, once",
                    thread.number));
  }
  state = {};
  state.made = location;
  state.arrivals = state.missing = arrivals;
  record_mbarrier(thread, Step::Kind::kInit, barrier, arrivals);
  if (observer == nullptr) return;
  state.arrived.resize(threads_.size());
  state.waited.resize(threads_.size());
  observer->barrier_made(barrier, location);
}

void Mbarriers::check_missing(const State& state, int count, const SourceLocation& location) {
  if (state.missing >= count) return;
  fail(location,
       "more than the {} arrivals of a phase that the mbarrier was initialised for, at {}",
       state.arrivals, text_of(state.made));
}

std::uint32_t Mbarriers::arrive(const LabThread& thread, const void* barrier, std::int64_t bytes,
                                const SourceLocation& location, int count, bool drops) {
  State& state = state_of(barrier, location);
  const std::uint32_t phase = state.phases;
  check_missing(state, count, location);
  if (observer != nullptr) {
    observer->barrier_used(barrier, false, location);
    observer->releases(barrier);
    check_arrival(thread, state, location);
  }
  record_mbarrier(thread, Step::Kind::kArrive, barrier, count, bytes);
  state.bytes += bytes;
  state.missing -= count;
  if (drops) state.arrivals -= count;
  advance(barrier, state, location);
  return phase;
}

void Mbarriers::expect(const void* barrier, std::int64_t bytes, const SourceLocation& location) {
  State& state = state_of(barrier, location);
  if (observer != nullptr) observer->barrier_used(barrier, false, location);
  state.bytes += bytes;
  advance(barrier, state, location);
}

void Mbarriers::commit(const LabThread& thread, const void* barrier, const TensorGroup& matmuls,
                       const SourceLocation& location) {
  State& state = state_of(barrier, location);
  check_missing(state, 1, location);
  if (observer != nullptr) {
    observer->barrier_used(barrier, true, location);
    observer->commits(barrier);
  }
  record_mbarrier(thread, Step::Kind::kArrive, barrier, 1);
  state.matmuls.emplace_back(state.phases, matmuls);
  --state.missing;
  advance(barrier, state, location);
}

// A thread that arrives twice takes the place of another one.
void Mbarriers::check_arrival(const LabThread& thread, State& state,
                              const SourceLocation& location) const {
  auto& last = state.arrived[static_cast<std::size_t>(thread.place)];
  if (last == state.phases + 1) {
    note_finding(
        "barrier", location, state.made,
        fmt::format("thread {} arrives twice in one phase of the mbarrier that was initialised at "
                    "the other line; it must wait in between: a wait is missing, or one (in a "
                    "loop it may stand below this line) had the parity of an earlier phase",
                    thread.number));
  }
  last = state.phases + 1;
}

void Mbarriers::wait(LabThread& thread, const void* barrier, int parity,
                     const SourceLocation& location) {
  State& state = state_of(barrier, location);
  if (parity != 0 && parity != 1) {  // undefined on a GPU
    finding_or_fail("barrier", location, state.made,
                    fmt::format("a wait at an mbarrier for the parity {}; a phase has the parity 0 "
                                "or 1",
                                parity));
  }
  if (observer != nullptr) observer->barrier_used(barrier, false, location);
  // Which phase this is about, as a number: a record knows no parity.
  const std::uint32_t phases = state.phases + (state.ended(parity) ? 0 : 1);
  if (!state.ended(parity)) {
    thread.parity = parity;
    thread.wait(lab::State::kAtMbarrier, location, barrier);
  }
  state.seen = state.phases;
  if (thread.lane == 0) {
    record_mbarrier(thread, Step::Kind::kWait, barrier, static_cast<int>(phases));
  }
  state.land();
  if (observer != nullptr) {
    state.waited[static_cast<std::size_t>(thread.place)] = phases;
    observer->phase_seen(barrier, phases, location);
    observer->async_ends(barrier, state.phases, false);
    for (const auto& [queue, number] : state.computed) observer->async_ends(queue, number, false);
    observer->acquires(barrier);
  }
}

bool Mbarriers::test(LabThread& thread, const void* barrier, int parity,
                     const SourceLocation& location) {
  if (!state_of(barrier, location).ended(parity) &&
      std::exchange(thread.polled, barrier) != barrier) {
    return false;
  }
  wait(thread, barrier, parity, location);
  thread.polled = nullptr;
  return true;
}

void Mbarriers::begin_load(const LabThread& thread, const BulkCopy& copy, const void* barrier) {
  record_copy(thread, Step::Kind::kLoad, copy, barrier);
  State& state = state_of(barrier, copy.location);
  std::uint32_t phase = state.phases;
  if (observer != nullptr) observer->barrier_used(barrier, true, copy.location);
  const auto size = static_cast<std::int64_t>(copy.size);
  // More than the barrier expects: it does not wait for the rest of them.
  if (state.missing == 0 && size > state.bytes) {
    note_finding(
        "copy", copy.location, state.made,
        fmt::format("a copy brings {} bytes to an mbarrier that expects {} more: its phase ends "
                    "before all of them have arrived; the bytes of arrive_and_expect() and of the "
                    "copies must agree",
                    copy.size, state.bytes));
    ++phase;
  }
  std::memset(copy.shared, 0xff, copy.size);  // NaN until it is waited for
  if (observer != nullptr) {
    observer->async_uses(barrier, AsyncUse::kCopy, phase + 1, {copy.shared}, copy.size,
                         copy.location);
    if (copy.kind == BulkCopy::Kind::kPeerBytes) {
      constexpr std::size_t piece = 16;
      std::vector<const void*> pieces;
      for (std::size_t i = 0; i < copy.size; i += piece) pieces.push_back(copy.global + i);
      observer->async_uses(barrier, AsyncUse::kPeerCopy, phase + 1, pieces, piece, copy.location);
    }
  }
  state.copies.emplace_back(phase, copy);
  state.bytes -= size;
  advance(barrier, state, copy.location);
}

// Ends a barrier's phase if all have arrived.
void Mbarriers::advance(const void* barrier, State& state, const SourceLocation& location) {
  if (state.missing > 0 || state.bytes > 0) return;
  if (state.bytes < 0) {
    note_finding("copy", location, state.made,
                 fmt::format("copies have brought {} bytes more than the phase of the mbarrier "
                             "expects: the bytes of arrive_and_expect() and of the copies must "
                             "agree",
                             -state.bytes));
    state.bytes = 0;
  }
  // A wait knows a phase by its parity alone: if two phases end with no wait between them, a thread
  // that waits cannot see that any has ended.
  if (observer != nullptr && state.seen < state.phases) {
    note_finding(
        "barrier", location, state.made,
        fmt::format("a phase of the mbarrier that was initialised at the other line ends although "
                    "no thread has waited for the phase before it: more threads arrive than the "
                    "{} of a phase, or a wait is missing or has the wrong parity",
                    state.arrivals));
  }
  ++state.phases;
  state.missing = state.arrivals;
  if (observer != nullptr) {
    observer->mbarrier_phase_ends(barrier, state.phases, location);
    observer->phase_ends(barrier);
  }
  wake(threads_, lab::State::kAtMbarrier, [&](const LabThread& thread) {
    const bool wakes = thread.barrier == barrier && state.ended(thread.parity);
    if (wakes) state.seen = state.phases;
    return wakes;
  });
}

void Mbarriers::check_end() const {
  for (const auto& entry : states_) {
    for (const auto& of_phase : entry.second.copies) {
      note_finding(
          "copy", of_phase.second.location, {},
          "the block ends while this copy may be in flight: no thread has waited for its mbarrier");
    }
  }
}

std::string Mbarriers::missing_text(const LabThread& thread) const {
  const State& state = states_.at(thread.barrier);
  const std::string name = observer != nullptr ? observer->barrier_name(thread.barrier) : "";
  std::string text = fmt::format("at {}, {} (initialised at {}), for the end of its phase {}",
                                 name.empty() ? "an mbarrier" : "the mbarrier " + name,
                                 text_of(thread.location), text_of(state.made), state.phases);
  if (state.missing > 0) {
    text += fmt::format(": {} of {} arrivals have come, {} missing", state.arrivals - state.missing,
                        state.arrivals, state.missing);
  }
  if (state.bytes > 0) text += fmt::format(", which lacks {} bytes of copies", state.bytes);
  if (observer != nullptr && state.waited[static_cast<std::size_t>(thread.place)] < state.phases) {
    text += fmt::format(
        "; phase {} has ended, and these threads have not waited for it: {} (tile "
        "i of a ring of S stages: i / S % 2)",
        state.phases - 1, kParity);
  }
  return text;
}

}  // namespace fa::lab
