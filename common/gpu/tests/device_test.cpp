// What a GPU and its code can run.
#include <doctest/doctest.h>

#include "common/gpu/tests/gpus.hpp"
#include "common/testing/process.hpp"

using namespace fa;

TEST_CASE("what is missing is said with the device's architecture, or the code's") {
  const struct {
    DeviceProperties gpu;
    Needs needs;
    const char* says;
  } lacks[] = {{gpus::kH100With80, kNeedsHopper, "has code for sm_80 only"},
               {gpus::kH100With90, kNeedsHopper, "has code for sm_90 only"},
               {gpus::kB200, kNeedsHopper, "needs sm_90a (TMA and wgmma); B200 is sm_100"},
               {gpus::kH100, kNeedsBlackwell, "needs sm_100a (tcgen05); H100 is sm_90"},
               {gpus::kB200, kNeedsBlackwell, "has code for sm_80 only"},
               {gpus::kB200With100, kNeedsHopper, "needs sm_90a (TMA and wgmma); B200 is sm_100"},
               {gpus::kT4, kNeedsHopper, "T4 is sm_75"},
               {gpus::kT4, kNeedsCpAsync, "needs sm_80 (cp.async); T4 is sm_75"},
               {gpus::kA100With75, kNeedsMma, "has code for sm_75 only"},
               {gpus::kRtx4090, {80, "cp.async", 101377}, "101377 bytes"},
               {gpus::gpu("V100", 70, 98304, 0), {}, "not compiled for V100"}};
  for (const auto& one : lacks) {
    const std::string why = missing(one.gpu, one.needs);
    CAPTURE(why);
    CHECK(testing::contains(why, one.says));
  }
}

TEST_CASE("instructions of sm_80 run on newer GPUs, those of sm_90a and sm_100a on these") {
  for (const DeviceProperties& gpu :
       {gpus::kA100, gpus::kRtx4090, gpus::kH100With80, gpus::kB200}) {
    CAPTURE(gpu.name);
    CHECK(can_run(gpu, kNeedsCpAsync));
    CHECK(can_run(gpu, kNeedsMma));
  }
  CHECK(can_run(gpus::kH100, kNeedsHopper));
  CHECK(can_run(gpus::kB200With100, kNeedsBlackwell));
  CHECK(can_run(gpus::kB200With100, kNeedsMma));
  CHECK(can_run(gpus::kRtx4090, {80, "cp.async", 101376}));
  CHECK(can_run(gpus::kT4, {}));
}

TEST_CASE("the lab runs all that fits its shared memory") {
  const DeviceProperties lab = gpus::gpu("the lab", 0, 232448, 0);
  CHECK(can_run(lab, kNeedsHopper));
  CHECK_FALSE(can_run(lab, {0, "", 232449}));
}
