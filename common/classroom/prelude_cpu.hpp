/// @file
/// What graders and entries without kernels include, precompiled: a check then takes a second or
/// two. Nothing of a grader is in it.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/classroom/entry.hpp"
#include "common/classroom/wire.hpp"
#include "common/tensor/matrix.hpp"
#include "common/tensor/random.hpp"
#include "common/tensor/tensor.hpp"
