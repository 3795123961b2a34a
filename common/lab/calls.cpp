// What a kernel's threads call: finds the running thread and passes the call on.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/lab/async.hpp"
#include "common/lab/block.hpp"
#include "common/lab/lab_thread.hpp"
#include "common/lab/record.hpp"
#include "common/lab/wgmma.hpp"

namespace fa::lab {
namespace {

constexpr unsigned kWholeWarp = 0xffffffffu;
constexpr auto kNothing = [](const Deposits&) {};

bool is_multiple(const void* address, std::size_t size) {
  return reinterpret_cast<std::uintptr_t>(address) % size == 0;
}

}  // namespace

void finding_or_fail(const char* kind, const SourceLocation& location, const SourceLocation& other,
                     const std::string& message) {
  if (observer != nullptr) return note_finding(kind, location, other, message);
  if (other.line == 0) fail(location, "{}", message);
  throw std::runtime_error(
      fmt::format("{} and {}: {}", text_of(location), text_of(other), message));
}

// ---------------------------------------------------------------- blocks, clusters and warps

void* dynamic_shared() {
  return this_thread().block->shared(current->rank);
}
void* peer_shared(const void* pointer, int rank, const SourceLocation& location) {
  return this_thread().block->of_peer(this_thread(), pointer, rank, location);
}
void sync_block(const SourceLocation& location) {
  LabThread& thread = calling_thread();
  thread.block->sync(thread, location);
}
void arrive_at_cluster(const SourceLocation& location) {
  Block& block = *this_thread().block;
  block.cluster_barrier().arrive(block.threads(), this_thread(), location);
}
void wait_at_cluster(const SourceLocation& location) {
  LabThread& thread = calling_thread();
  thread.block->cluster_barrier().wait(thread, location);
}
void set_registers(int registers, const SourceLocation& location) {
  this_thread().block->set_registers(this_thread(), registers, location);
}
void named_barrier(int id, int threads, bool waits, const SourceLocation& location) {
  LabThread& thread = calling_thread();
  Block& block = *thread.block;
  block.named(thread).arrive(block.threads(), thread, id, threads, waits, location);
}

const Deposits& exchange(unsigned mask, const void* bytes, std::size_t size,
                         const SourceLocation& location) {
  LabThread& thread = calling_thread();
  if (recorder != nullptr && thread.lane == 0) recorder->exchange(thread.warp());
  return thread.block->exchange(thread, mask, bytes, size, location, false, kNothing);
}
void sync_warp(unsigned mask, const SourceLocation& location) {
  LabThread& thread = calling_thread();
  thread.block->exchange(thread, mask, &mask, 0, location, true, kNothing);
}
void absent_source(unsigned mask, int source, const SourceLocation& location) {
  const std::int64_t lanes = current->block_size.count() - current->number + current->lane;
  std::string why = "which has returned";
  if ((mask >> source & 1u) == 0) {
    why = fmt::format("which is not in the mask {:#x}", mask);
  } else if (source >= lanes) {
    why = fmt::format("which does not exist: this warp of the block has {} threads", lanes);
  }
  note_finding("warp", location, {},
               fmt::format("lane {} takes the value of lane {}, {}: what it gets is undefined",
                           current->lane, source, why));
}
void missing_lanes(unsigned lanes, const SourceLocation& location) {
  finding_or_fail("warp", location, {},
                  fmt::format("only the lanes {:#x} of the warp take part, the others do not exist "
                              "or have returned: this operation needs all 32",
                              lanes));
}

// ---------------------------------------------------------------- cp.async

void copy_async(void* destination, const void* source, std::size_t size,
                const SourceLocation& location) {
  for (const void* address : {static_cast<const void*>(destination), source}) {
    if (!is_multiple(address, size)) misaligned(address, size, location);
  }
  if (observer != nullptr) {
    if (source != nullptr) observer->accesses(source, size, false, location);
    observer->copy_begins(destination, size, location);
  }
  std::memset(destination, 0xff, size);  // NaN until it is waited for
  this_thread().open_copies.push_back({destination, source, size, location});
}
void commit_copies() {
  LabThread& thread = this_thread();
  thread.committed_copies.push_back(std::exchange(thread.open_copies, {}));
}
void wait_copies(int pending) {
  auto& groups = this_thread().committed_copies;
  while (groups.size() > static_cast<std::size_t>(pending)) {
    for (const ThreadCopy& copy : groups.front()) {
      if (copy.source == nullptr) {
        std::memset(copy.destination, 0, copy.size);
      } else {
        std::memcpy(copy.destination, copy.source, copy.size);
      }
      if (observer != nullptr) observer->copy_ends(copy.destination, copy.size, copy.location);
    }
    groups.erase(groups.begin());
  }
}

// ---------------------------------------------------------------- fences, counters and flags

void fence_memory(bool for_all_blocks) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // It does not wait for asynchronous stores.
  const Stores& stores = this_thread().stores;
  if (observer == nullptr) return;
  observer->memory_fenced(stores.arrived && stores.open.empty(), for_all_blocks);
}
void wait_for_grids() {
  if (observer != nullptr) observer->grid_waited();
}
void fence_barriers() {
  if (observer != nullptr) observer->barriers_fenced();
}
void fence_async() {
  if (observer != nullptr) observer->async_fenced();
}
void fence_async_global() {
  if (observer != nullptr) observer->async_fenced_globally();
}
void poll(const void* flag, const SourceLocation& location) {
  LabThread& thread = calling_thread();
  if (std::exchange(thread.polled, flag) != flag) return;
  thread.location = location;
  thread.state = State::kPolling;
  thread.fiber.yield();
}
void yield_from_loop() {
  LabThread& thread = calling_thread();
  thread.location = {};
  thread.state = State::kPolling;
  thread.fiber.yield_in_the_middle();  // the compiler assumes that loads do not throw
}

