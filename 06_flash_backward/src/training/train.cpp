#include "06_flash_backward/src/training/train.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "common/data/files.hpp"
#include "common/tensor/npy.hpp"
#include "common/tensor/random.hpp"

namespace fa::backward {
namespace {

// FNV-1a: finds damage, not forgery.
std::uint64_t hash_of(const char* bytes, std::size_t count) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < count; ++i) {
    hash = (hash ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3u;
  }
  return hash;
}

std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (!file || !bytes) {
    throw std::invalid_argument(fmt::format("{}: cannot be read", path.string()));
  }
  return bytes.str();
}

// The mean of -ln(share) over what was counted.
template <class Counts>
double entropy_of(const Counts& counts) {
  double total = 0, sum = 0;
  for (const double count : counts) total += count;
  for (const double count : counts) {
    if (count > 0) sum -= count * std::log(count / total);
  }
  return total > 0 ? sum / total : 0;
}

constexpr char kMagic[] = "fa::backward training 1\n";
constexpr std::size_t kMagicSize = sizeof(kMagic) - 1;

}  // namespace

std::string Text::printable(const std::vector<std::int64_t>& characters) const {
  std::string result;
  for (const std::int64_t id : characters) {
    const char c = alphabet[static_cast<std::size_t>(id)];
    result += (c >= ' ' && c <= '~') || c == '\n' ? c : '?';
  }
  return result;
}

Text text_of(const std::string& name, const std::string& bytes) {
  std::array<std::int64_t, 256> ids{};
  for (const char c : bytes) ids[static_cast<unsigned char>(c)] = 1;
  Text text{name, "", {}, hash_of(bytes.data(), bytes.size())};
  for (std::size_t byte = 0; byte < ids.size(); ++byte) {
    if (ids[byte] == 0) continue;
    ids[byte] = static_cast<std::int64_t>(text.alphabet.size());
    text.alphabet += static_cast<char>(byte);
  }
  if (text.alphabet.size() < 2) {
    throw std::invalid_argument(
        fmt::format("{}: a training text needs at least two different characters", name));
  }
  for (const char c : bytes) {
    text.ids.push_back(ids[static_cast<unsigned char>(c)]);
  }
  return text;
}

Text read_text(const std::string& name, const std::vector<std::filesystem::path>& files) {
  std::string bytes;
  for (const auto& file : files) bytes += file_bytes(file);
  return text_of(name, bytes);
}

double unigram_entropy(const Text& text) {
  std::vector<double> counts(text.alphabet.size());
  for (const std::int64_t id : text.ids) ++counts[id];
  return entropy_of(counts);
}

double bigram_entropy(const Text& text) {
  // Of pairs, less of their first characters: H(b | a) = H(a, b) - H(a).
  std::map<std::pair<std::int64_t, std::int64_t>, double> pairs;
  std::vector<double> firsts(text.alphabet.size()), counts;
  for (std::size_t i = 1; i < text.ids.size(); ++i) {
    ++pairs[{text.ids[i - 1], text.ids[i]}];
    ++firsts[text.ids[i - 1]];
  }
  for (const auto& pair : pairs) counts.push_back(pair.second);
  return entropy_of(counts) - entropy_of(firsts);
}

namespace {

Plan checked(Plan plan, const Text& text) {
  plan.size.characters = static_cast<std::int64_t>(text.alphabet.size());
  plan.size.check();
  if (plan.batch < 1) {
    throw std::invalid_argument(
        fmt::format("a batch of {} sequences; it must be at least 1", plan.batch));
  }
  if (static_cast<std::int64_t>(text.ids.size()) <= plan.size.length) {
    throw std::invalid_argument(
        fmt::format("{}: has {} characters; a model of length {} needs at least {}", text.name,
                    text.ids.size(), plan.size.length, plan.size.length + 1));
  }
  return plan;
}

}  // namespace

template <class T>
Training<T>::Training(const Plan& plan, const Text& text, AttentionEngine<T> engine)
    : plan_(checked(plan, text)),
      text_(text),
      engine_(std::move(engine)),
      model_(plan_.size, plan.seed),
      adam_(model_.parameters()) {}

template <class T>
double Training<T>::step() {
  // Sequences that begin anywhere; what follows each character is asked.
  std::vector<std::int64_t> ids, next;
  const std::int64_t length = plan_.size.length;
  const std::uint64_t places = text_.ids.size() - length;
  for (std::int64_t i = 0; i < plan_.batch; ++i) {
    const std::uint64_t counter = losses_.size() * plan_.batch + i;
    const auto begin = text_.ids.begin() + random_bits(~plan_.seed, counter) % places;
    ids.insert(ids.end(), begin, begin + length);
    next.insert(next.end(), begin + 1, begin + 1 + length);
  }
  for (const auto& parameter : model_.parameters()) {
    parameter.value->grad.setZero();
  }
  Tape<T> tape;
  const auto loss = cross_entropy(tape, model_.logits(tape, ids, plan_.batch, engine_), next);
  const double value = loss->value(0, 0);
  if (!std::isfinite(value)) {
    throw std::runtime_error(fmt::format("the loss of step {} is {}", losses_.size() + 1, value));
  }
  tape.backward(loss);
  const double warm =
      static_cast<double>(losses_.size() + 1) / static_cast<double>(plan_.warm_up + 1);
  adam_.step(model_.parameters(), plan_.rate * std::min(1.0, warm));
  losses_.push_back(value);
  return value;
}

