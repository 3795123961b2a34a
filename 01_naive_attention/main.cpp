// Lesson 01: attention written as the formulas, on a real text, with gradients checked by central
// differences.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "01_naive_attention/attention.hpp"
#include "01_naive_attention/gradient_check.hpp"
#include "01_naive_attention/multi_head.hpp"
#include "common/cli/program.hpp"
#include "common/cli/table.hpp"
#include "common/tensor/npy.hpp"
#include "common/tensor/random.hpp"

namespace {

using namespace fa;

// Adds the rows of a matrix of at most four columns.
void add_matrix(cli::Table& table, const char* name, View<const double, 2> matrix) {
  for (std::int64_t i = 0; i < matrix.size(0); ++i) {
    std::vector<std::string> cells{name, std::to_string(i)};
    for (std::int64_t j = 0; j < 4; ++j) {
      cells.push_back(j < matrix.size(1) ? fmt::format("{:.4f}", matrix(i, j)) : "-");
    }
    table.add(cells);
  }
}

// Three tokens with two elements each: small enough to follow by hand.
void worked_example() {
  Tensor<double, 4> q({1, 1, 3, 2}), k(q.shape()), v(q.shape());
  const double q_values[] = {1, 0, 0, 1, 1, 1};
  const double k_values[] = {1, 0, 0, 2, 1, 1};
  const double v_values[] = {10, 0, 0, 10, 5, 5};
  std::copy(std::begin(q_values), std::end(q_values), q.data());
  std::copy(std::begin(k_values), std::end(k_values), k.data());
  std::copy(std::begin(v_values), std::end(v_values), v.data());
  const auto scale = AttentionOptions{}.scale_for(2);
  Tensor<double, 2> s({3, 3});
  for_each_index(s.shape(), [&](const Shape<2>& i) {
    for (int d = 0; d < 2; ++d) {
      s.view()[i] += scale * q(0, 0, i[0], d) * k(0, 0, i[1], d);
    }
  });
  const auto p = naive::weights<double>(q, k);
  const auto out = naive::forward<double>(q, k, v);
  fmt::print("scale = 1/sqrt(2) = {:.4f}\n", scale);
  cli::Table table({"matrix", "row", "col 0", "col 1", "col 2", "row sum"});
  add_matrix(table, "Q", q.view().at(0).at(0));
  add_matrix(table, "K", k.view().at(0).at(0));
  add_matrix(table, "V", v.view().at(0).at(0));
  add_matrix(table, "S", s);
  Tensor<double, 2> e({3, 4});  // and the sum of each row
  for_each_index(s.shape(), [&](const Shape<2>& i) {
    e.view()[i] = std::exp(s.view()[i]);
    e(i[0], 3) += e.view()[i];
  });
  add_matrix(table, "exp(S)", e);
  add_matrix(table, "P", p.view().at(0).at(0));
  add_matrix(table, "O", out.o.view().at(0).at(0));
  fmt::print("{}", table.text());
}

struct Choice {  // options of this lesson
  std::optional<std::int64_t> head;
  std::int64_t tokens = 12;
  bool causal = false;
};

std::vector<std::string> token_names(const cli::Input& input, std::int64_t length) {
  if (!input.tokens.empty()) return input.tokens;
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < length; ++i) {
    names.push_back(fmt::format("key {}", i));
  }
  return names;
}

// The effective number of keys that a query attends to: exp of the mean entropy of the rows.
double effective_keys(View<const double, 2> weights) {
  double entropy = 0;
  for_each_index(weights.shape(), [&](const Shape<2>& i) {
    if (weights[i] > 0) entropy -= weights[i] * std::log(weights[i]);
  });
  return std::exp(entropy / static_cast<double>(weights.size(0)));
}

// The head of the shipped text in which "her" finds "alice".
constexpr std::int64_t kPronounHead = 3;

