/// @file
/// Asynchronous copies to shared memory by the functions of CUDA's C.
#pragma once

#include <cuda_runtime.h>

LAB_CUDA_DEFINE(void, __pipeline_memcpy_async,
                (void* shared, const void* global, std::size_t size, std::size_t zeros = 0,
                 LAB_CUDA_WHERE),
                ::lab_cuda::copy_async_zeros(shared, global, size, zeros, lab_where))
LAB_CUDA_DEFINE(void, __pipeline_commit, (), ::lab_cuda::commit_copies())
LAB_CUDA_DEFINE(void, __pipeline_wait_prior, (std::size_t pending),
                ::lab_cuda::wait_copies(static_cast<int>(pending)))
