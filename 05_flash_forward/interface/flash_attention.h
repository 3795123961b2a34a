/** @file
 * Attention for programs in C and for all that can call C: Python, Julia, Rust. The kernels behind it are this
 * lesson's last ones. No function keeps a pointer, and none throws.
 *
 * A library is compiled for GPUs, or for the CPU, where the same kernels run in the lab: slowly, for tests. See
 * fa_runs_on().
 */
#ifndef FA_FLASH_ATTENTION_H
#define FA_FLASH_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Types of q, k, v and o, for fa_attention.type. */
enum fa_type {
  FA_TYPE_FLOAT32 = 0, /**< float */
  FA_TYPE_FLOAT16 = 1, /**< IEEE 754 binary16 */
  FA_TYPE_BFLOAT16 = 2 /**< the upper half of a float */
};

/** What a function returns. */
enum fa_status {
  FA_STATUS_OK = 0,      /**< all is well */
  FA_STATUS_REFUSED = 1, /**< an argument is not allowed; nothing was done */
  FA_STATUS_FAILED = 2   /**< the device, or memory, failed */
};

/** Distances in a tensor [batch, heads, length, head_dim], in elements: 0 or more, and multiples of 16 bytes. The
 * elements of a row are neighbours. So a tensor that lies as [batch, length, heads, head_dim] is as good. */
typedef struct fa_strides {
  int64_t batch; /**< from a sequence to the next */
  int64_t head;  /**< from a head to the next */
  int64_t row;   /**< from a row to the next */
} fa_strides;

/** Attention over all heads of all sequences: o = softmax(scale q k^T) v. */
typedef struct fa_attention {
  /** sizeof(fa_attention): a caller with another idea of this struct is refused. */
  size_t size;

  /** [batch, heads, length_q, head_dim]; this and all pointers: memory of the device. Those of q, k, v and o are
   * multiples of 16 bytes. */
  const void* q;
  const void* k; /**< [batch, kv_heads, length_k, head_dim] */
  const void* v; /**< [batch, kv_heads, length_k, head_dim] */
  void* o;       /**< [batch, heads, length_q, head_dim], overlaps nothing */
  /** [batch, heads, length_q], without gaps: the natural logarithm of the sum of exp(scale q k^T); -infinity for a
   * query that sees no key, whose row of o is 0. */
  float* lse;

  fa_strides q_strides; /**< of q */
  fa_strides k_strides; /**< of k */
  fa_strides v_strides; /**< of v */
  /** Of o: distances between its rows are not less than head_dim. */
  fa_strides o_strides;

  int64_t batch;    /**< sequences: 1 to 65535 */
  int64_t heads;    /**< of q and o: a multiple of kv_heads up to 65535 */
  int64_t kv_heads; /**< of k and v: heads / kv_heads neighbours share one */
  int64_t length_q; /**< queries of a sequence: 1 to 10^9 */
  int64_t length_k; /**< keys of a sequence: 1 to 10^9 */
  int64_t head_dim; /**< elements of a row: a multiple of 8 up to 256 */

  int32_t type; /**< an fa_type */
  int32_t
      causal;  /**< 0; or 1: query i sees keys to i + length_k - length_q */
  float scale; /**< above 0 and finite; usually fa_default_scale() */
  float reserved; /**< 0 */
  double dropout; /**< share of the weights that are dropped: 0 to below 1 */
  uint64_t seed;  /**< of the dropout: the same seed drops the same weights */
  void* stream;   /**< a cudaStream_t; null is CUDA's default stream */
} fa_attention;

/** Begins to compute attention on the stream, and returns. On the CPU it has ended then.
 *
 * What is refused is named, with what is allowed instead, by fa_last_error(). An error of a kernel while it runs is
 * told by a later call to CUDA, like that of any kernel. The GPU is that of the memory q points to.
 *
 * @param attention what to compute
 * @return an fa_status
 */
int fa_forward(const fa_attention* attention);

/** Which kernel fa_forward() would take: "08_finish, bfloat16, 128 columns". Pointers and strides are not looked at.
 *
 * @param attention as for fa_forward()
 * @return text until this thread's next call; null for what is refused, see fa_last_error()
 */
const char* fa_kernel_name(const fa_attention* attention);

/** 1 / sqrt(head_dim), the usual scale; 0, which is refused, for less than 1. */
float fa_default_scale(int64_t head_dim);

/** "gpu", or "cpu" for a library whose kernels run in the lab; pointers are to memory of the host then. */
const char* fa_runs_on(void);

/** One sentence about this thread's last call that did not succeed; empty before that. It lasts until the next. */
const char* fa_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
