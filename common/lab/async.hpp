/// @file
/// What runs beside the threads of a block in the lab: copies of whole tiles (TMA), barriers that
/// count them (mbarrier), barriers with a number, and matrix multiplications that read shared
/// memory by themselves (wgmma).
///
/// Everything happens at the latest moment that a GPU allows: a copy lands when a thread sees its
/// barrier's phase end, a store reads shared memory when it is waited for, a product reads its
/// operands when its group is waited for. What a kernel forgets to wait for is then never there in
/// time. The fibers themselves are in engine.cpp.
///
/// Source: NVIDIA, PTX ISA, sections on mbarrier, cp.async.bulk.tensor and wgmma.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/lab/engine.hpp"

namespace fa::lab {

/// A tensor of 16-bit numbers as TMA knows it, and the box that one copy takes: some rows of 64 or
/// 32 columns.
struct TensorBox {
  std::byte* data = nullptr;              ///< element 0
  std::array<std::int64_t, 4> sizes{};    ///< batch, heads, rows, cols
  std::array<std::int64_t, 3> strides{};  ///< of the first three, in bytes
  int rows = 0;                           ///< of the box
  int row_bytes = 0;                      ///< of its rows: 128 or 64
};

/// Where a copy begins in shared memory: multiples of this.
inline constexpr int kBoxAlignment = 128;

/// Bytes that lie side by side in global memory, and where they are in shared memory.
struct Piece {
  std::byte* global = nullptr;  ///< the first one
  std::byte* shared = nullptr;  ///< the same, before it is swizzled
  std::size_t size = 0;         ///< bytes
};

/// A copy between global and shared memory that runs by itself.
struct BulkCopy {
  /// What it does.
  enum class Kind {
    kLoadBox,      ///< a box to shared memory, swizzled; 0 outside the tensor
    kLoadBytes,    ///< bytes to shared memory
    kPeerBytes,    ///< bytes of shared memory to that of another block of the cluster
    kStoreBox,     ///< a box to global memory
    kStoreFloats,  ///< floats to global memory
    kAddFloats     ///< floats, added to those in global memory
  };
  Kind kind = Kind::kLoadBytes;      ///< see there
  std::byte* shared = nullptr;       ///< where it begins there
  std::size_t size = 0;              ///< bytes in shared memory
  std::byte* global = nullptr;       ///< bytes and floats: the other end, where it begins
  TensorBox box;                     ///< else
  std::array<std::int64_t, 4> at{};  ///< batch, head, row and column
  SourceLocation location;           ///< where the kernel began it

  /// Whether shared memory is swizzled.
  bool swizzled() const { return kind == Kind::kLoadBox || kind == Kind::kStoreBox; }
  /// Where a byte of its shared memory stands.
  std::byte* place(std::byte* address) const;
  /// What of it lies in the tensor.
  std::vector<Piece> pieces() const;
  /// Does it.
  void perform() const;
};

/// Where a byte of a swizzled panel stands: bits 4 to 6 of its address, exclusive or bits 7 to 9.
/// Where rows have 64 bytes, only bits 4 and 5 change.
/// @param address   or an offset that means the same
/// @param row_bytes 128 or 64
inline std::uintptr_t swizzled(std::uintptr_t address, int row_bytes) {
  return address ^ (address >> 3 & (row_bytes == 128 ? 0x70u : 0x30u));
}

/// The state of an mbarrier.
struct BarrierState {
  SourceLocation made;       ///< where it was initialised
  int arrivals = 0;          ///< of a phase
  int missing = 0;           ///< of these, in this phase
  std::int64_t bytes = 0;    ///< expected, less those that copies have brought
  std::uint32_t phases = 0;  ///< that have ended
  std::uint32_t seen = 0;    ///< of these, up to the last one that a thread has waited for
  /// When each thread last came: that phase, counted from 1. Only with an observer.
  std::vector<std::uint32_t> came;
  /// Copies that report to it and have not landed, each with its phase.
  std::vector<std::pair<std::uint32_t, BulkCopy>> copies;

  /// Whether the phase of a parity has ended.
  bool ended(int parity) const { return (phases & 1u) != static_cast<std::uint32_t>(parity & 1); }
  /// Lets the copies of all phases that have ended land.
  void land();
};

/// One of a block's 16 barriers with a number.
struct NamedBarrier {
  int threads = 0;       ///< that come, as the first one said
  int arrived = 0;       ///< of these
  SourceLocation first;  ///< where the first one came
};

/// What one lane brings to a product of its warp.
struct ProductOfLane {
  float* sums = nullptr;             ///< its d
  const std::uint32_t* a = nullptr;  ///< its left operand; null: in shared memory
};

/// The product of a 64 x 16 and a 16 x n matrix, which a warp does 16 rows of.
struct ProductShape {
  int sums = 0;           ///< of a lane: n / 2
  bool half = false;      ///< type of the operands, else bfloat16
  bool turned_a = false;  ///< A's neighbours are of one column
  bool turned_b = false;  ///< B's neighbours are of one row
  bool adds = false;      ///< to what the sums are; else to 0
  std::uint64_t a = 0;    ///< descriptor, where A is in shared memory
  std::uint64_t b = 0;    ///< descriptor
};

/// The products that a warp has in flight.
class Products {
 public:
  /// What is fixed while a block runs.
  struct Setting {
    const std::byte* shared = nullptr;  ///< dynamic, what descriptors count from
    std::size_t shared_bytes = 0;       ///< of it
    int first_row = 0;                  ///< of the 64 that are this warp's
    int first_thread = 0;               ///< the number of lane 0
  };
  /// A product begins: its sums are NaN from now on.
  /// @throws std::runtime_error for an operand that is not in dynamic shared memory
  void begin(const Setting& setting, const ProductShape& shape,
             const std::array<ProductOfLane, kWarpSize>& lanes, const SourceLocation& location);
  /// Closes the group of the products begun since the last one.
  void commit();
  /// Computes the groups but the `pending` youngest, and gives their sums back.
  /// @param setting of the block
  /// @param pending groups that may go on
  void wait(const Setting& setting, std::size_t pending);
  /// Forgets all.
  void clear();
  /// The oldest product that no group has; null where there is none.
  const SourceLocation* uncommitted() const;
  /// The oldest product of a group that is not waited for; null where there is none.
  const SourceLocation* unfinished() const;
  /// Groups that have ended so far.
  std::uint32_t ended() const { return ended_; }

