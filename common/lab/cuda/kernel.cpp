// What a kernel calls, passed on to the engine, and launches.
#include <array>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "common/lab/async.hpp"
#include "common/lab/block.hpp"
#include "common/lab/cuda/state.hpp"
#include "common/lab/instrumentation.hpp"
#include "common/lab/program.hpp"

namespace lab_cuda {
namespace {

namespace lab = fa::lab;

lab::SourceLocation location(Where where) {
  return {where.file, where.line};
}

static_assert(sizeof(Thread) == sizeof(lab::Thread) &&
              offsetof(Thread, block_size) == offsetof(lab::Thread, block_size) &&
              offsetof(Thread, place) == offsetof(lab::Thread, place));

std::int64_t block_number() {
  const lab::Thread& thread = *lab::current;
  return (std::int64_t{thread.block_index.z} * thread.grid_size.y + thread.block_index.y) *
             thread.grid_size.x +
         thread.block_index.x;
}

// Of each block that runs: votes at __syncthreads_count() and the like.
struct Vote {
  int arrived = 0, sum = 0, read = 0;
};
std::map<std::int64_t, Vote> votes;

// Lanes of a warp that have come to a line together.
struct Meeting {
  unsigned waiting = 0;
  std::array<unsigned, 32> met{};
};
std::map<std::pair<std::int64_t, int>, Meeting> meetings;

// The barrier of a whole grid.
struct GridBarrier {
  std::int64_t arrived = 0;
  int phase = 0;
};
GridBarrier* grid_barrier = nullptr;  // in memory of the device

// Addresses in shared memory count from 0, as on a GPU: descriptors have room for no more. Those of
// variables in the system's memory of a thread are far beyond.
constexpr unsigned kStatic = 0x40000000;
// From a block's addresses to those of the next block of the cluster.
constexpr unsigned kPeer = 0x1000000;

}  // namespace

#define LAB_CUDA_PASS_ON(name, parameters, call) \
  void name parameters {                         \
    lab::call;                                   \
  }
LAB_CUDA_PASSED_ON(LAB_CUDA_PASS_ON)
#undef LAB_CUDA_PASS_ON

const Thread& thread() {
  return *reinterpret_cast<const Thread*>(lab::current);
}
bool in_kernel() {
  return lab::current != nullptr;
}

// ---------------------------------------------------------------- synchronisation

void sync_lanes(Where where) {
  exchange(0xffffffffu, &where, 0, where);
}
static_assert(kDeposit == lab::kDepositSize, "lanes read what others brought");
Deposits exchange(unsigned mask, const void* bytes, std::size_t size, Where where) {
  const lab::Deposits& all = lab::exchange(mask, bytes, size, location(where));
  return {reinterpret_cast<const unsigned char*>(all.bytes.data()), all.lanes};
}
void named_barrier(int id, int threads, bool waits, Where where) {
  if (threads <= 0) threads = static_cast<int>(lab::current->block_size.count());
  if (id == 0 && threads == lab::current->block_size.count()) return sync_block(where);
  lab::named_barrier(id, threads, waits, location(where));
}

int vote_of_block(int predicate, int kind, Where where) {
  Vote& vote = votes[block_number()];
  ++vote.arrived;
  vote.sum += predicate != 0;
  sync_block(where);
  const int count = vote.sum, arrived = vote.arrived;
  if (++vote.read == arrived) vote = {};
  sync_block(where);  // all have read it
  if (kind == 0) return count;
  return kind == 1 ? count == arrived : count > 0;
}

// All lanes that are on their way come here or wait elsewhere before one continues.
unsigned active_lanes() {
  const int lane = lab::current->lane;
  Meeting& meeting = meetings[{block_number(), lab::current->number / lab::kWarpSize}];
  meeting.waiting |= 1u << lane;
  meeting.met[static_cast<std::size_t>(lane)] = 0;
  for (int i = 0; i < 2; ++i) lab::poll(&meeting, {"__activemask()", 0});
  unsigned& met = meeting.met[static_cast<std::size_t>(lane)];
  if (met == 0) {
    for (std::size_t i = 0; i < 32; ++i) {
      if ((meeting.waiting >> i & 1u) != 0) meeting.met[i] = meeting.waiting;
    }
    meeting.waiting = 0;
  }
  return met;
}

bool is_cooperative() {
  return state().cooperative;
}
void sync_grid(Where where) {
  if (!state().cooperative) {
    stop_kernel(
        "barrier",
        "a barrier of the grid in an ordinary launch, whose blocks may not all run at once: "
        "launch the kernel with cudaLaunchCooperativeKernel()",
        where);
  }
  const lab::Thread& thread = *lab::current;
  const std::int64_t all = thread.grid_size.count() * thread.block_size.count();
  GridBarrier& barrier = *grid_barrier;
  const int phase = barrier.phase;
  // To an observer it is a counter, with release and acquire.
  lab::CodeAccess use;
  use.write = use.atomic = use.natural = true;
  use.use = {true, true, true, true};
  fence();
  lab::on_access(&barrier.phase, sizeof barrier.phase, use, __builtin_return_address(0));
  if (++barrier.arrived == all) {
    barrier.arrived = 0;
    ++barrier.phase;
  }
  while (barrier.phase == phase) poll(&barrier, where);
  use.write = use.use.writes = false;
  lab::on_access(&barrier.phase, sizeof barrier.phase, use, __builtin_return_address(0));
  fence();
}

void next_atomic_of_block() {
  lab::next_atomic_of_block = true;
}
void reads_constant(const void* address, std::size_t size, Where where) {
  if (in_kernel()) state().watch.reads_constant(address, size, location(where));
}
void store_unwatched(void* address, const void* bytes, std::size_t size) {
  std::memcpy(address, bytes, size);
}

// ---------------------------------------------------------------- copies and shared memory

void copy_async_zeros(void* to, const void* from, std::size_t size, std::size_t zeros,
                      Where where) {
  if (zeros == 0) return copy_async(to, from, size, where);
  if (zeros == size) return copy_async(to, nullptr, size, where);
  // The engine copies whole pieces: the rest is done at once.
  const std::size_t kept = size - zeros;
  lab::note_access(to, size, true, location(where));
  if (lab::observer != nullptr) lab::observer->accesses(from, kept, false, location(where));
  std::memcpy(to, from, kept);
  std::memset(static_cast<std::byte*>(to) + kept, 0, zeros);
}
void copy_by_group(void* to, const void* from, std::size_t bytes, unsigned long long rank,
                   unsigned long long threads, Where where) {
  const std::size_t together =
      reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from) | bytes;
  const std::size_t piece = together % 16 == 0 ? 16 : together % 8 == 0 ? 8 : 4;
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  for (std::size_t at = rank * piece; at < bytes; at += threads * piece) {
    if (together % 4 == 0 && is_shared(to)) {
      lab::copy_async(target + at, source + at, piece, location(where));
      continue;
    }
    const std::size_t size = std::min(piece, bytes - at);
    if (lab::observer != nullptr) {
      lab::observer->accesses(source + at, size, false, location(where));
      lab::observer->accesses(target + at, size, true, location(where));
    }
    std::memcpy(target + at, source + at, size);
  }
}
void* dynamic_shared() {
  return shared_at(lab::placed_shared);
}
std::size_t dynamic_shared_bytes() {
  return lab::this_thread().block->shared_bytes() - lab::placed_shared;
}
std::size_t place_shared(std::size_t bytes, std::size_t alignment) {
  constexpr std::size_t whole = 1024;  // as dynamic shared memory is aligned
  static std::size_t end = 0;
  const std::size_t begin = (end + alignment - 1) / alignment * alignment;
  end = begin + bytes;
  lab::placed_shared = (end + whole - 1) / whole * whole;
  return begin;
}
void name_shared(const volatile void* variable, std::size_t bytes, const char* name) {
  const auto* const begin = static_cast<const std::byte*>(const_cast<const void*>(variable));
  const auto* const shared = static_cast<const std::byte*>(lab::dynamic_shared());
  lab::placed_variables.try_emplace(begin - shared, bytes, name);
}
void* shared_at(std::size_t offset) {
  return static_cast<std::byte*>(lab::dynamic_shared()) + offset;
}