std::int64_t most_decided_head(View<const double, 3> weights) {
  std::int64_t best = 0;
  for (std::int64_t h = 1; h < weights.size(0); ++h) {
    if (effective_keys(weights.at(h)) < effective_keys(weights.at(best))) {
      best = h;
    }
  }
  return best;
}

Tensor<double, 4> input_weights(const cli::Input& input, bool causal) {
  attention_shape(input.q.shape(), input.k.shape(), input.v.shape());
  AttentionOptions options;
  options.causal = causal;
  return naive::weights<double>(converted<double>(input.q), converted<double>(input.k), options);
}

// The probability of four keys in each head, averaged over the queries.
void habits_of_the_heads(cli::Program& program, const Choice& choice) {
  const auto weights = input_weights(program.input(), choice.causal);
  cli::Table table({"head", "first key", "previous", "itself", "next", "effective keys"});
  for (std::int64_t h = 0; h < weights.size(1); ++h) {
    const auto head = weights.view().at(0).at(h);
    const auto mean_at = [&](auto key_of) {
      double sum = 0;
      for (std::int64_t i = 0; i < head.size(0); ++i) {
        const std::int64_t j = key_of(i);
        if (j >= 0 && j < head.size(1)) sum += head(i, j);
      }
      return fmt::format("{:.2f}", sum / static_cast<double>(head.size(0)));
    };
    table.add({std::to_string(h), mean_at([](auto) { return 0; }),
               mean_at([](auto i) { return i - 1; }), mean_at([](auto i) { return i; }),
               mean_at([](auto i) { return i + 1; }), fmt::format("{:.0f}", effective_keys(head))});
  }
  fmt::print("{}", table.text());
}

// The row to look at: of those printed, the one with the largest probability of another token
// than itself and the first, which many heads use for "nothing".
void what_to_look_at(View<const double, 2> head, const std::vector<std::string>& queries,
                     const std::vector<std::string>& keys) {
  Shape<2> best{0, 0};
  for_each_index(head.shape(), [&](const Shape<2>& i) {
    if (i[1] == 0 || i[0] == i[1]) return;
    if (best[1] == 0 || head[i] > head[best]) best = i;
  });
  if (best[1] == 0) return;
  fmt::print("Look at the row of '{}': its probability of '{}' is {:.2f}.\n\n",
             queries[static_cast<std::size_t>(best[0])], keys[static_cast<std::size_t>(best[1])],
             head[best]);
}

// The keys with the largest probabilities, for the first queries.
void print_strongest_keys(View<const double, 2> head, std::int64_t rows,
                          const std::vector<std::string>& queries,
                          const std::vector<std::string>& keys) {
  constexpr std::size_t kStrongest = 3;
  cli::Table table({"query", "strongest keys", "probabilities"});
  for (std::int64_t i = 0; i < rows; ++i) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(head.size(1)));
    std::iota(order.begin(), order.end(), 0);
    const auto strongest = std::min(kStrongest, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(strongest),
                      order.end(), [&](auto a, auto b) { return head(i, a) > head(i, b); });
    std::vector<std::string> names, values;
    for (std::size_t n = 0; n < strongest; ++n) {
      names.push_back(keys[static_cast<std::size_t>(order[n])]);
      values.push_back(fmt::format("{:.2f}", head(i, order[n])));
    }
    table.add({queries[static_cast<std::size_t>(i)], fmt::format("{}", fmt::join(names, ", ")),
               fmt::format("{}", fmt::join(values, " "))});
  }
  fmt::print("{}", table.text());
}

// A heat map in five shades of characters, one line per query and one character pair per key; a full
// block stands for the largest probability.
std::string heat_map(View<const double, 2> weights, const std::vector<std::string>& queries) {
  static const char* const kShades[] = {"  ", "░░", "▒▒", "▓▓", "██"};
  const double largest = as_matrix(weights).maxCoeff();
  std::size_t label_width = 0;
  const auto rows = static_cast<std::size_t>(weights.size(0));
  for (std::size_t i = 0; i < rows; ++i) {
    label_width = std::max(label_width, cli::display_width(queries[i]));
  }
  std::string text;
  for (std::int64_t i = 0; i < weights.size(0); ++i) {
    const std::string& label = queries[static_cast<std::size_t>(i)];
    text += std::string(label_width - cli::display_width(label), ' ') + label + " |";
    for (std::int64_t j = 0; j < weights.size(1); ++j) {
      text += kShades[largest > 0 ? std::lround(4 * weights(i, j) / largest) : 0];
    }
    text += "|\n";
  }
  return text;
}