// ---------------------------------------------------------------- accesses

std::string misaligned_text(const void* address, std::size_t size) {
  const Thread& thread = *current;
  return fmt::format(
      "thread {} (warp {}, lane {}) of block ({}, {}, {}) uses {} bytes at once, at an address {} "
      "bytes beyond a multiple of {}: a GPU takes multiples of {} only; pad the rows, or use "
      "smaller accesses",
      thread.number, thread.number / kWarpSize, thread.lane, thread.block_index.x,
      thread.block_index.y, thread.block_index.z, size,
      reinterpret_cast<std::uintptr_t>(address) % size, size, size);
}
void misaligned(const void* address, std::size_t size, const SourceLocation& location) {
  finding_or_fail("misaligned", location, {}, misaligned_text(address, size));
}
void note_access(const void* address, std::size_t size, bool write,
                 const SourceLocation& location) {
  if (!is_multiple(address, size)) misaligned(address, size, location);
  if (observer != nullptr) observer->accesses(address, size, write, location);
}

namespace {

std::uint32_t tf32_operand(std::uint32_t bits, const SourceLocation& location) {
  constexpr std::uint32_t unread = 0x1fff;
  if ((bits & unread) != 0) {
    note_finding(
        "operand", location, {},
        fmt::format("lane {} gives a matmul an operand with more bits than TF32 has, {:#010x}: "
                    "the tensor cores do not read the lower 13; convert it by tf32_nearest(), or "
                    "say tf32_truncated()",
                    current->lane, bits));
  }
  return bits & ~unread;
}

// That of the smallest normal number for those below it; for 0 less than any sum of two others.
constexpr int kNoExponent = -1000, kSpecialExponent = 128;  // of 0; of infinity and NaN
float exponent_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const int exponent = std::max(static_cast<int>(bits >> 23 & 0xff), 1) - 127;
  return static_cast<float>(x == 0 ? kNoExponent : exponent);
}

// A float64 with the value 2^exponent.
double power_of_2(int exponent) {
  constexpr int bias = 1023, mantissa_bits = 52;
  const auto bits = static_cast<std::uint64_t>(bias + exponent) << mantissa_bits;
  double power;
  std::memcpy(&power, &bits, sizeof power);
  return power;
}

// Vector types of the compiler: one element for each of a lane's four sums.
typedef float Float4 __attribute__((vector_size(16)));
typedef std::int32_t Int4 __attribute__((vector_size(16)));
typedef double Double4 __attribute__((vector_size(32)));

const Fragments& of_lane(const Deposits& fragments, int lane) {
  const std::byte* const at = &fragments.bytes[static_cast<std::size_t>(lane) * kDepositSize];
  return *reinterpret_cast<const Fragments*>(at);
}

template <class T>
Fragments unpacked(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  Fragments own;
  widen<T>(a, own.a);
  widen<T>(b, own.b);
  return own;
}

}  // namespace

