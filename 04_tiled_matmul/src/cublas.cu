#include <cublas_v2.h>
#include <memory>

#include "04_tiled_matmul/src/backend.hpp"
#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {
namespace {

void check_cublas(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error(fmt::format("cuBLAS: {}", cublasGetStatusString(status)));
  }
}

std::shared_ptr<cublasContext> cublas_handle() {
  cublasHandle_t handle = nullptr;
  check_cublas(cublasCreate(&handle));
  return {handle, cublasDestroy};
}

// H is the host's type of T, TYPE cuBLAS' name of it.
template <class T, class H, cudaDataType TYPE>
tiled::Prepared prepare(const tiled::Inputs& in, bool b_transposed) {
  const auto a = std::make_shared<DeviceBuffer<T>>(converted<H>(in[0].view())),
             b = std::make_shared<DeviceBuffer<T>>(converted<H>(in[1].view()));
  const auto m = static_cast<int>(in[0].size(0)), k = static_cast<int>(in[0].size(1)),
             n = static_cast<int>(in[1].size(b_transposed ? 0 : 1));
  const auto c = std::make_shared<DeviceBuffer<float>>(std::int64_t{m} * n);
  const auto handle = cublas_handle();
  return {[=] {
            // Columns are contiguous to cuBLAS: it sees all matrices transposed, and C^T = B^T A^T.
            const float one = 1, zero = 0;
            check_cublas(cublasGemmEx(handle.get(), b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                      CUBLAS_OP_N, n, m, k, &one, b->data(), TYPE,
                                      b_transposed ? k : n, a->data(), TYPE, k, &zero, c->data(),
                                      CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
          },
          [=] {
            return c->template tensor<float, 2>({std::int64_t{m}, std::int64_t{n}});
          }};
}

}  // namespace
}  // namespace fa::FA_TARGET

namespace fa::tiled {

std::optional<Kernel> cublas(const std::string& group) {
  const bool in_float32 = group == "matmul" || group == "matmul_bt";
  const bool b_transposed = group == "matmul_bt" || group == "mma_bt";
  if (!in_float32 && group != "mma" && group != "mma_bt") return std::nullopt;
  return Kernel{"cuBLAS", "", [=](const Inputs& in) {
                  return in_float32 ? on_gpu::prepare<float, float, CUDA_R_32F>(in, b_transposed)
                                    : on_gpu::prepare<on_gpu::bfloat16, fa::bfloat16, CUDA_R_16BF>(
                                          in, b_transposed);
                }};
}

}  // namespace fa::tiled
