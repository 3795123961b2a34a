/// @file
/// CUDA's own names for the lab of any kernel: see common/lab/any_kernel.md.
#pragma once

#include <lab_cuda/atomics.h>
#include <lab_cuda/hopper.h>
#include <lab_cuda/host.h>
#include <lab_cuda/launch.h>
#include <lab_cuda/math.h>
#include <lab_cuda/warp.h>
