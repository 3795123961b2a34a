/// @file
/// What Hopper adds: mbarriers, bulk copies and those of tensors (TMA), wgmma, clusters. What the
/// source pass makes of their PTX, and what headers of libcu++ call.
#pragma once

#include <lab_cuda/launch.h>

// ---------------------------------------------------------------- tensor maps

typedef std::uint32_t cuuint32_t;
typedef std::uint64_t cuuint64_t;
enum CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_UNKNOWN = 999
};
/// A tensor map: 128 bytes, of which the lab has its own idea.
struct alignas(64) CUtensorMap {
  cuuint64_t opaque[16];
};
enum CUtensorMapDataType {
  CU_TENSOR_MAP_DATA_TYPE_UINT8,
  CU_TENSOR_MAP_DATA_TYPE_UINT16,
  CU_TENSOR_MAP_DATA_TYPE_UINT32,
  CU_TENSOR_MAP_DATA_TYPE_INT32,
  CU_TENSOR_MAP_DATA_TYPE_UINT64,
  CU_TENSOR_MAP_DATA_TYPE_INT64,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ
};
enum CUtensorMapInterleave {
  CU_TENSOR_MAP_INTERLEAVE_NONE,
  CU_TENSOR_MAP_INTERLEAVE_16B,
  CU_TENSOR_MAP_INTERLEAVE_32B
};
enum CUtensorMapSwizzle {
  CU_TENSOR_MAP_SWIZZLE_NONE,
  CU_TENSOR_MAP_SWIZZLE_32B,
  CU_TENSOR_MAP_SWIZZLE_64B,
  CU_TENSOR_MAP_SWIZZLE_128B
};
enum CUtensorMapL2promotion {
  CU_TENSOR_MAP_L2_PROMOTION_NONE,
  CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
  CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
  CU_TENSOR_MAP_L2_PROMOTION_L2_256B
};
enum CUtensorMapFloatOOBfill {
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
};
/// Makes a tensor map. What CUDA refuses is CUDA_ERROR_INVALID_VALUE, and the report says why.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill);
typedef decltype(&cuTensorMapEncodeTiled) PFN_cuTensorMapEncodeTiled_v12000;
typedef PFN_cuTensorMapEncodeTiled_v12000 PFN_cuTensorMapEncodeTiled;
CUresult cuInit(unsigned flags);
CUresult cuGetErrorString(CUresult error, const char** text);
CUresult cuGetErrorName(CUresult error, const char** text);

enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess,
  cudaDriverEntryPointSymbolNotFound,
  cudaDriverEntryPointVersionNotSufficent
};
enum { cudaEnableDefault = 0, cudaEnableLegacyStream = 1, cudaEnablePerThreadDefaultStream = 2 };
enum CUdriverProcAddressQueryResult {
  CU_GET_PROC_ADDRESS_SUCCESS,
  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
};
CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* found);
typedef decltype(&cuGetProcAddress) PFN_cuGetProcAddress_v12000;
typedef PFN_cuGetProcAddress_v12000 PFN_cuGetProcAddress;
#define CU_GET_PROC_ADDRESS_DEFAULT 0
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags = 0,
                                             cudaDriverEntryPointQueryResult* found = nullptr);
cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags = 0,
                                    cudaDriverEntryPointQueryResult* found = nullptr);

// ---------------------------------------------------------------- instructions

namespace lab_cuda {

/// @{ mbarrier.*; a token is the parity of the phase that an arrival is in.
unsigned long long arrive_at_barrier(void* barrier, long long bytes, int count, bool drops,
                                     Where where);
bool test_barrier(void* barrier, unsigned long long parity, Where where);
/// @}

/// @{ cp.async.bulk and cp.async.bulk.tensor. Bit r of `blocks` is block r of the cluster; 0: the
/// block that the address is of. Coordinates are given with the fastest first.
struct Coordinates {
  template <class... I, class = std::enable_if_t<(std::is_arithmetic_v<I> && ...)>>
  Coordinates(I... each) : count(sizeof...(each)), at{static_cast<int>(each)...} {}
  template <std::size_t n>
  Coordinates(const int (&all)[n]) : count(n) {
    for (std::size_t i = 0; i < n; ++i) at[i] = all[i];
  }
  std::size_t count;
  int at[5] = {};
};
void bulk_load(void* shared, const void* global, long long bytes, void* barrier, unsigned blocks,
               Where where);
void bulk_copy_to_peer(void* to, const void* from, long long bytes, void* barrier, Where where);
enum class Reduction { kNone, kAdd };
void bulk_store(void* global, const void* shared, long long bytes, Reduction how, Where where);
void tensor_load(void* shared, const void* map, Coordinates at, void* barrier, unsigned blocks,
                 Where where);
void tensor_store(const void* map, Coordinates at, const void* shared, Where where);
/// @}

/// @{ fence.proxy.async and fence.mbarrier_init.
void fence_async(bool of_shared = true, bool of_global = true);
/// @}

/// @{ wgmma.*
void wgmma_wait(int pending);
/// d += A B or d = A B. A lane has `count` accumulators; `a` are its registers of A or null.
struct Wgmma {
  enum Type { f16, bf16, e4m3, e5m2, tf32 } type_a, type_b;  // PTX's names, as fa::lab::WgmmaType
  bool half_sums, adds, negates, transposed_a, transposed_b;
  unsigned long long a, b;  // descriptors
};
void wgmma(const Wgmma& what, float* sums, int count, const unsigned* a, Where where);
/// Four registers that stay as they are until the thread's next wgmma_wait().
const unsigned* keep_registers(const unsigned (&registers)[4]);
/// @throws always: accumulators that are no array
[[noreturn]] void scattered_registers(Where where);
/// @}

/// @{ Clusters.
unsigned cluster_rank();
unsigned cluster_size();
dim3 cluster_dims();
void* peer_shared(const void* pointer, unsigned rank, Where where);
unsigned peer_address(unsigned address, unsigned rank);
/// @}

/// elect.sync: whether the lane is the chosen one of the mask.
bool elect(unsigned mask, unsigned* lane, Where where);
void stmatrix(void* row, const unsigned* from, int count, bool transposed, Where where);

}  // namespace lab_cuda