Fragments fragments_of_pairs(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                             bool is_half) {
  return is_half ? unpacked<half>(a, b) : unpacked<bfloat16>(a, b);
}

Fragments fragments_of_tf32(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                            const SourceLocation& location) {
  Fragments own{};
  const auto put = [&](std::uint32_t bits, float& to) {
    bits = tf32_operand(bits, location);
    std::memcpy(&to, &bits, sizeof to);
  };
  for (int i = 0; i < 4; ++i) put(a[i], own.a[i]);
  for (int i = 0; i < 2; ++i) put(b[i], own.b[i]);
  // Their exponents, behind them, for all lanes that will need them.
  for (int i = 0; i < 4; ++i) own.a[4 + i] = exponent_of(own.a[i]);
  for (int i = 0; i < 2; ++i) own.b[2 + i] = exponent_of(own.b[i]);
  return own;
}

// A lane's sums are those of rows g and g + 8 of A with columns 2t and 2t + 1 of B.
void add_products(const Deposits& fragments, float (&sums)[4]) {
  const int g = current->lane / 4, t = current->lane % 4;
  Float4 result = {sums[0], sums[1], sums[2], sums[3]};
  for (int half_of_k = 0; half_of_k < 2; ++half_of_k) {
    for (int k = 0; k < 4; ++k) {
      const float* const rows = of_lane(fragments, 4 * g + k).a + 4 * half_of_k;
      const float* const col0 = of_lane(fragments, 8 * t + k).b + 2 * half_of_k;
      const float* const col1 = of_lane(fragments, 8 * t + 4 + k).b + 2 * half_of_k;
      for (int e = 0; e < 2; ++e) {
        result += Float4{rows[e], rows[e], rows[2 + e], rows[2 + e]} *
                  Float4{col0[e], col1[e], col0[e], col1[e]};
      }
    }
  }
  for (int i = 0; i < 4; ++i) sums[i] = result[i];
}

void add_tf32_products(const Deposits& fragments, float (&sums)[4]) {
  const int g = current->lane / 4, t = current->lane % 4;
  constexpr int depth = 8;
  Float4 a[depth], b[depth];
  const Float4 of_c = {exponent_of(sums[0]), exponent_of(sums[1]), exponent_of(sums[2]),
                       exponent_of(sums[3])};
  const auto larger = [](Float4 x, Float4 y) { return x > y ? x : y; };
  constexpr float least = 2 * -126;  // of terms but 0
  // Exponents: of terms, and of operands.
  Float4 largest = larger(of_c, Float4{least, least, least, least}), special = of_c;
  for (int k = 0; k < depth / 2; ++k) {
    const float* const rows = of_lane(fragments, 4 * g + k).a;
    const float* const col0 = of_lane(fragments, 8 * t + k).b;
    const float* const col1 = of_lane(fragments, 8 * t + 4 + k).b;
    for (int h = 0; h < 2; ++h) {
      const auto of_rows = [&](int i) {
        return Float4{rows[i], rows[i], rows[i + 1], rows[i + 1]};
      };
      const auto of_cols = [&](int i) { return Float4{col0[i], col1[i], col0[i], col1[i]}; };
      a[k + 4 * h] = of_rows(2 * h);
      b[k + 4 * h] = of_cols(h);
      const Float4 of_a = of_rows(4 + 2 * h), of_b = of_cols(2 + h);
      largest = larger(largest, of_a + of_b);
      special = larger(special, larger(of_a, of_b));
    }
  }
  constexpr int kept_bits = 25;
  Double4 units, unit;
  for (int i = 0; i < 4; ++i) {
    const int exponent = static_cast<int>(largest[i]);
    units[i] = power_of_2(kept_bits - exponent);
    unit[i] = power_of_2(exponent - kept_bits);
  }
  // Whole numbers below 2^(kept_bits + 2), cut off.
  const Float4 c = {sums[0], sums[1], sums[2], sums[3]};
  Int4 sum_of_units = __builtin_convertvector(__builtin_convertvector(c, Double4) * units, Int4);
  for (int k = 0; k < depth; ++k) {
    const Double4 product =
        __builtin_convertvector(a[k], Double4) * __builtin_convertvector(b[k], Double4);
    sum_of_units += __builtin_convertvector(product * units, Int4);
  }
  for (int i = 0; i < 4; ++i) {
    if (special[i] == kSpecialExponent) {
      for (int k = 0; k < depth; ++k) sums[i] += a[k][i] * b[k][i];
      continue;
    }
    const double sum = sum_of_units[i] * unit[i];
    auto rounded = static_cast<float>(sum);
    if (std::abs(rounded) > std::abs(sum)) {  // the next one towards 0
      std::uint32_t bits;
      std::memcpy(&bits, &rounded, sizeof bits);
      --bits;
      std::memcpy(&rounded, &bits, sizeof rounded);
    }
    sums[i] = rounded;
  }
}