void which_token_attends_to_which(cli::Program& program, const Choice& choice) {
  const cli::Input& input = program.input();
  const AttentionShape shape = attention_shape(input.q.shape(), input.k.shape(), input.v.shape());
  const auto weights = input_weights(input, choice.causal);
  const std::int64_t chosen = choice.head.value_or(input.directory == cli::shipped_input()
                                                       ? kPronounHead
                                                       : most_decided_head(weights.view().at(0)));
  if (chosen < 0 || chosen >= shape.heads) {
    throw std::invalid_argument(
        fmt::format("--head {}: the input has heads 0 to {}", chosen, shape.heads - 1));
  }
  const auto head = weights.view().at(0).at(chosen);
  const auto keys = token_names(input, shape.length_k);
  const bool same_tokens = shape.length_q == shape.length_k;
  std::vector<std::string> queries = keys;
  if (!same_tokens) {
    queries.clear();
    for (std::int64_t i = 0; i < shape.length_q; ++i) {
      queries.push_back(fmt::format("query {}", i));
    }
  }

  const auto rows = std::min(choice.tokens, shape.length_q);
  const auto cols = std::min(choice.tokens, shape.length_k);
  fmt::print("Head {} of {}: rows are queries 0 to {}, columns are keys 0 to {}\n", chosen,
             shape.heads, rows - 1, cols - 1);
  const auto window = head.narrow(0, 0, rows).narrow(1, 0, cols);
  fmt::print("{}\n", heat_map(window, queries));
  what_to_look_at(window, queries, keys);
  print_strongest_keys(head, rows, queries, keys);
}

// The model's tensor was computed in float64 by another program, from inputs that were not yet
// rounded to float32. This rounding must not cause a larger difference than computing in float32
// does, so the limit does not depend on the model's tensor.
template <int Rank>
Verdict against_model(std::string what, const Tensor<double, Rank>& out,
                      const Tensor<double, Rank>& model, const Tensor<float, Rank>& single) {
  return decide(std::move(what), distance(out.view(), model.view()),
                distance(single.view(), out.view()), kForwardFactor, epsilon<float>());
}

void attention_of_the_input(cli::Program& program, bool causal) {
  const cli::Input& input = program.input();
  AttentionOptions options;
  options.causal = causal;
  program.detail(fmt::format("Input: q {}, k and v {}\n", to_string(input.q.shape()),
                             to_string(input.k.shape())));
  const auto q = converted<double>(input.q), k = converted<double>(input.k),
             v = converted<double>(input.v);
  const auto ref = naive::forward<double>(q, k, v, options);
  const auto single = naive::forward<float>(input.q, input.k, input.v, options);
  if (program.save_directory()) {
    write_npy(*program.save_directory() / "o.npy", single.o);
    write_npy(*program.save_directory() / "lse.npy", single.lse);
  }
  const auto model = input.directory / "layer.npy";
  if (causal || !std::filesystem::exists(model)) {
    program.detail("No comparison: the input has no layer.npy of the model for this case.\n");
    return;
  }
  // Its o has the heads side by side: a view with the strides of that layout.
  const auto layer = read_npy<double, 3>(model);
  const std::int64_t length = q.size(2), dim = v.size(3), width = layer.size(2);
  const View<const double, 4> o(layer.view().at(1).data(), {1, q.size(1), length, dim},
                                {length * width, dim, width, 1});
  program.check(against_model("o against the model", ref.o, converted<double>(o), single.o));
}

