#ifdef FA_ENTRIES  // the student's process
// Launches with the same workspace; what is in sums after the last one, and in the semaphores.
FA_ENTRY(run, [](const std::vector<float>& parts, int blocks, int tiles, bool causal,
                 int launches) {
  return watched([&] {
    const auto in = on_device(parts);
    auto semaphores = on_device(std::vector<unsigned>(static_cast<std::size_t>(tiles), 0));
    std::vector<double> all;
    for (int i = 0; i < launches; ++i) {
      DeviceBuffer<float> sums(std::int64_t{tiles} * kWarp);
      launch(fa::FA_TARGET::student::add_in_order, {{static_cast<unsigned>(blocks)}, {kWarp}},
             in.data(), sums.data(), semaphores.data(), tiles, causal);
      all = from_device(sums);
      for (const double count : from_device(semaphores)) all.push_back(count);
    }
    return all;
  });
});
#else  // the grader
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kWarp = 32;

const std::vector<Reason> kReasons = {
    {"barrier", "some lanes never come to a barrier"},
    {"out of bounds", "it reads or writes beside the arrays"},
    {"unwritten", "a sum is read before any block has stored it"},
    {"race",
     "two blocks use the same sum or semaphore and nothing orders them: the order takes a wait "
     "with load_acquire(), and a release by atomicAdd() behind __threadfence() when all lanes have "
     "written. A plain load or store of a semaphore is a race"}};

// The sums, added in the order of the blocks.
std::vector<double> sums(const std::vector<float>& parts, int blocks, int tiles, bool causal) {
  std::vector<double> result;
  for (int tile = 0; tile < tiles; ++tile) {
    for (int lane = 0; lane < kWarp; ++lane) {
      float sum = NAN;
      bool first = true;
      for (int block = 0; block < blocks; ++block) {
        if (causal && block > tile) continue;
        const float part = parts[static_cast<std::size_t>((block * tiles + tile) * kWarp + lane)];
        sum = first ? part : sum + part;
        first = false;
      }
      result.push_back(static_cast<double>(sum));
    }
  }
  return result;
}

void grade(int blocks, int tiles, bool causal) {
  auto parts = random_floats(std::int64_t{blocks} * tiles * kWarp, 11);
  // Sizes that differ, so that the order shows in the bits.
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] *= static_cast<float>(1 + i % 7 * 100);
  }
  const std::string where = fmt::format("{} blocks of keys, {} tiles of queries{}", blocks, tiles,
                                        causal ? ", causal" : "");
  const auto right = sums(parts, blocks, tiles, causal);
  const auto size = static_cast<std::ptrdiff_t>(right.size());
  for (const int launches : {1, 2}) {
    const auto launched = call<Launched>("run", parts, blocks, tiles, causal, launches);
    const auto begin = launched.out.begin();
    check_result(launched.seen, kReasons, {"sums", {begin, begin + size}, kWarp}, right, 0,
                 {{"nothing was written", std::vector<double>(right.size(), NAN)}},
                 fmt::format("{}, launch {}", where, launches));
    for (std::ptrdiff_t i = 0; i < tiles; ++i) {
      require(begin[size + i] == 0, fmt::format("after the launch the semaphore of tile {} is {}, "
                                                "and the next launch needs 0 (case: {})",
                                                i, begin[size + i], where));
    }
    // Equal bits by chance are not enough.
    if (found(launched.seen, "race")) {
      require_no_findings(launched.seen, kReasons);
    }
  }
}

}  // namespace

FA_STAGE(easy) {
  grade(3, 2, false);
}

FA_STAGE(odd) {
  grade(3, 5, true);
  grade(5, 3, true);
  grade(1, 1, true);
  grade(7, 4, false);
}

FA_STAGE(races) {
  const auto parts = random_floats(4 * 6 * kWarp, 2);
  const auto launched = call<Launched>("run", parts, 4, 6, true, 1);
  require_no_races(launched.seen, kReasons);
}
#endif
