/// @file
/// Gradients of attention for programs in C and for all that can call C. It goes with lesson 05's
/// interface, whose fa_forward() computes o and lse; a library of its own has what is declared
/// here. No function keeps a pointer that it is given, and none throws.
///
/// A library is compiled for GPUs, or for the CPU, where the same kernels run in the lab: slowly,
/// for tests. See fa_backward_runs_on().
#ifndef FA_FLASH_ATTENTION_BACKWARD_H
#define FA_FLASH_ATTENTION_BACKWARD_H

#include "05_flash_forward/interface/flash_attention.h"

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)  // all else in the library is hidden
#endif

/// The gradients of a loss: d_o is that with respect to o, and d_q, d_k and d_v are asked for.
/// Where heads share keys and values, d_k and d_v are sums over these heads. Pointers are to
/// memory of the device and multiples of 16 bytes; tensors have the type of the attention. d_q,
/// d_k, d_v and the workspace overlap nothing; see fa_attention, which also says which values stay
/// finite. In float16 kernels round dS = P (dP - delta) to the type before they multiply it by q
/// and k: d_q and d_k are finite where it is at most 65504. In float32 each row of probabilities is
/// normalized over the given keys, so lse must be that of these keys and not of a longer sequence.
typedef struct fa_gradient {
  size_t size;             ///< sizeof(fa_gradient); another one is refused
  fa_attention attention;  ///< as fa_forward() had it, with the o and lse that
                           ///< it computed, which are only read; its stream is
                           ///< that of the gradients
  const void* d_o;         ///< [batch, heads, length_q, head_dim_v]
  void* d_q;               ///< [batch, heads, length_q, head_dim]
  void* d_k;               ///< [batch, kv_heads, length_k, head_dim]
  void* d_v;               ///< [batch, kv_heads, length_k, head_dim_v]
  fa_strides d_o_strides;  ///< of d_o
  fa_strides d_q_strides;  ///< of d_q; its rows must not overlap
  fa_strides d_k_strides;  ///< of d_k; its rows must not overlap
  fa_strides d_v_strides;  ///< of d_v; its rows must not overlap
  void* workspace;         ///< memory that is written while kernels run
  size_t workspace_bytes;  ///< fa_backward_workspace_bytes() or more
  int32_t deterministic;   ///< 1: every run gives the same bits, more slowly;
                           ///< 0: the last bits may differ
} fa_gradient;

/// Begins to compute gradients on the stream, on the GPU that holds q, and returns. On the CPU it
/// has ended then. A query that sees no key gets a row of zeros. An error of a kernel while it
/// runs is reported by a later call to CUDA. Nothing is allocated and nothing is waited for, so the
/// call can be captured in a CUDA graph. Calls that may run at the same time need a workspace
/// each; what it holds before a call does not matter.
/// @return an fa_status; fa_backward_last_error() says what was refused, or why it failed
int fa_backward(const fa_gradient* gradient);

/// How many bytes of workspace fa_backward() needs. They depend on sizes, type, `deterministic`,
/// on whether there is dropout, and on the current GPU, since those of the Hopper architecture
/// have kernels of their own; pointers and strides are not looked at.
/// @return bytes; 0 when fa_backward_last_error() says what was refused
size_t fa_backward_workspace_bytes(const fa_gradient* gradient);

/// As fa_backward() for what fa_forward_functor() computed, with the same functor; see there for
/// what is allowed. `deterministic` must be 0. A gradient of the bias or of the sinks that is not
/// wanted, or that the functor does not have, is null.
/// @param d_bias  of the bias' shape, without gaps: the gradient is added to what it holds
/// @param d_sinks [heads]: the gradient
/// @return an fa_status; fa_backward_last_error() says what was refused, or why it failed
int fa_backward_functor(const fa_gradient* gradient, const fa_functor* functor, float* d_bias,
                        float* d_sinks);

/// How many bytes of workspace fa_backward_functor() needs. Pointers and strides are not looked at.
/// @return bytes; 0 when fa_backward_last_error() says what was refused
size_t fa_backward_functor_workspace_bytes(const fa_gradient* gradient, const fa_functor* functor);

/// As fa_backward() for what fa_forward_packed() computed, with the same sequences; see there for
/// what is allowed. `deterministic` must be 0.
/// @return an fa_status; fa_backward_last_error() says what was refused, or why it failed
int fa_backward_packed(const fa_gradient* gradient, const fa_packed* packed);

/// How many bytes of workspace fa_backward_packed() needs. Pointers and strides are not looked at.
/// @return bytes; 0 when fa_backward_last_error() says what was refused
size_t fa_backward_packed_workspace_bytes(const fa_gradient* gradient, const fa_packed* packed);

/// Which kernels fa_backward() would take, for example "06_swizzled_pipeline, bfloat16, 128
/// columns". Pointers are not looked at; of strides only whether TMA takes them, as the kernels
/// for Hopper ask: above 0 and below 2^40 bytes.
/// @return a text that lasts until this thread's next call; null when fa_backward_last_error()
///         says what was refused
const char* fa_backward_kernel_name(const fa_gradient* gradient);

/// "gpu" or "cpu", as fa_runs_on() of lesson 05.
const char* fa_backward_runs_on(void);

/// One message about this thread's latest call of this library if it did not succeed; empty if it
/// did. It lasts until the next call of a function that can fail.
const char* fa_backward_last_error(void);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