// The projection `index` of those of q, k, v and o; the last column is its bias.
template <class T>
naive::Linear<T> linear_of(const Tensor<T, 3>& projections, std::int64_t index) {
  const auto all = as_matrix(projections.view().at(index));
  return {all.leftCols(all.cols() - 1), all.rightCols(1)};
}

template <class T>
naive::MultiHeadForward<T> run_layer(const cli::Input& input) {
  const auto layer = read_npy<T, 3>(input.directory / "layer.npy");
  const auto projections = read_npy<T, 3>(input.directory / "projections.npy");
  const naive::MultiHeadWeights<T> weights{linear_of(projections, 0), linear_of(projections, 1),
                                           linear_of(projections, 2), linear_of(projections, 3)};
  return naive::multi_head_forward<T>(layer.view().narrow(0, 0, 1), weights, input.q.size(1));
}

void whole_layer(cli::Program& program) {
  const cli::Input& input = program.input();
  if (!std::filesystem::exists(input.directory / "projections.npy")) {
    program.detail("No layer: the input has no layer.npy and projections.npy.\n");
    return;
  }
  const auto layer = run_layer<double>(input);
  const auto single = run_layer<float>(input);
  const auto model = read_npy<double, 3>(input.directory / "layer.npy");
  const auto y = converted<double>(model.view().narrow(0, 2, 3));
  program.detail(fmt::format("x {} -> q, k, v, o {} -> y {}\n", to_string(y.shape()),
                             to_string(layer.q.shape()), to_string(layer.y.shape())));
  program.check(against_model("y of the layer", layer.y, y, single.y));
}

// All options of attention at once, on a problem small enough to vary each input element.
void gradient_proof(cli::Program& program) {
  auto q = normal_tensor<double, 4>({1, 4, 5, 3}, 1);
  auto k = normal_tensor<double, 4>({1, 2, 7, 3}, 2);
  auto v = normal_tensor<double, 4>({1, 2, 7, 3}, 3);
  const auto d_o = normal_tensor<double, 4>(q.shape(), 4);
  AttentionOptions options;
  options.causal = true;
  options.dropout_probability = 0.25;
  const auto keep = random_keep_mask<4>({1, 4, 5, 7}, options.dropout_probability, 5);
  options.dropout_keep = keep;

  const auto loss = [&] {  // any loss with gradient d_o serves
    const auto o = naive::forward<double>(q, k, v, options).o;
    return std::inner_product(o.data(), o.data() + o.count(), d_o.data(), 0.0);
  };
  const auto gradients = naive::backward<double>(q, k, v, d_o, options);
  program.detail(fmt::format("q {}, k and v {}, causal, dropout 0.25, two heads per KV head\n",
                             to_string(q.shape()), to_string(k.shape())));
  const auto check = [&](const char* name, const Tensor<double, 4>& gradient,
                         Tensor<double, 4>& x) {
    program.check(
        fmt::format("{} against central differences", name),
        naive::relative_difference(
            gradient.view(), View<const double, 4>(naive::numerical_gradient(loss, x.view()))),
        naive::kDifferenceTolerance);
  };
  check("d_q", gradients.d_q, q);
  check("d_k", gradients.d_k, k);
  check("d_v", gradients.d_v, v);
}

// The error of the textbook algorithm in each storage type: the `plain` of the acceptance rule.
template <class T>
void add_type(cli::Table& table, const Tensor<double, 4> (&inputs)[4]) {
  Tensor<T, 4> stored[4];
  Tensor<double, 4> seen[4];  // the rounded inputs
  for (int i = 0; i < 4; ++i) {
    stored[i] = converted<T>(inputs[i]);
    seen[i] = converted<double>(stored[i]);
  }
  const auto o = naive::forward<T>(stored[0], stored[1], stored[2]).o;
  const auto ref = naive::forward<double>(seen[0], seen[1], seen[2]).o;
  const auto d_q = naive::backward<T>(stored[0], stored[1], stored[2], stored[3]).d_q;
  const auto ref_d_q = naive::backward<double>(seen[0], seen[1], seen[2], seen[3]).d_q;
  const auto row = [&](const Distance& d) {
    return fmt::format("{:.0e}", d.max_error / d.max_reference);
  };
  table.add({FloatTraits<T>::name, fmt::format("{:.0e}", epsilon<T>()),
             row(distance(o.view(), ref.view())), row(distance(d_q.view(), ref_d_q.view()))});
}

