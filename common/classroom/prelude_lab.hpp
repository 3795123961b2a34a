/// @file
/// What entries of kernels include, and graders that launch kernels of the lessons, precompiled.
/// Nothing of a grader is in it.
#pragma once

// clang-format off
#include "common/gpu/kernel_watched.hpp"  // first
// clang-format on

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/classroom/cuda_words.hpp"
#include "common/classroom/entry.hpp"
#include "common/classroom/launches.hpp"
#include "common/classroom/wire.hpp"