namespace {
// Each thread of the host that launches kernels has static shared memory of its own.
const lab::Program& program_here() {
  thread_local const lab::Program program = lab::Program::running();
  return program;
}
std::uintptr_t statics_begin() {
  const lab::Program& program = program_here();
  return reinterpret_cast<std::uintptr_t>(program.thread_locals) & ~std::uintptr_t{1023};
}
std::size_t statics_end() {
  const lab::Program& program = program_here();
  return reinterpret_cast<std::uintptr_t>(program.thread_locals) + program.thread_local_bytes;
}
}  // namespace

unsigned shared_address(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (address >= statics_begin() && address < statics_end()) {
    return kStatic + static_cast<unsigned>(address - statics_begin());
  }
  return static_cast<unsigned>(address - reinterpret_cast<std::uintptr_t>(lab::dynamic_shared()));
}
unsigned peer_address(unsigned address, unsigned rank) {
  return address + (rank + 1) * kPeer;
}
void* shared_pointer(unsigned long long address) {
  const auto low = static_cast<unsigned>(address);
  if (low >= kStatic - kPeer && low < 2 * kStatic) {
    return reinterpret_cast<void*>(statics_begin() + (low - kStatic));
  }
  const unsigned peer = (low + kPeer / 2) / kPeer;  // 0: this block
  lab::Block& block = *lab::this_thread().block;
  if (peer > static_cast<unsigned>(block.cluster())) {
    throw std::runtime_error(fmt::format("{:#x} is no address in shared memory", low));
  }
  const int rank = peer == 0 ? lab::current->rank : static_cast<int>(peer) - 1;
  return block.shared(rank) + static_cast<int>(low - peer * kPeer);
}
bool is_shared(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto begin = reinterpret_cast<std::uintptr_t>(lab::dynamic_shared());
  return (address >= statics_begin() && address < statics_end()) ||
         (address >= begin && address < begin + lab::this_thread().block->shared_bytes());
}