// ---------------------------------------------------------------- mbarriers and bulk copies

void init_barrier(void* barrier, int arrivals, const SourceLocation& location) {
  this_thread().block->mbarriers().init(this_thread(), barrier, arrivals, location);
}
std::uint32_t arrive_at_barrier(void* barrier, std::int64_t bytes, const SourceLocation& location,
                                int count, bool drops) {
  return this_thread().block->mbarriers().arrive(this_thread(), barrier, bytes, location, count,
                                                 drops);
}
void expect_at_barrier(void* barrier, std::int64_t bytes, const SourceLocation& location) {
  this_thread().block->mbarriers().expect(barrier, bytes, location);
}
bool test_barrier(void* barrier, int parity, const SourceLocation& location) {
  LabThread& thread = calling_thread();
  return thread.block->mbarriers().test(thread, barrier, parity, location);
}
void invalidate_barrier(void* barrier) {
  this_thread().block->mbarriers().invalidate(barrier);
}
void wait_at_barrier(void* barrier, int parity, const SourceLocation& location) {
  LabThread& thread = calling_thread();
  thread.block->mbarriers().wait(thread, barrier, parity, location);
}
void begin_load(const BulkCopy& copy, void* barrier) {
  this_thread().block->load(this_thread(), copy, barrier);
}
void begin_multicast(const BulkCopy& copy, void* barrier, unsigned blocks) {
  this_thread().block->load_multicast(this_thread(), copy, barrier, blocks);
}
void begin_store(const BulkCopy& copy) {
  this_thread().block->store(this_thread(), copy);
}
void commit_stores() {
  record_step(*current, Step::Kind::kCommitStores);
  Stores& stores = this_thread().stores;
  if (!stores.open.empty()) stores.arrived = false;
  stores.groups.push_back(std::exchange(stores.open, {}));
}
void wait_stores(int pending, bool arrived) {
  LabThread& thread = this_thread();
  record_step(thread, arrived ? Step::Kind::kWaitArrivals : Step::Kind::kWaitStores, pending);
  Stores& stores = thread.stores;
  while (stores.groups.size() > static_cast<std::size_t>(pending)) {
    for (const BulkCopy& copy : stores.groups.front()) copy.perform();
    stores.groups.pop_front();
    ++stores.ended;
  }
  if (arrived && pending == 0) stores.arrived = true;
  if (observer != nullptr) observer->async_ends(&thread, stores.ended, false);
}

// ---------------------------------------------------------------- wgmma

namespace {

// Calls work(what each lane has brought) once, when all lanes of a warp have come.
template <class Bytes, class Work>
void with_whole_warp(const Bytes& own, const SourceLocation& location, Work work) {
  LabThread& thread = this_thread();
  thread.block->exchange(
      thread, kWholeWarp, &own, sizeof own, location, false, [&](const Deposits& deposits) {
        if (deposits.lanes != kWholeWarp) return missing_lanes(deposits.lanes, location);
        std::array<Bytes, kWarpSize> lanes;
        for (std::size_t i = 0; i < kWarpSize; ++i) {
          std::memcpy(&lanes[i], &deposits.bytes[i * kDepositSize], sizeof lanes[i]);
        }
        work(lanes);
      });
}
TensorMemory& tensor_memory() {
  return this_thread().block->tensor(this_thread());
}

}  // namespace

