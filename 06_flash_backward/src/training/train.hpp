/// @file
/// Lesson 06: training a language model on a text: what is learnt from, the steps, checkpoints,
/// samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "06_flash_backward/src/backend.hpp"
#include "06_flash_backward/src/training/model.hpp"

namespace fa::backward {

/// A text as numbers: each byte that occurs is a character of the alphabet.
struct Text {
  std::string name;               ///< for people
  std::string alphabet;           ///< the bytes that occur, in order
  std::vector<std::int64_t> ids;  ///< the text, as places in the alphabet
  std::uint64_t hash = 0;         ///< of the bytes

  /// The characters as they are read; line feeds stay, what is not printable ASCII becomes '?'.
  std::string printable(const std::vector<std::int64_t>& characters) const;
};

/// A text from its bytes.
/// @throws std::invalid_argument when fewer than two different bytes occur
Text text_of(const std::string& name, const std::string& bytes);

/// One text from files, one after the other.
/// @param files at least one
/// @throws std::invalid_argument when a file cannot be read, and as text_of()
Text read_text(const std::string& name, const std::vector<std::filesystem::path>& files);

/// The entropy of a character, in nats (units of ln): the loss of a model that knows only how
/// often each occurs.
double unigram_entropy(const Text& text);

/// The entropy of a character given the one before it. No model that sees only that one can be
/// below it on the whole text.
double bigram_entropy(const Text& text);

/// All that a training run depends on, beside the text and the engine.
struct Plan {
  ModelSize size;            ///< its characters are set by Training
  std::int64_t batch = 4;    ///< sequences in one step
  double rate = 0.01;        ///< of Adam
  std::int64_t warm_up = 8;  ///< steps in which the rate rises from 0
  std::uint64_t seed = 1;    ///< of the parameters and of the batches
};

/// A training run. Step s draws its sequences by the seed and s alone, so that a run which is
/// resumed from a checkpoint is the run which was never interrupted, to the last bit.
template <class T>
class Training {
 public:
  /// A run before its first step.
  /// @param text   must outlive this
  /// @throws std::invalid_argument as ModelSize::check(), for a batch below 1, and for a text that
  ///         is not longer than a sequence
  Training(const Plan& plan, const Text& text, AttentionEngine<T> engine);

  /// Makes one step.
  /// @return the loss before it: the mean of -ln of what the model gave the right characters
  /// @throws std::runtime_error when the loss is not finite
  double step();

  /// The losses of all steps so far.
  const std::vector<double>& losses() const { return losses_; }
  /// The model as it is now.
  const Model<T>& model() const { return model_; }

  /// Lets the model write. Each character is drawn by what the model gives it.
  /// @param temperature below 1: likely characters become likelier
  /// @param window      how many characters the model looks back on, at most its length
  /// @return the beginning of the text and what the model wrote, printable
  std::string sample(std::int64_t count, double temperature, std::int64_t window) const;

  /// Everything that the next step depends on, as one file that appears whole or not at all.
  /// @param file   replaced when it exists
  /// @param engine name of the engine, for load()
  /// @throws std::runtime_error when the file cannot be written
  void save(const std::filesystem::path& file, const std::string& engine) const;
  /// Continues where save() was called.
  /// @param file of a run with the same plan and text
  /// @return the name of the engine that it was computed with
  /// @throws std::invalid_argument when the file cannot be read, is no checkpoint, is cut off or
  ///         damaged, or is of another run; this is then unchanged
  std::string load(const std::filesystem::path& file);

 private:
  std::string description() const;
  Plan plan_;
  const Text& text_;
  AttentionEngine<T> engine_;
  Model<T> model_;
  Adam<T> adam_;
  std::vector<double> losses_;
};

/// Writes a model as one .npy vector of float16: its sizes (layers, heads, width, inner, length,
/// characters), the alphabet, and the parameters in their order. Lesson 05 reads it.
/// @param text that it has learnt
/// @throws std::runtime_error when the file cannot be written
template <class T>
void write_weights(const std::filesystem::path& path, const Model<T>& model, const Text& text);

/// A height that a curve is compared with.
struct Level {
  std::string name;  ///< "bigram entropy"
  double value;      ///< in the unit of the curve
};

/// A curve as lines of text: '*' where it runs, '-' where the levels are.
/// @param values at least one; where there are more than columns, means of neighbours
/// @param levels drawn across, named at the right
std::string terminal_curve(const std::vector<double>& values, const std::vector<Level>& levels);

/// A curve as an SVG file, readable on light and dark paper.
/// @param path   appears whole or not at all
/// @param values at least one, one for each step
/// @throws std::runtime_error when the file cannot be written
void write_curve_svg(const std::filesystem::path& path, const std::string& title,
                     const std::vector<double>& values, const std::vector<Level>& levels);

/// Attention by kernels that give the same bits in every run: lesson 05's fastest ones forward;
/// backward rung 03 for float32 and rung 07 for 16 bits. For a 16-bit type q, k, v and dO are
/// rounded to it, and so are O, dQ, dK and dV.
///
/// The engine takes causal problems and others, with the usual scale and without dropout; it throws
/// std::invalid_argument otherwise, and for what the rungs do not take.
/// @param type    of the tensors on the device
/// @throws std::logic_error when the backend does not have these rungs
AttentionEngine<float> kernel_engine(const Backend& backend, Type type);

}  // namespace fa::backward
