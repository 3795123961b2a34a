/// @file
/// Attention for programs in C and for all that can call C: Python, Julia, Rust. The kernels behind
/// it are the last ones of this lesson. No function keeps a pointer that it is given, and none
/// throws.
///
/// A library is compiled for GPUs, or for the CPU, where the same kernels run in the lab: slowly,
/// for tests. See fa_runs_on().
#ifndef FA_FLASH_ATTENTION_H
#define FA_FLASH_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)  // all else in the library is hidden
#endif

/// Types of q, k, v and o, for fa_attention.type.
enum fa_type {
  FA_TYPE_FLOAT32 = 0,  ///< float
  FA_TYPE_FLOAT16 = 1,  ///< IEEE 754 binary16
  FA_TYPE_BFLOAT16 = 2  ///< the upper half of a float
};

/// What fa_forward() returns.
enum fa_status {
  FA_STATUS_OK = 0,       ///< all is well
  FA_STATUS_REFUSED = 1,  ///< an argument is not allowed; nothing was done
  FA_STATUS_FAILED = 2    ///< the device or its memory failed
};

/// Distances in a tensor [batch, heads, length, head_dim], or head_dim_v, in elements: multiples of
/// 16 bytes, 0 or more. The elements of a row are neighbours. A tensor that lies as [batch, length,
/// heads, head_dim] has other distances. That of a dimension of 1 may be anything. Every element
/// must have an address below 2^64, and less than 2^63 bytes from the first one. Of a tensor that
/// is written each stride is at least as large as what the smaller ones span, and head_dim, so that
/// rows do not overlap.
typedef struct fa_strides {
  int64_t batch;  ///< from a sequence to the next
  int64_t head;   ///< from a head to the next
  int64_t row;    ///< from a row to the next
} fa_strides;

/// Attention over all heads of all sequences: o = softmax(scale q k^T) v. Pointers are to memory of
/// the device; those of q, k, v and o are multiples of 16 bytes. o, lse and the workspace overlap
/// nothing, and a call in which they do is refused. Their rows may lie between those of others.
/// Only where rows of an input overlap each other an overlap with an output may go unseen.
///
/// All is computed in float32 where it is not rounded to the type: q k^T first, then its product
/// with scale. Results are finite where the sums of q k^T, their products with scale log2(e), and o
/// are at most 3.4e38. Beyond that o and lse may be infinite or NaN.
typedef struct fa_attention {
  size_t size;           ///< sizeof(fa_attention); another one is refused
  const void* q;         ///< [batch, heads, length_q, head_dim]
  const void* k;         ///< [batch, kv_heads, length_k, head_dim]
  const void* v;         ///< [batch, kv_heads, length_k, head_dim_v]
  void* o;               ///< [batch, heads, length_q, head_dim_v]
  float* lse;            ///< [batch, heads, length_q] without gaps: the natural
                         ///< logarithm of the sum of exp(scale q k^T)
  fa_strides q_strides;  ///< of q
  fa_strides k_strides;  ///< of k
  fa_strides v_strides;  ///< of v
  fa_strides o_strides;  ///< of o; its rows must not overlap
  int64_t batch;         ///< sequences: 1 to 65535
  int64_t heads;         ///< of q and o: 1 to 65535
  int64_t kv_heads;      ///< of k and v: heads is a multiple of it
  int64_t length_q;      ///< queries of a sequence: 1 to 10^9
  int64_t length_k;      ///< keys of a sequence: 1 to 10^9
  int64_t head_dim;      ///< elements of a row: a multiple of 8 up to 256
  int64_t head_dim_v;    ///< of a row of v and o: head_dim; or 128 where that
                         ///< is 192, which is fast in 16 bits without dropout
                         ///< on Hopper GPUs only
  int32_t type;          ///< an fa_type
  int32_t causal;        ///< 1: query i sees keys up to i + length_k - length_q;
                         ///< 0: it sees all
  double scale;          ///< above 0 and at most 2.3586574e38, FLT_MAX / log2(e);
                         ///< usually fa_default_scale()
  double dropout;        ///< probability of dropping an element of P: 0 to below 1
  uint64_t seed;         ///< of the dropout: the same seed drops the same elements
  void* stream;          ///< a cudaStream_t; null is CUDA's default stream
  /// Memory for the counter of a dynamic tile scheduler, or null: blocks then
  /// take their tiles in a fixed order, which can be slower. All bytes are 0
  /// before the first call that uses it, and each call leaves zeros. Calls
  /// that may run at the same time need a workspace each. At a multiple of 16
  /// bytes.
  void* workspace;
  size_t workspace_bytes;  ///< at least fa_workspace_bytes()
} fa_attention;

