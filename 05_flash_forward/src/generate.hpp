/// @file
/// A language model generates text: attention by the last decode kernel, with the keys and values
/// of all layers in a paged cache.
#pragma once

#include <cstdint>
#include <vector>

#include "05_flash_forward/src/language_model.hpp"
#include "common/cli/program.hpp"

namespace fa::flash::decode {

/// The sizes of a paged cache.
struct CacheSize {
  std::int64_t layers, heads, head_dim;  ///< of the model
  int sequences;                         ///< at the same time
  int length;                            ///< most tokens of a sequence
  int page_size = 16;                    ///< tokens
  /// Pages of the longest sequence.
  int most_pages() const { return (length + page_size - 1) / page_size; }
};

/// The keys and values of several sequences, in the memory of a device. All layers share the block
/// table.
class PagedCache {
 public:
  virtual ~PagedCache() = default;
  /// Gives pages to further tokens of the sequences from `first` on; attend() is then about these.
  /// @throws std::invalid_argument when a sequence becomes longer than its most
  virtual void extend(int first, int sequences, int tokens) = 0;
  /// Stores the keys and values of the new tokens, and attends to all tokens so far: a token sees
  /// those of its own sequence up to itself.
  /// @param q [sequences * tokens, heads * head_dim], as k and v
  /// @return O, with the shape of q
  virtual Matrix<float> attend(std::int64_t layer, const Matrix<float>& q, const Matrix<float>& k,
                               const Matrix<float>& v) = 0;
  /// Which pages hold the tokens of a sequence, in order.
  virtual std::vector<int> pages_of(int sequence) const = 0;
};

/// The sizes of a cache for a model.
CacheSize cache_size(const LanguageModel<float>& model, int sequences);

/// Continues each prompt by the likeliest tokens: a step for each prompt alone, then one for each
/// further token of all sequences.
/// @param cache empty, of the model's sizes
/// @return for each prompt `count` tokens
/// @throws std::invalid_argument for an empty prompt, or one for which the model is too short
std::vector<Tokens> generate(const LanguageModel<float>& model, const std::vector<Tokens>& prompts,
                             int count, PagedCache& cache);

/// What lesson 01 says, in float64 and without a cache, about generated tokens.
struct Comparison {
  int differing = 0;  ///< tokens that are not the likeliest after those before them
  double margin = 0;  ///< least difference of the two largest logits
};
/// Computes all tokens of a sequence at once: under the causal mask each row is what a step sees.
Comparison compare(const LanguageModel<double>& model, const Tokens& prompt,
                   const Tokens& generated);

/// The section "generate": 200 tokens after each of two prompts, with their pages, compared with
/// lesson 01.
/// @throws std::runtime_error when the device reports an error
void show_generation(cli::Program& program);

}  // namespace fa::flash::decode