unsigned streaming_multiprocessor() {
  return static_cast<unsigned>(block_number() % Card::kSms);
}

void note_dynamic_shared(void* pointer) {
  state().dynamic_shared.push_back(pointer);
}

// ---------------------------------------------------------------- launches

void stop_kernel(const char* kind, const char* message, Where where) {
  const lab::Thread& thread = *lab::current;
  state().stopped =
      KernelStopped(kind, cudaErrorLaunchFailure,
                    fmt::format("thread ({}, {}, {}) of block ({}, {}, {}): {}", thread.index.x,
                                thread.index.y, thread.index.z, thread.block_index.x,
                                thread.block_index.y, thread.block_index.z, message),
                    where);
  throw *state().stopped;
}

void calls_of_host(const char* name, Where where) {
  state().add(
      "host function", where,
      fmt::format("a kernel calls {0}(), which is a function of the host, and nvcc does not "
                  "compile that: write __device__, or __host__ __device__, before {0}",
                  name));
}

void assert_failed(const char* condition, const char* function, Where where) {
  std::fflush(stdout);
  if (!in_kernel()) {
    fmt::print(stderr, "{}:{}: {}: Assertion `{}' failed.\n", where.file, where.line, function,
               condition);
    std::abort();
  }
  const lab::Thread& thread = *lab::current;
  const std::string at = fmt::format("block: [{},{},{}], thread: [{},{},{}]", thread.block_index.x,
                                     thread.block_index.y, thread.block_index.z, thread.index.x,
                                     thread.index.y, thread.index.z);
  fmt::print(stderr, "{}:{}: {}: {} Assertion `{}` failed.\n", where.file, where.line, function, at,
             condition);
  state().stopped = KernelStopped("assert", cudaErrorAssert,
                                  fmt::format("{}: the assertion {} failed", at, condition), where);
  throw *state().stopped;
}

cudaError_t allow_dynamic_shared(int bytes) {
  if (bytes < 0 || bytes > Card::kMostShared) return report(cudaErrorInvalidValue);
  state().allowed_shared = std::max(state().allowed_shared, static_cast<std::size_t>(bytes));
  return pending_error();
}