/// Begins to compute attention on the stream, on the GPU that holds q, and returns. On the CPU it
/// has ended then. A query that sees no key gets a row of zeros and an lse of -infinity. An error
/// of a kernel while it runs is reported by a later call to CUDA. Nothing is allocated and nothing
/// is waited for, so the call can be captured in a CUDA graph.
/// @return an fa_status; fa_last_error() says what was refused, or why it failed
int fa_forward(const fa_attention* attention);

/// Kernels of fa_decode(), for fa_cache.kernel: of the lesson's steps for decoding those that a
/// program may want to compare.
enum fa_decode_kernel {
  FA_DECODE_FASTEST = 0,          ///< a model of their times chooses
  FA_DECODE_FORWARD = 1,          ///< that of fa_forward(): all sequences have all keys, no pages
  FA_DECODE_PACKED_GQA = 2,       ///< likewise, as the next one and FA_DECODE_WGMMA
  FA_DECODE_ONE_LAUNCH = 3,       ///< for up to 16 rows: queries and heads of a group
  FA_DECODE_EVEN_TILES = 4,       ///< with or without lengths_k, no pages
  FA_DECODE_PAGED_KV = 5,         ///< with a block table
  FA_DECODE_WGMMA = 6,            ///< Hopper GPUs
  FA_DECODE_CHUNKED_PREFILL = 7,  ///< Hopper GPUs, all that fa_decode() computes
};

/// Types of a cache, for fa_cache.type.
enum fa_cache_type {
  FA_CACHE_SAME = 0,  ///< that of the queries
  FA_CACHE_E4M3 = 1   ///< 8 bits, where queries and o have 16: a value is its code times a scale
};

/// A cache of keys and values that a model which generates text reads, for fa_decode(). Of the
/// fa_attention length_k is the most keys that a sequence can have.
typedef struct fa_cache {
  size_t size;                 ///< sizeof(fa_cache); another one is refused
  const int32_t* lengths_k;    ///< [batch]: keys of each sequence, 0 to length_k; null: all have
                               ///< length_k
  const int32_t* block_table;  ///< [batch, most_pages]: entry i is the page of a sequence's keys
                               ///< from i * page_size on; null: k and v have no pages
  /// @{ Only with a block table. k and v are [cache_pages, kv_heads, page_size, head_dim] then, and
  /// their strides.batch is from a page to the next. Pages may be shared.
  int64_t most_pages;   ///< of a sequence: enough for length_k
  int64_t cache_pages;  ///< in the cache
  int64_t page_size;    ///< keys of a page: a multiple of 16
  /// @}
  /// [batch + 1], from 0 up to length_q: sequence i has the queries from cu_seqlens_q[i] up to, not
  /// including, cu_seqlens_q[i + 1], none perhaps. q and o are [heads, length_q, head_dim] then, and
  /// lse [heads, length_q]: their strides.batch is not used. For Hopper GPUs, and K and V that TMA
  /// supports. Null: q is [batch, heads, length_q, head_dim].
  const int32_t* cu_seqlens_q;
  /// Keys that a query sees: its own position, which is that of the causal mask, and the window - 1
  /// before it. Others may hold anything, and their pages as well. 0: no limit. With cu_seqlens_q 16
  /// at least.
  int64_t window;
  /// [heads]: logits of a further key for each head, whose value is 0. lse contains it, and a query
  /// that sees no key gets its head's sink. sink / scale must be finite, or -infinity: no sink. Null:
  /// none.
  const float* sinks;
  /// [batch, length_q, ceil(length_q / 32)]: of the last length_q keys of its sequence, draft tokens,
  /// a query sees key j only if bit j % 32 of word j / 32 is set; it sees all keys before them. Without
  /// causal mask, window and cu_seqlens_q. Null: it sees all.
  const uint32_t* tree;
  /// Batch invariance. 0: how keys are split depends on all sequences, and so do the last bits of o
  /// and lse. Else the keys of each sequence are split from its first one on into parts of so many, a
  /// multiple of 128. The bits of a sequence then depend on its own q, k and v, the type, heads,
  /// kv_heads, head_dim, the number of its queries, scale, the masks and sinks, part_keys, and on the
  /// kernel, but not on its place in the batch, on other sequences, on length_k, pages or not, or how
  /// many SMs the GPU has. FA_DECODE_FASTEST is then 07 with cu_seqlens_q, and on Hopper GPUs for more
  /// than 64 rows, queries times heads of a group; 04 or 05 otherwise, which give the same bits.
  int64_t part_keys;
  int32_t kernel;  ///< an fa_decode_kernel; one that does not support the problem is refused: the
                   ///< last four members need 04, 05 or 07, and 07 a window of 16 at least
  /// 1: lengths, pages and cu_seqlens_q that are not allowed are refused; this waits for the device,
  /// so that it cannot be captured. 0: a length out of range counts as the nearest one that is
  /// allowed, as does an element of cu_seqlens_q, and an index of a page out of range as 0. Where
  /// they change while a kernel runs it ends, too, but o and lse may be anything, and the workspace
  /// must be 0 again before the next call.
  int32_t check;
  int32_t type;  ///< an fa_cache_type
  /// @{ Only with FA_CACHE_E4M3, for which head_dim is a multiple of 16, cu_seqlens_q null and
  /// `kernel` 0. Scales are above 0.
  int32_t scale_per_head;  ///< 0: one scale for all; 1: one for each head of each page
  const float* k_scales;   ///< [1]; or [cache_pages, kv_heads], without pages [batch, kv_heads]
  const float* v_scales;   ///< likewise
  /// @}
} fa_cache;

