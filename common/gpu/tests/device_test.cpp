// What a GPU and its code can run.
#include <doctest/doctest.h>

#include "common/gpu/tests/gpus.hpp"

using namespace fa;

TEST_CASE("Hopper's kernels run on Hopper GPUs, with code for sm_90a") {
  CHECK(missing(gpus::kH100, kNeedsHopper) == "");
  CHECK(missing(gpus::kH100With80, kNeedsHopper) ==
        "needs sm_90a (TMA and wgmma); this build has code for sm_80 only, "
        "see CMAKE_CUDA_ARCHITECTURES");
  CHECK(missing(gpus::kH100With90, kNeedsHopper) ==
        "needs sm_90a (TMA and wgmma); this build has code for sm_90 only, "
        "see CMAKE_CUDA_ARCHITECTURES");
  CHECK(missing(gpus::kB200, kNeedsHopper) == "needs sm_90a (TMA and wgmma); B200 is sm_100");
  CHECK(missing(gpus::kT4, kNeedsHopper) == "needs sm_90a (TMA and wgmma); T4 is sm_75");
}

TEST_CASE("instructions of sm_80 are in code for it, on GPUs that are newer") {
  for (const DeviceProperties& gpu :
       {gpus::kA100, gpus::kRtx4090, gpus::kH100With80, gpus::kB200}) {
    CAPTURE(gpu.name);
    CHECK(can_run(gpu, kNeedsCpAsync));
    CHECK(can_run(gpu, kNeedsMma));
  }
  CHECK(missing(gpus::kT4, kNeedsCpAsync) == "needs sm_80 (cp.async); T4 is sm_75");
  CHECK(missing(gpus::kA100With75, kNeedsMma) ==
        "needs sm_80 (mma.m16n8k16); this build has code for sm_75 only, see "
        "CMAKE_CUDA_ARCHITECTURES");
}

TEST_CASE("shared memory is that of a block") {
  CHECK(can_run(gpus::kRtx4090, {80, "cp.async", 101376}));
  CHECK(missing(gpus::kRtx4090, {80, "cp.async", 101377}) ==
        "needs 101377 bytes of shared memory in a block; RTX 4090 has 101376");
  CHECK(can_run(gpus::kT4, {}));
}

TEST_CASE("without code for a GPU nothing runs there, in the lab all does") {
  CHECK(missing(gpus::gpu("V100", 70, 98304, 0), {}) ==
        "is not compiled for V100, which is sm_70; configure the build anew");
  const DeviceProperties lab = gpus::gpu("the lab", 0, 232448, 0);
  CHECK(can_run(lab, kNeedsHopper));
  CHECK(can_run(lab, {}));
  CHECK_FALSE(can_run(lab, {0, "", 232449}));
}