void fence_registers(void* registers) {
  auto& lent = this_thread().lent;
  if (std::find(lent.begin(), lent.end(), registers) == lent.end()) lent.push_back(registers);
}
void begin_wgmma(const WgmmaShape& shape, const WgmmaLane& lane, const SourceLocation& location) {
  LabThread& thread = this_thread();
  Block& block = *thread.block;
  if (recorder != nullptr && thread.lane == 0) {
    Step step;
    step.kind = Step::Kind::kWgmma;
    step.columns = static_cast<int>(shape.cols());
    step.from_registers = lane.a != nullptr;
    step.by_columns = shape.mn_major_b;
    recorder->add(thread.warp(), step);
  }
  if (thread.lane == 0 &&  // once for a warp is enough
      std::none_of(thread.lent.begin(), thread.lent.end(), [&](const void* registers) {
        return registers == nullptr || registers == lane.sums;
      })) {
    note_finding(
        "wgmma", location, {},
        "wgmma_fence() is missing before this line: it was not called for these accumulators since "
        "other instructions may have written them, and the wgmma() may begin before these writes "
        "are complete");
  }
  with_whole_warp(lane, location, [&](const auto& lanes) {
    block.wgmma(thread).begin(block.wgmma_setting(thread), shape, lanes, location);
  });
}
void commit_wgmma() {
  LabThread& thread = this_thread();
  record_for_warp(thread, Step::Kind::kCommit);
  thread.block->exchange(thread, kWholeWarp, &thread, 0, {"wgmma_commit()", 0}, false,
                         [&](const Deposits&) { thread.block->wgmma(thread).commit(); });
}
void wait_wgmma(int pending) {
  LabThread& thread = this_thread();
  thread.lent.clear();
  record_for_warp(thread, Step::Kind::kWaitWgmma, pending);
  thread.block->exchange(
      thread, kWholeWarp, &thread, 0, {"wgmma_wait()", 0}, false, [&](const Deposits&) {
        WgmmaQueue& queue = thread.block->wgmma(thread);
        queue.wait(thread.block->wgmma_setting(thread), static_cast<std::size_t>(pending));
        if (observer != nullptr) observer->async_ends(&queue, queue.ended(), true);
      });
}

// ---------------------------------------------------------------- tensor memory

void allocate_tensor_memory(std::uint32_t* address, int columns, const SourceLocation& location) {
  calling_thread();
  with_whole_warp(columns, location, [&](const auto&) {
    const std::uint32_t first = tensor_memory().allocate(columns, location);
    note_access(address, sizeof first, true, location);
    *address = first;
  });
}
void free_tensor_memory(std::uint32_t address, int columns, const SourceLocation& location) {
  calling_thread();
  with_whole_warp(columns, location,
                  [&](const auto&) { tensor_memory().free(address, columns, location); });
}
void relinquish_tensor_memory(const SourceLocation& location) {
  calling_thread();
  with_whole_warp(location.line, location,
                  [&](const auto&) { tensor_memory().relinquish(location); });
}
void begin_tensor_matmul(const TensorMatmul& matmul, const SourceLocation& location) {
  tensor_memory().begin(matmul, location);
}
void commit_tensor_matmuls(void* barrier, const SourceLocation& location) {
  Block& block = *this_thread().block;
  block.mbarriers().commit(this_thread(), barrier, tensor_memory().commit(location), location);
}
void move_tensor_memory(const TensorLane& lane, int columns, bool stores,
                        const SourceLocation& location) {
  calling_thread();
  with_whole_warp(lane, location, [&](const auto& lanes) {
    stores ? tensor_memory().store(lanes, columns, location)
           : tensor_memory().load(lanes, columns, location);
  });
}
void wait_tensor_memory(bool stores, const SourceLocation& location) {
  calling_thread();
  with_whole_warp(stores, location, [&](const auto&) {
    stores ? tensor_memory().wait_stores() : tensor_memory().wait_loads();
  });
}
void fence_tensor_memory(bool before) {
  if (observer != nullptr) observer->tensor_fenced(before);
}

// ---------------------------------------------------------------- shared memory

std::uint32_t operand_offset(const void* pointer, const SourceLocation& location) {
  constexpr std::size_t kUnit = 16;  // that a descriptor counts in
  if (!is_multiple(pointer, kUnit)) misaligned(pointer, kUnit, location);
  return shared_offset(pointer);
}
std::uint32_t shared_offset(const void* pointer) {
  const auto offset =
      static_cast<const std::byte*>(pointer) - static_cast<const std::byte*>(dynamic_shared());
  if (offset < 0 || offset >= static_cast<std::ptrdiff_t>(this_thread().block->shared_bytes())) {
    throw std::runtime_error(
        "shared_address() of an address outside of dynamic shared memory: in the lab, operands of "
        "wgmma must be there");
  }
  return static_cast<std::uint32_t>(offset);
}

}  // namespace fa::lab