/// As fa_forward() for a cache: single queries, chunks and whole prompts. Lengths, block table and
/// cu_seqlens_q, in memory of the device, are read when it runs, so that one launch serves all steps
/// of a generation. Few queries on many keys have these split among blocks. The causal mask is
/// aligned to the bottom right in each sequence. Types of 16 bits, a head_dim up to 128, head_dim_v
/// the same, no dropout. It needs the workspace, of fa_decode_workspace_bytes(). Its first
/// 4 * batch * heads * length_q bytes, or all if there are fewer, are 0 before the first call, and
/// before one with other sizes, or with a cache that differs in more than what its pointers point
/// to; each call leaves zeros there. What the others hold does not matter.
///
/// With lengths, a block table or cu_seqlens_q the rows of queries of all heads are at most
/// 2^31 - 257, and 2^31 tiles of 64 keys are too many. Without them what kernels for decoding cannot
/// number is computed as by fa_forward().
/// @return an fa_status; fa_last_error() says what was refused, or why it failed
int fa_decode(const fa_attention* attention, const fa_cache* cache);

/// Bytes of workspace that fa_decode() needs for a problem and a cache on the current GPU; 0 when
/// fa_last_error() says what was refused. Of pointers it matters only whether those of the cache are
/// null; of strides whether TMA supports them.
size_t fa_decode_workspace_bytes(const fa_attention* attention, const fa_cache* cache);

/// Which kernel fa_decode() would take on the current GPU, for example "07_chunked_prefill". What is
/// looked at is as in fa_decode_workspace_bytes().
/// @return a text that lasts until this thread's next call; null when fa_last_error() says what was
///   refused
const char* fa_decode_kernel_name(const fa_attention* attention, const fa_cache* cache);

/// New keys and values of a cache, for fa_append(): length_q of the fa_attention in each sequence.
typedef struct fa_new_keys {
  size_t size;           ///< sizeof(fa_new_keys); another one is refused
  const void* k;         ///< [batch, kv_heads, length_q, head_dim]
  const void* v;         ///< of the same shape
  fa_strides k_strides;  ///< of k
  fa_strides v_strides;  ///< of v
} fa_new_keys;

/// Writes new keys and values to a cache, before fa_decode() with the same fa_attention and
/// fa_cache reads it: the lengths count the new keys, which become the last length_q of each
/// sequence. Where a sequence has fewer, its last ones are written. Rows are copied as they are:
/// the caller has rotated them. For a cache in 8 bits, whose scales are given, they have 16, are
/// divided by the scale and rounded to nearest; what is too large becomes 448, and NaN stays NaN. Of
/// the fa_attention q, o, lse and the workspace are not looked at; k and v are written, in pages that
/// the sequences do not share. A head_dim up to 256 in all types, up to 128 for 8 bits. One launch,
/// which can be captured unless the cache asks for the check. Without the check
/// a length out of range counts as the nearest one that is allowed, and rows of a page out of range
/// are not written.
/// @return an fa_status; fa_last_error() says what was refused, or why it failed
int fa_append(const fa_attention* attention, const fa_cache* cache, const fa_new_keys* new_keys);