 private:
  // Sums of a warp that products add to: 16 rows.
  struct Sums {
    std::array<float*, kWarpSize> lanes;
    std::vector<float> tile;
    std::size_t cols;
    int under_way = 0;    // products
    SourceLocation last;  // of them
  };
  struct Product {
    ProductShape shape;
    std::array<const std::uint32_t*, kWarpSize> a;
    Sums* sums;
    SourceLocation location;
    std::vector<std::uint32_t> a_before;  // with an observer
  };
  void compute(const Setting& setting, const Product& product) const;
  void tell_of(const Setting& setting, const Product& product) const;
  static void check(const Sums& sums);
  static void check(const Product& product);

  std::vector<Product> open_;
  std::deque<std::vector<Product>> groups_;
  std::list<Sums> sums_;
  std::uint32_t committed_ = 0, ended_ = 0;
};

/// The stores and additions that a thread has in flight.
struct Stores {
  std::vector<BulkCopy> open;                ///< in no group yet
  std::deque<std::vector<BulkCopy>> groups;  ///< closed ones
  std::uint32_t ended = 0;                   ///< groups
  bool arrived = true;                       ///< in global memory, all of them

  /// Forgets all.
  void clear();
};

// ---------------------------------------------------------------- what kernels call

/// Mbarrier::init(): a barrier of so many arrivals.
void init_barrier(void* barrier, int arrivals, const SourceLocation& location);
/// Mbarrier::arrive_and_expect(): this thread has come, and bytes will.
void arrive_at_barrier(void* barrier, std::int64_t bytes, const SourceLocation& location);
/// Mbarrier::wait(): waits for the end of the phase of a parity, which is 0 or 1.
void wait_at_barrier(void* barrier, int parity, const SourceLocation& location);
/// fence_barrier_init()
void fence_barriers();
/// fence_async_proxy()
void fence_async();
/// fence_async_proxy_global()
void fence_async_global();
/// named_barrier_wait() and named_barrier_arrive().
/// @param id      0 to 15
/// @param threads that come, a multiple of 32
/// @param waits   else it only comes
/// @param location   for messages
/// @throws std::runtime_error for other numbers
void named_barrier(int id, int threads, bool waits, const SourceLocation& location);
/// setmaxnreg_dec() and setmaxnreg_inc(): this thread has so many from now on.
void set_registers(int registers, const SourceLocation& location);

/// Begins a copy to shared memory.
/// @param copy    kLoadBox or kLoadBytes
/// @param barrier hears of its bytes
/// @throws std::runtime_error for addresses that TMA does not take
void begin_load(const BulkCopy& copy, void* barrier);
/// Begins a copy to the same place in the shared memory of several blocks of the cluster.
/// @param copy    kLoadBox, or kPeerBytes
/// @param barrier the same place in each block hears of its bytes
/// @param blocks  bit r is block r
/// @throws std::runtime_error for addresses that TMA does not take, and for blocks that are not
/// there
void begin_multicast(const BulkCopy& copy, void* barrier, unsigned blocks);
/// Begins a copy from shared memory.
/// @param copy kStoreBox, kStoreFloats or kAddFloats
/// @throws std::runtime_error for addresses that TMA does not take
void begin_store(const BulkCopy& copy);
/// bulk_commit()
void commit_stores();
/// bulk_wait_read() and bulk_wait(): performs the groups of this thread but the `pending` youngest.
/// @param pending groups
/// @param arrived whether it is bulk_wait(): for a record
void wait_stores(int pending, bool arrived);

/// wgmma_fence(): these registers are this thread's no more.
void lend_registers(void* registers);
/// wgmma(): all lanes come.
void begin_product(const ProductShape& shape, const ProductOfLane& lane,
                   const SourceLocation& location);
/// wgmma_commit(): all lanes come.
void commit_products();
/// wgmma_wait(): all lanes come.
void wait_products(int pending);

/// How far behind the beginning of dynamic shared memory something lies.
/// @throws std::runtime_error for what is not there
std::uint32_t shared_offset(const void* pointer);
/// The same for an operand of wgmma, which must be at a multiple of 16 bytes: see misaligned().
std::uint32_t operand_offset(const void* pointer, const SourceLocation& location);

}  // namespace fa::lab