template <class T>
std::string Training<T>::sample(std::int64_t count, double temperature, std::int64_t window) const {
  window = std::clamp<std::int64_t>(window, 1, plan_.size.length);
  const std::int64_t prompt = std::min<std::int64_t>(window, 12);
  std::vector<std::int64_t> written(text_.ids.begin(), text_.ids.begin() + prompt);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto seen = std::min<std::int64_t>(window, static_cast<std::int64_t>(written.size()));
    Tape<T> forward_only;
    const auto logits =
        model_.logits(forward_only, {written.end() - seen, written.end()}, 1, engine_);
    const Vector<double> scores =
        logits->value.row(seen - 1).transpose().template cast<double>() / temperature;
    const Vector<double> shares = (scores.array() - scores.maxCoeff()).exp();
    double left = shares.sum() * random_uniform(plan_.seed, i);
    std::int64_t id = 0;
    while (id + 1 < shares.size() && left >= shares(id)) left -= shares(id++);
    written.push_back(id);
  }
  return text_.printable(written);
}

template <class T>
std::string Training<T>::description() const {
  const ModelSize& s = plan_.size;
  return fmt::format(
      "{}, {} layers, {} heads, width {} and {}, length {}, batch {}, rate "
      "{}, warm-up {}, seed {}, a text of {} bytes with hash {:016x}",
      FloatTraits<T>::name, s.layers, s.heads, s.width, s.inner, s.length, plan_.batch, plan_.rate,
      plan_.warm_up, plan_.seed, text_.ids.size(), text_.hash);
}

// A checkpoint: a line that says what it is; then, each after its size in bytes, the description,
// the engine, the losses, and for each parameter value, mean and square; last the hash of all
// that. Numbers in the byte order of the machine.
template <class T>
void Training<T>::save(const std::filesystem::path& path, const std::string& engine) const {
  std::string bytes(kMagic, kMagicSize);
  const auto add = [&](const void* data, std::size_t count) {
    const std::uint64_t size = count;
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
    if (count > 0) bytes.append(static_cast<const char*>(data), count);
  };
  const auto add_matrix = [&](const Matrix<T>& matrix) {
    add(matrix.data(), static_cast<std::size_t>(matrix.size()) * sizeof(T));
  };
  const std::string what = description();
  add(what.data(), what.size());
  add(engine.data(), engine.size());
  add(losses_.data(), losses_.size() * sizeof(double));
  for (std::size_t i = 0; i < model_.parameters().size(); ++i) {
    add_matrix(model_.parameters()[i].value->value);
    add_matrix(adam_.mean[i]);
    add_matrix(adam_.square[i]);
  }
  const std::uint64_t hash = hash_of(bytes.data(), bytes.size());
  bytes.append(reinterpret_cast<const char*>(&hash), sizeof hash);
  write_file(path, bytes);
}

template <class T>
std::string Training<T>::load(const std::filesystem::path& path) {
  const std::string bytes = file_bytes(path);
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(path.string() + ": " + why);
  };
  if (bytes.compare(0, kMagicSize, kMagic) != 0) {
    refuse("is not a checkpoint of this program");
  }
  std::uint64_t hash = 0;
  const std::size_t end = bytes.size() - std::min(bytes.size(), sizeof hash);
  if (end > kMagicSize) std::memcpy(&hash, bytes.data() + end, sizeof hash);
  if (end <= kMagicSize || hash != hash_of(bytes.data(), end)) {
    refuse("the checkpoint is cut off or damaged");
  }
  // The hash is right, so the sizes are those that save() wrote.
  std::size_t at = kMagicSize;
  const auto next = [&] {
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data() + at, sizeof size);
    at += sizeof size + size;
    return bytes.substr(at - size, size);
  };
  const std::string what = next();
  if (what != description()) {
    refuse(
        fmt::format("the checkpoint is of another run ({}); this one is {}", what, description()));
  }
  const std::string engine = next(), losses = next();
  const auto take = [&](Matrix<T>& matrix) {
    const std::string numbers = next();
    std::memcpy(matrix.data(), numbers.data(), numbers.size());
  };
  for (std::size_t i = 0; i < model_.parameters().size(); ++i) {
    take(model_.parameters()[i].value->value);
    take(adam_.mean[i]);
    take(adam_.square[i]);
  }
  losses_.resize(losses.size() / sizeof(double));
  std::copy(losses.begin(), losses.end(), reinterpret_cast<char*>(losses_.data()));
  adam_.steps = static_cast<std::int64_t>(losses_.size());
  return engine;
}

template <class T>
void write_weights(const std::filesystem::path& path, const Model<T>& model, const Text& text) {
  const ModelSize& s = model.size();
  std::vector<T> all;
  for (const std::int64_t size : {s.layers, s.heads, s.width, s.inner, s.length, s.characters}) {
    all.push_back(static_cast<T>(size));
  }
  for (const char c : text.alphabet) all.push_back(static_cast<unsigned char>(c));
  for (const auto& parameter : model.parameters()) {
    const Matrix<T>& value = parameter.value->value;
    all.insert(all.end(), value.data(), value.data() + value.size());
  }
  const View<const T, 1> view(all.data(), {static_cast<std::int64_t>(all.size())});
  write_npy(path, converted<half>(view));
}

template class Training<float>;
template class Training<double>;
/// @cond
template void write_weights(const std::filesystem::path&, const Model<float>&, const Text&);
template void write_weights(const std::filesystem::path&, const Model<double>&, const Text&);
/// @endcond

}  // namespace fa::backward