namespace {

// What is wrong with the sizes of a launch, and the error that CUDA returns for it.
std::pair<cudaError_t, std::string> refusal(const Configuration& c) {
  const auto count = [](dim3 size) { return std::int64_t{size.x} * size.y * size.z; };
  const auto text = [](dim3 size) { return fmt::format("({}, {}, {})", size.x, size.y, size.z); };
  if (count(c.block) < 1 || count(c.block) > 1024 || c.block.z > 64) {
    return {cudaErrorInvalidConfiguration,
            fmt::format("a block of {} threads; allowed are 1 to 1024 in all, and 64 in z",
                        text(c.block))};
  }
  if (count(c.grid) < 1 || c.grid.x > 2147483647u || c.grid.y > 65535 || c.grid.z > 65535) {
    return {
        cudaErrorInvalidConfiguration,
        fmt::format("a grid of {} blocks; allowed are 1 to 2147483647 in x and 65535 in y and z",
                    text(c.grid))};
  }
  if (count(c.cluster) < 1 || count(c.cluster) > 16 || c.grid.x % c.cluster.x != 0 ||
      c.grid.y % c.cluster.y != 0 || c.grid.z % c.cluster.z != 0) {
    return {cudaErrorInvalidClusterSize,
            fmt::format("clusters of {} blocks in a grid of {}; allowed are 16 at most, which "
                        "divide the grid",
                        text(c.cluster), text(c.grid))};
  }
  if (count(c.cluster) > 1 &&
      (count(c.block) % 32 != 0 || count(c.cluster) * count(c.block) > 8192)) {
    return {
        cudaErrorNotSupported,
        fmt::format("clusters of {} blocks of {} threads; the lab has those of whole warps, and "
                    "of 8192 threads at most",
                    count(c.cluster), count(c.block))};
  }
  if (c.shared_bytes > state().allowed_shared) {
    return {cudaErrorInvalidValue,
            fmt::format("{} bytes of dynamic shared memory; allowed are {}, or, after "
                        "cudaFuncSetAttribute(kernel, "
                        "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), {}",
                        c.shared_bytes, state().allowed_shared, int{Card::kMostShared})};
  }
  const int threads = static_cast<int>(count(c.block));
  const std::int64_t fit = std::int64_t{Card::kSms} * blocks_of_sm(threads, c.shared_bytes);
  if (c.cooperative && count(c.grid) > fit) {
    return {
        cudaErrorCooperativeLaunchTooLarge,
        fmt::format("{} blocks at once, and {} fit on the {} SMs of this card: compute the grid "
                    "from cudaOccupancyMaxActiveBlocksPerMultiprocessor() and the number of SMs",
                    count(c.grid), fit, int{Card::kSms})};
  }
  return {cudaSuccess, ""};
}

// The first "file:line" of a message.
Where place_in(const std::string& text, std::string& file) {
  for (std::size_t colon = text.find(':'); colon != std::string::npos;
       colon = text.find(':', colon + 1)) {
    const int line = std::atoi(text.c_str() + colon + 1);
    const std::size_t begin = text.find_last_of(" \n(", colon) + 1;
    if (line > 0 && colon > begin && text.find('.', begin) < colon) {
      file = text.substr(begin, colon - begin);
      return {file.c_str(), line};
    }
  }
  return {"", 0};
}

// How far a launch is: said on standard error while it takes long.
struct Progress {
  const char* name;
  std::int64_t all, begun = 0;
  std::string text() const {
    return fmt::format("launch {}, {}: block {} of {}", state().launches, name, begun, all);
  }
  void block_begins() {
    static auto said = std::chrono::steady_clock::now();
    ++begun;
    if (std::chrono::steady_clock::now() - said < std::chrono::seconds(5)) return;
    said = std::chrono::steady_clock::now();
    fmt::print(stderr, "[the lab: {}]\n", text());
  }
};

cudaError_t ended_early(const Configuration& c, const char* name, const std::exception& why,
                        const Progress& progress) {
  const std::optional<KernelStopped> stopped = std::exchange(state().stopped, std::nullopt);
  std::string text = stopped ? stopped->what() : why.what();
  // The engine adds what was found; the report has that.
  text = text.substr(0, text.find(state().watch.report().findings_text().substr(0, 10)));
  text.erase(text.find_last_not_of(" \n") + 1);
  state().failures.push_back(fmt::format("The launch of {} at {}:{} ended early: {}", name,
                                         c.where.file, c.where.line, text));
  std::string file;
  if (stopped) {
    state().add(stopped->kind, stopped->where, text);
    return stopped->error;
  }
  if (text.find(lab::kUsedHostMemory) == 0) return cudaErrorIllegalAddress;  // and a finding
  if (text.find("time limit") != std::string::npos) {
    const char* const what = progress.begun < progress.all ? "the size that sets the grid"
                             : state().launches > 4        ? "the number of launches"
                                                    : "the loop of the kernel, if it ends at all";
    state().add("time limit", c.where,
                fmt::format("{} ({}): the lab takes thousands of times as long as a GPU; make {} "
                            "smaller, watch a part of the blocks by --sample, or allow more time "
                            "by --seconds",
                            text, progress.text(), what));
    end_program(text);
  }
  if (text.find("deadlock") == 0) {
    // Where a thread spins the engine has a finding of its own.
    if (text.find("again and again") == std::string::npos) {
      const Where where = place_in(text, file);
      state().add("deadlock", where.line > 0 ? where : c.where, text);
    }
    return cudaErrorLaunchTimeout;
  }
  if (text.find("crashed") != std::string::npos) {
    return text.find("misaligned address") != std::string::npos ? cudaErrorMisalignedAddress
                                                                : cudaErrorIllegalAddress;
  }
  const Where where = place_in(text, file);
  state().add("launch failure", where.line > 0 ? where : c.where, text);
  return cudaErrorLaunchFailure;
}

}  // namespace

