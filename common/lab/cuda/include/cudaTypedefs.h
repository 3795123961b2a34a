// Types of the driver's functions: the lab has no driver.
#pragma once
#include <cuda_runtime.h>