void storage_types() {
  const Tensor<double, 4> inputs[] = {
      normal_tensor<double, 4>({1, 4, 113, 32}, 1), normal_tensor<double, 4>({1, 4, 113, 32}, 2),
      normal_tensor<double, 4>({1, 4, 113, 32}, 3), normal_tensor<double, 4>({1, 4, 113, 32}, 4)};
  cli::Table table({"storage type", "epsilon", "error of o", "error of d_q"});
  add_type<float>(table, inputs);
  add_type<half>(table, inputs);
  add_type<bfloat16>(table, inputs);
  fmt::print("{}", table.text());
}

void memory_of_scores() {
  constexpr std::int64_t kHeads = 12, kHeadDim = 64;
  cli::Table table({"length", "q, k, v and o, MiB", "scores, MiB", "ratio"});
  for (std::int64_t length = 256; length <= 262144; length *= 4) {
    const auto inputs = 4 * element_count(Shape<3>{kHeads, length, kHeadDim});
    const auto scores = element_count(Shape<3>{kHeads, length, length});
    const auto mib = [](std::int64_t count) {
      return std::to_string(count * static_cast<std::int64_t>(sizeof(float)) >> 20);
    };
    table.add({std::to_string(length), mib(inputs), mib(scores),
               fmt::format("{:g}", static_cast<double>(scores) / static_cast<double>(inputs))});
  }
  fmt::print("{} heads, head_dim {}, float32\n{}", kHeads, kHeadDim, table.text());
}

void time_of_the_reference() {
  const Shape<4> shape{1, 8, 1024, 64};
  const auto q = normal_tensor<double, 4>(shape, 1), k = normal_tensor<double, 4>(shape, 2),
             v = normal_tensor<double, 4>(shape, 3), d_o = normal_tensor<double, 4>(shape, 4);
  const auto seconds = [](const auto& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double forward = seconds([&] { naive::forward<double>(q, k, v); });
  const double backward = seconds([&] { naive::backward<double>(q, k, v, d_o); });
  cli::Table table({"pass", "time, s"});
  table.add({"forward", fmt::format("{:.2f}", forward)});
  table.add({"backward", fmt::format("{:.2f}", backward)});
  fmt::print("q, k, v {}, float64\n{}", to_string(shape), table.text());
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("01_naive_attention",
                       "Lesson 01: attention written as the formulas, on Eigen.");
  Choice choice;
  program.option("--head", choice.head,
                 "the head to show (default: 3 of the shipped text, else the one with the lowest "
                 "entropy)");
  program.option("--tokens", choice.tokens, 1, 256, "number of tokens to print");
  program.flag("--causal", choice.causal,
               "causal mask: a query sees only its own and earlier keys");

  program.section_on_request("example", "Worked example: three tokens", worked_example);
  program.section("attend", "Which token attends to which",
                  [&] { which_token_attends_to_which(program, choice); });
  program.section_on_request("heads", "What each head attends to",
                             [&] { habits_of_the_heads(program, choice); });
  program.section_of_checks("output", "Output against the model's",
                            [&] { attention_of_the_input(program, choice.causal); });
  program.section_of_checks("layer", "Multi-head layer with its projections",
                            [&] { whole_layer(program); });
  program.section_of_checks("gradient", "Gradients against central differences",
                            [&] { gradient_proof(program); });
  program.section_on_request("types", "Error of each storage type", storage_types);
  program.section_on_request("memory", "Memory for the scores", memory_of_scores);
  program.section_on_request("time", "Time of the reference on this machine",
                             time_of_the_reference);
  return program.run(argc, argv);
}
