#include "05_flash_forward/src/generate.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "05_flash_forward/src/decode.hpp"

namespace fa::flash::decode {
namespace {

int likeliest(const Matrix<float>& of, std::int64_t row) {
  int best = 0;
  of.row(row).maxCoeff(&best);
  return best;
}

}  // namespace

CacheSize cache_size(const LanguageModel<float>& model, int sequences) {
  return {static_cast<std::int64_t>(model.layers.size()), model.heads,
          model.tokens.cols() / model.heads, sequences, static_cast<int>(model.positions.rows())};
}

// clang-format off
std::vector<Tokens> generate(const LanguageModel<float>& model,
                             const std::vector<Tokens>& prompts, int count,
                             PagedCache& cache) {
  const int batch = static_cast<int>(prompts.size());
  std::vector<Tokens> texts = prompts;
  for (const Tokens& prompt : prompts) {
    if (prompt.empty()) throw std::invalid_argument("an empty prompt");
  }
  //! [generate]
  // Reads the last `tokens` tokens of some sequences, and adds one to each.
  const auto step = [&](int first, int sequences, int tokens) {
    Tokens read, places;
    for (int b = first; b < first + sequences; ++b) {
      const int length = static_cast<int>(texts[b].size());
      for (int i = length - tokens; i < length; ++i) {
        read.push_back(texts[b][i]);
        places.push_back(i);
      }
    }
    cache.extend(first, sequences, tokens);
    const Matrix<float> next = logits<float>(
        model, read, places,
        [&](auto layer, const auto& q, const auto& k, const auto& v) {
          return cache.attend(layer, q, k, v);
        });
    for (int b = 0; b < sequences; ++b) {
      texts[first + b].push_back(likeliest(next, (b + 1) * tokens - 1));
    }
  };
  for (int b = 0; b < batch; ++b) {
    step(b, 1, static_cast<int>(prompts[b].size()));  // prefill
  }
  for (int i = 1; i < count; ++i) step(0, batch, 1);  // decode
  //! [generate]
  for (int b = 0; b < batch; ++b) {
    texts[b].erase(texts[b].begin(), texts[b].begin() + prompts[b].size());
  }
  return texts;
}
// clang-format on

Comparison compare(const LanguageModel<double>& model, const Tokens& prompt,
                   const Tokens& generated) {
  Tokens text = prompt, places;
  text.insert(text.end(), generated.begin(), generated.end());
  text.pop_back();  // no token follows the last one
  for (std::size_t i = 0; i < text.size(); ++i) places.push_back(static_cast<int>(i));
  const Matrix<double> all =
      logits<double>(model, text, places, plain_attention<double>(model.heads));
  Comparison result{0, std::numeric_limits<double>::infinity()};
  for (std::size_t i = 0; i < generated.size(); ++i) {
    Vector<double> row = all.row(prompt.size() - 1 + i).transpose();
    int best = 0;
    const double largest = row.maxCoeff(&best);
    result.differing += best != generated[i] ? 1 : 0;
    row(best) = -std::numeric_limits<double>::infinity();
    result.margin = std::min(result.margin, largest - row.maxCoeff());
  }
  return result;
}

void show_generation(cli::Program& program) {
  const LanguageModel<float> model(model_file());
  const LanguageModel<double> exact(model_file());
  const std::vector<Backend> all = backends();
  const Backend& backend = *find_backend(all, program.on_gpu() ? "gpu" : "lab");
  const std::vector<std::string> prompts = {"Alice was beginning", "So she was considering"};
  std::vector<Tokens> tokens;
  for (const std::string& prompt : prompts) tokens.push_back(model.tokens_of(prompt));
  const CacheSize size = cache_size(model, static_cast<int>(prompts.size()));
  const auto cache = backend.paged_cache(size);
  const auto texts = generate(model, tokens, 200, *cache);
  int differing = 0;
  double margin = std::numeric_limits<double>::infinity();
  for (std::size_t b = 0; b < texts.size(); ++b) {
    std::string text;
    for (const int token : texts[b]) text += model.alphabet[token];
    fmt::print("{}[{}]\npages of {} tokens: {}\n\n", prompts[b], text, size.page_size,
               fmt::join(cache->pages_of(static_cast<int>(b)), ", "));
    const Comparison comparison = compare(exact, tokens[b], texts[b]);
    differing += comparison.differing;
    margin = std::min(margin, comparison.margin);
  }
  fmt::print("least distance of the two likeliest tokens: {:.2f}\n", margin);
  program.check_none(
      fmt::format("{} tokens of {} texts, lesson 01 in float64", texts[0].size(), texts.size()),
      differing, "other token");
}

}  // namespace fa::flash::decode