/// O and LSE of the same queries for other keys, for fa_merge().
typedef struct fa_other_keys {
  size_t size;           ///< sizeof(fa_other_keys); another one is refused
  const void* o;         ///< [batch, heads, length_q, head_dim]
  const float* lse;      ///< [batch, heads, length_q] without gaps
  fa_strides o_strides;  ///< of o
  int32_t
      one_sequence;  ///< 1: lse is [heads, batch, length_q], as a call with a batch of 1 and all
                     ///< queries as its rows leaves it
} fa_other_keys;

/// Makes of o and lse of the fa_attention, those of some keys, the ones of these and of other keys.
/// For a prefix that all sequences share: one fa_decode() with a batch of 1 has the prefix as keys,
/// and the queries of all sequences as rows, a second one has what follows it, and sinks if there are
/// any. Of the fa_attention q, k, v, kv_heads, length_k and the workspace are not used. A set of which
/// a row sees no key has an lse of -infinity. Types of 16 bits, a head_dim up to 128. One launch,
/// which can be captured.
/// @return an fa_status; fa_last_error() says what was refused, or why it failed
int fa_merge(const fa_attention* attention, const fa_other_keys* other);

/// Sequences of different lengths, packed one behind another without padding. The fa_attention then
/// has a batch of 1, all tokens as length_q and length_k, and lse [heads, length_q]. Sequence i has
/// the queries from cu_seqlens_q[i] up to, not including, cu_seqlens_q[i + 1]; it may be empty.
typedef struct fa_packed {
  size_t size;                  ///< sizeof(fa_packed); another one is refused
  const int32_t* cu_seqlens_q;  ///< [sequences + 1], on the device, from 0 up to length_q
  const int32_t* cu_seqlens_k;  ///< the same of keys, up to length_k
  int64_t sequences;            ///< 1 to 65535
  /// 1: cu_seqlens that are not allowed are refused; this waits for the device, so that it cannot
  /// be captured. 0: elements out of range count as the nearest ones that are allowed, and where
  /// they decrease a sequence is empty; rows of no sequence are not written. Where they change while
  /// kernels run these end, too, but what they write is unspecified.
  int32_t check;
} fa_packed;

/// As fa_forward() within each of several packed sequences; the causal mask is aligned to the
/// bottom right in each. Types of 16 bits, a head_dim up to 128, head_dim_v the same, no dropout.
/// cu_seqlens are read when the kernel runs, so that a captured call serves other lengths of as
/// many tokens. A workspace is used as in fa_forward(), and optional.
/// @return an fa_status; fa_last_error() says what was refused, or why it failed
int fa_forward_packed(const fa_attention* attention, const fa_packed* packed);

/// Masks and changes of scores, for fa_functor.kind. Each needs what is named. From
/// FA_FUNCTOR_WINDOW on, where left and right are named, the keys that a query sees lie in that
/// window, too.
enum fa_functor_kind {
  FA_FUNCTOR_PLAIN = 0,      ///< every key, and scores as they are
  FA_FUNCTOR_CAUSAL = 1,     ///< query i sees keys up to i + length_k - length_q
  FA_FUNCTOR_WINDOW = 2,     ///< left, right
  FA_FUNCTOR_PREFIX = 3,     ///< prefix; the causal mask, but all see the first `prefix` keys
  FA_FUNCTOR_DOCUMENTS = 4,  ///< documents, left, right; only keys of the query's own document
  FA_FUNCTOR_ALIBI = 5,      ///< slopes, left, right; s - slope |i + length_k - length_q - j|
  FA_FUNCTOR_SOFT_CAP = 6,   ///< cap, left, right; cap tanh(s / cap)
  FA_FUNCTOR_BIAS = 7,       ///< bias, left, right; s + bias
  FA_FUNCTOR_SINKS = 8,      ///< sinks, left, right; a further key for each head, whose value is 0
  FA_FUNCTOR_BLOCK_SPARSE = 9,  ///< blocks, block_size
  FA_FUNCTOR_BITS = 10          ///< bits
};

