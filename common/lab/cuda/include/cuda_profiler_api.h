// All of it is there.
#pragma once
#include <cuda_runtime.h>
