/// @file
/// What entries of kernels include, and graders that launch kernels of the lessons, precompiled.
/// Nothing of a grader is in it.
#pragma once

#if defined(FA_LAB_WATCHED)
#include "common/gpu/kernel_watched.hpp"  // first
#endif

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