void State::add(const std::string& kind, Where where, const std::string& message) {
  add(kind, fmt::format("{}:{}", where.file, where.line), message);
}
void State::add(const std::string& kind, const std::string& at, const std::string& message) {
  for (lab::Finding& finding : findings) {
    if (finding.kind != kind || finding.where != at) continue;
    ++finding.count;
    return;
  }
  const std::size_t begin = message.find(at + ": ") == 0 ? at.size() + 2 : 0;
  findings.push_back({kind, at, "", "", message.substr(begin), 1});
}

bool kernels_have_clusters() {
  return state().asks_for_clusters = true;
}
bool gives_cluster(dim3 size) {
  if (in_kernel()) return false;
  state().cluster = size;
  return true;
}

cudaError_t run(const Configuration& given, const char* name, void (*call)(void*), void* context,
                std::size_t bytes) {
  const auto lock = lock_card();
  Configuration c = given;
  if (state().asks_for_clusters && !in_kernel()) {
    call(context);
    if (c.cluster.x * c.cluster.y * c.cluster.z == 1) c.cluster = state().cluster;
  }
  if (const cudaError_t error = pending_error()) return report(error);
  if (in_kernel()) {
    stop_kernel("unsupported", "a kernel launches a kernel: the lab has no dynamic parallelism",
                c.where);
  }
  const auto [error, message] = refusal(c);
  if (error != cudaSuccess) {
    state().add("launch", c.where,
                fmt::format("the launch of {} asks for {}: {}, and the kernel does not run", name,
                            message, cudaGetErrorName(error)));
    return report(error);
  }
  votes.clear();
  meetings.clear();
  if (grid_barrier == nullptr) {
    grid_barrier = static_cast<GridBarrier*>(lab::allocate(sizeof *grid_barrier));
    lab::fill(grid_barrier, 0, sizeof *grid_barrier, false);
  }
  *grid_barrier = {};  // unseen: a copy would count as a wait for all streams
  ++state().launches;
  state().cooperative = c.cooperative;
  state().arguments = static_cast<const std::byte*>(context);
  state().argument_bytes = bytes;
  fa::Launch launch;
  launch.grid = {c.grid.x, c.grid.y, c.grid.z};
  launch.block = {c.block.x, c.block.y, c.block.z};
  launch.shared_bytes = lab::placed_shared + c.shared_bytes;
  launch.cluster = static_cast<int>(c.cluster.x * c.cluster.y * c.cluster.z);
  launch.cluster_y = c.cluster.y;
  launch.cluster_z = c.cluster.z;
  launch.with_pdl = c.may_begin_early;
  Progress progress{name, std::int64_t{c.grid.x} * c.grid.y * c.grid.z};
  try {
    lab::run(
        launch,
        [&] {
          if (lab::current->number == 0) progress.block_begins();
          void* const dynamic = dynamic_shared();
          for (void* const pointer : state().dynamic_shared) {
            std::memcpy(pointer, &dynamic, sizeof dynamic);
          }
          call(context);
        },
        stream_number(c.stream));
  } catch (const std::exception& why) {
    state().sticky = ended_early(c, name, why, progress);
    report(state().sticky);
  }
  return cudaSuccess;
}

}  // namespace lab_cuda