/// A mask and a change of scaled scores s of query i and key j. Pointers are to memory of the
/// device; those that the kind does not need are not looked at. Tensors lie without gaps, at a
/// multiple of the size of their elements.
typedef struct fa_functor {
  size_t size;   ///< sizeof(fa_functor); another one is refused
  int32_t kind;  ///< an fa_functor_kind
  /// @{ Query i sees keys from i + length_k - length_q - left up to i + length_k - length_q +
  /// right.
  int32_t left;   ///< 0 to 10^9; -1: no limit on this side
  int32_t right;  ///< likewise
  /// @}
  int32_t prefix;          ///< 0 to 10^9
  int32_t block_size;      ///< queries and keys of a block: 1 to 10^9
  float cap;               ///< above 0; cap, 1 / cap and scale / cap are from
                           ///< 1.1754944e-38 to 3.4028235e38
  int32_t bias_per_batch;  ///< 1: each sequence has a bias of its own; 0: all have the same
  int32_t bias_per_head;   ///< the same of heads
  int32_t bias_same_rows;  ///< 1: all queries have the same, as in a mask of
                           ///< padding; 0: each has its own
  const int32_t*
      documents;          ///< [batch, length_k, 2]: the first token of each token's document, and
                          ///< the first one after it
  const float* slopes;    ///< [heads]; slope / scale times the distance of a key must be finite
  const float* sinks;     ///< [heads]: logits; sink / scale must be finite
  const float* bias;      ///< [batch or 1, heads or 1, length_q or 1, length_k]; -infinity masks a
                          ///< key, +infinity and NaN make what depends on their row NaN
  const uint8_t* blocks;  ///< [heads, blocks of queries, blocks of keys]: 0 masks a block
  const uint32_t* bits;   ///< [batch, length_q, words]: bit j % 32 of word j / 32 shows key j
} fa_functor;

/// As fa_forward() with a mask and a change of the scores, compiled into the kernel. Types of 16
/// bits, a head_dim up to 128, head_dim_v the same, no dropout; `causal` must be 0, and the functor
/// says it. The workspace is that of fa_forward(), of fa_functor_workspace_bytes() bytes, of which
/// the first 16 are 0 before and after a call; FA_FUNCTOR_BITS needs it. With a sink, lse contains
/// it, and a query that sees no key gets its head's sink. Keys may also be masked by finite numbers,
/// -1e4 to -FLT_MAX: lse and gradients are right where |lse| of the row is at most 1e4; beyond that
/// o is right, and gradients are finite.
/// @return an fa_status; fa_last_error() says what was refused, or why it failed
int fa_forward_functor(const fa_attention* attention, const fa_functor* functor);

/// Bytes of workspace that fa_forward_functor() can use for a problem on the current GPU; 0 when
/// fa_last_error() says what was refused. Pointers are not looked at; of strides only whether TMA
/// supports them.
size_t fa_functor_workspace_bytes(const fa_attention* attention, const fa_functor* functor);

/// Bytes of workspace that fa_forward() can use for a problem on the current GPU; 0 when it needs
/// none, or when fa_last_error() says what was refused. Pointers are not looked at.
size_t fa_workspace_bytes(const fa_attention* attention);

/// Which kernel fa_forward() would take on the current GPU, for example "08_edge_masks, bfloat16,
/// 128 columns", or "15_warpgroup_tiles, bfloat16, 192 and 128 columns". Pointers are not looked
/// at; of strides only whether TMA supports them: above 0 and below 2^40 bytes. The choice depends
/// on that GPU and on the architectures that the library is compiled for: without code for sm_90a a
/// Hopper GPU gets "08_edge_masks", too, and what no other kernel fits gets "any_gpu".
/// @return a text that lasts until this thread's next call; null when fa_last_error() says what was
///   refused
const char* fa_kernel_name(const fa_attention* attention);

/// The usual scale of scores, 1 / sqrt(head_dim); 0, which fa_forward() refuses, for a head_dim
/// below 1.
double fa_default_scale(int64_t head_dim);

/// "gpu"; or "cpu" for a library whose kernels run in the lab: pointers are to the host's memory
/// then, and the stream is ignored.
const char* fa_runs_on(void);

/// One message about this thread's latest call if it did not succeed; empty if it did. It lasts
/// until the next call of another function that can fail.
const char* fa_last_error(void);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
