/// @file
/// Checks each access to memory, of threads and of asynchronous operations, against those that the
/// shadow memory remembers: races, reads of unwritten memory, missing waits and fences.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/lab/address_space.hpp"
#include "common/lab/watched.hpp"

namespace fa::lab {

/// The check. Of one access at most one thing is reported.
class RaceCheck {
 public:
  /// No accesses.
  explicit RaceCheck(Watched& watched) : w_(watched) {}

  /// Whether an access is within its region; if not, that is a finding.
  bool in_bounds(const Region& region, const std::byte* address, std::size_t size, bool write,
                 std::uint32_t site);
  /// An access outside of the memory that it is next to: a finding.
  void report_outside(const NearMemory& near, std::size_t size, bool write, std::uint32_t site);
  /// The running thread reads or writes.
  void access(Region& region, const std::byte* address, std::size_t size, bool write,
              const Access& now);
  /// Decides about two stores without an order, of which the second has been done by now: where
  /// both have stored the same value it is no race.
  void settle() {
    if (doubt_) settle_doubt();
    if (stored_.address != nullptr) settle_store();
  }
  /// The running thread is about to store: what a compiler has filled unset variables with is a
  /// finding.
  void stores(const std::byte* address, std::size_t size, std::uint32_t site) {
    stored_ = {address, size, site};
  }
  /// Marks memory as the destination of a cp.async that is in flight, or no longer.
  void set_in_flight(const void* destination, std::size_t size, bool in_flight);
  /// A bulk copy to shared memory is issued.
  void copy_begins(Region& region, const std::byte* address, std::size_t size, const Access& copy);
  /// A wgmma or a bulk store is issued, which reads shared memory.
  /// @param right a cell that it may read, found for an earlier piece; the last one from now on
  /// @param fence of a tcgen05_mma(): its thread's last tcgen05_fence_after(); else null
  void async_read_begins(Region& region, const std::byte* address, std::size_t size,
                         const AsyncRead& read, std::optional<Cell>& right,
                         const Order::Snapshot* fence);

 private:
  struct Use {  // an access that is checked
    const Access& now;
    bool write;
    const Region& region;
    std::ptrdiff_t offset;  // in it
    std::size_t size;
    std::string name() const { return region.name(offset); }
  };
  bool report_before(const Cell& cell, const Use& use);
  std::string advice_in_block() const;
  void report_race(const Access& before, bool before_writes, const Use& use);
  void report_cp_async(const Cell& cell, const Use& use);
  void report_early(const Access& copy, const std::string& reader, bool write, std::uint32_t site,
                    const std::string& memory);
  bool report_async_reads(Region& region, const std::byte* address, std::size_t size,
                          const Access& now, const std::string& by);
  bool report_async_read(const Cell& cell, const AsyncRead& read, const Region& region,
                         std::ptrdiff_t offset, const Order::Snapshot* fence);

  // Two stores, and what memory had before the second one.
  struct Doubt {
    std::uint32_t site, other;
    int distance;
    std::string race, same;  // messages
    std::vector<std::uintptr_t> stack;
    const std::byte* address;
    std::vector<std::byte> before;
  };
  void settle_doubt();
  void settle_store();

  Watched& w_;
  std::optional<Doubt> doubt_;
  struct {
    const std::byte* address = nullptr;
    std::size_t size = 0;
    std::uint32_t site = 0;
  } stored_;
  std::vector<bool> stores_values_;  // by site
};

}  // namespace fa::lab
