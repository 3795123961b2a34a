// All of it is there.
#pragma once
#include <cuda_pipeline.h>
