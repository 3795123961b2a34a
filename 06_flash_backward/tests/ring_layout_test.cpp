// Ring attention without MPI: layouts, masks, and all ranks simulated one after the other.
#include <algorithm>

#include <doctest/doctest.h>

#include "06_flash_backward/ring/blocks.hpp"
#include "06_flash_backward/ring/counts.hpp"
#include "06_flash_backward/ring/model.hpp"
#include "common/check/acceptance.hpp"
#include "common/tensor/random.hpp"

using namespace fa;
using namespace fa::ring;

namespace {

const RowOrder kOrders[] = {RowOrder::kContiguous, RowOrder::kZigZag};

std::vector<std::int64_t> positions(const Ranges& ranges) {
  std::vector<std::int64_t> result;
  for (const Range& range : ranges) {
    for (std::int64_t i = range.begin; i < range.end; ++i) result.push_back(i);
  }
  return result;
}

// Rows of a rank, of a tensor of the whole sequence.
Tensor<double, 4> rows_of(View<const double, 4> whole, const Ranges& ranges) {
  const auto own = positions(ranges);
  Tensor<double, 4> result(
      {whole.size(0), whole.size(1), static_cast<std::int64_t>(own.size()), whole.size(3)});
  for (std::size_t row = 0; row < own.size(); ++row) {
    const auto r = static_cast<std::int64_t>(row);
    copy(whole.narrow(2, own[row], own[row] + 1), result.view().narrow(2, r, r + 1));
  }
  return result;
}

}  // namespace

TEST_CASE("every position has one owner, for any length and number of ranks") {
  for (const RowOrder order : kOrders) {
    for (const int ranks : {1, 2, 3, 4, 7}) {
      for (const std::int64_t length : {0, 1, 2, 5, 16, 61}) {
        const Problem problem{{1, 1, 1, length, length, 1}, true, order, ranks};
        std::vector<std::int64_t> all;
        for (int rank = 0; rank < ranks; ++rank) {
          for (const std::int64_t i : positions(queries_of(problem, rank))) all.push_back(i);
        }
        std::sort(all.begin(), all.end());
        CHECK(static_cast<std::int64_t>(all.size()) == length);
        for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == static_cast<std::int64_t>(i));
      }
    }
  }
}

TEST_CASE("visible_parts() covers exactly the pairs that the mask leaves, once each") {
  for (const RowOrder order : kOrders) {
    for (const bool causal : {false, true}) {
      for (const auto& [length_q, length_k] :
           {std::pair{13, 13}, {5, 17}, {17, 5}, {1, 9}, {9, 1}, {3, 40}}) {
        for (const int ranks : {1, 2, 3, 4}) {
          const Problem problem{{1, 1, 1, length_q, length_k, 1}, causal, order, ranks};
          std::int64_t pairs = 0, wrong = 0;
          for (int rank = 0; rank < ranks; ++rank) {
            for (int owner = 0; owner < ranks; ++owner) {
              const auto queries = queries_of(problem, rank), keys = keys_of(problem, owner);
              const auto q = positions(queries), k = positions(keys);
              Matrix<int> times = Matrix<int>::Zero(rows(queries), rows(keys));
              for (const Part& part : visible_parts(problem, queries, keys)) {
                for (std::int64_t i = part.queries.begin; i < part.queries.end; ++i) {
                  const std::int64_t seen = part.causal ? i - part.queries.begin + 1 +
                                                              part.keys.size() - part.queries.size()
                                                        : part.keys.size();
                  for (std::int64_t j = 0; j < seen; ++j) ++times(i, part.keys.begin + j);
                }
              }
              for (std::int64_t i = 0; i < times.rows(); ++i) {
                for (std::int64_t j = 0; j < times.cols(); ++j) {
                  const bool sees =
                      !causal || k[static_cast<std::size_t>(j)] <=
                                     q[static_cast<std::size_t>(i)] + length_k - length_q;
                  wrong += times(i, j) != (sees ? 1 : 0);
                }
              }
              CHECK(times.sum() == visible_pairs(problem, queries, keys));
              pairs += times.sum();
            }
          }
          CHECK(wrong == 0);
          const Problem whole{problem.shape, causal, RowOrder::kContiguous, 1};
          CHECK(pairs == visible_pairs(whole, queries_of(whole, 0), keys_of(whole, 0)));
        }
      }
    }
  }
}

TEST_CASE("in zig-zag order a rank computes one problem in each step, when lengths divide") {
  for (const int ranks : {1, 2, 4}) {
    const Problem problem{{1, 1, 1, 64, 64, 1}, true, RowOrder::kZigZag, ranks};
    for (int rank = 0; rank < ranks; ++rank) {
      for (int owner = 0; owner < ranks; ++owner) {
        const auto parts =
            visible_parts(problem, queries_of(problem, rank), keys_of(problem, owner));
        REQUIRE(parts.size() == 1);
        CHECK(parts[0].causal == (owner == rank));
      }
    }
  }
}

TEST_CASE(
    "zig-zag gives all ranks the same work, at every step; contiguous nearly twice the mean") {
  for (const int ranks : {2, 4, 8}) {
    const AttentionShape shape{1, 1, 1, 512, 512, 1};
    const Problem zigzag{shape, true, RowOrder::kZigZag, ranks};
    const auto of_rank = [&](const Problem& problem, int rank) {
      return counts_of(problem, Method::kOverlap, rank).pairs;
    };
    for (int rank = 1; rank < ranks; ++rank) CHECK(of_rank(zigzag, rank) == of_rank(zigzag, 0));
    CHECK(pairs_in_step(zigzag) == of_rank(zigzag, 0));
    const Problem contiguous{shape, true, RowOrder::kContiguous, ranks};
    const double mean = 512.0 * 513 / 2 / ranks;
    CHECK(static_cast<double>(of_rank(contiguous, ranks - 1)) / mean ==
          doctest::Approx(2 - 1.0 / ranks).epsilon(0.01));
  }
}

TEST_CASE("simulated ranks give the result of lesson 01, forward and backward") {
  for (const RowOrder order : kOrders) {
    for (const bool causal : {false, true}) {
      for (const auto& [length_q, length_k] : {std::pair{23, 23}, {7, 30}, {30, 7}, {2, 2}}) {
        const AttentionShape s{2, 4, 2, length_q, length_k, 3};
        const Problem problem{s, causal, order, 3};
        const auto q = normal_tensor<double, 4>({2, 4, length_q, 3}, 1),
                   k = normal_tensor<double, 4>({2, 2, length_k, 3}, 2),
                   v = normal_tensor<double, 4>({2, 2, length_k, 3}, 3),
                   d_o = normal_tensor<double, 4>({2, 4, length_q, 3}, 4);
        AttentionOptions options;
        options.causal = causal;
        const auto ref = naive::forward<double>(q, k, v, options);
        const auto gradients = naive::backward<double>(q, k, v, d_o, options);
        std::vector<Block<double>> blocks, d_blocks;
        for (int owner = 0; owner < 3; ++owner) {
          blocks.push_back(empty_block<double>(problem, owner));
          d_blocks.push_back(blocks.back());
          copy(rows_of(k, keys_of(problem, owner)).view(), blocks.back().view().at(0));
          copy(rows_of(v, keys_of(problem, owner)).view(), blocks.back().view().at(1));
        }
        double worst = 0;
        const auto compare = [&](View<const double, 4> out, View<const double, 4> expected,
                                 const Ranges& ranges) {
          const auto right = rows_of(expected, ranges);
          if (right.count() == 0) return;
          const Distance error = distance<double, 4>(out, right.view());
          CHECK(error.invalid == 0);
          worst = std::max(worst, error.max_error);
        };
        for (int rank = 0; rank < 3; ++rank) {
          const Ranges queries = queries_of(problem, rank);
          const auto own_q = rows_of(q, queries), own_d_o = rows_of(d_o, queries);
          States<double> states(own_q.shape());
          for (int step = 0; step < 3; ++step) {
            const int owner = owner_at(rank, step, 3);
            attend<double>(problem, queries, own_q, keys_of(problem, owner),
                           blocks[static_cast<std::size_t>(owner)], states);
          }
          const auto out = states.result();
          compare(out.o, ref.o, queries);
          Tensor<double, 4> d_q(own_q.shape());
          const Saved<double> saved{own_q.view(), out.o.view(), own_d_o.view(), out.lse.view()};
          for (int owner = 0; owner < 3; ++owner) {
            const auto index = static_cast<std::size_t>(owner);
            add_gradients<double>(problem, queries, saved, keys_of(problem, owner), blocks[index],
                                  d_q, d_blocks[index]);
          }
          compare(d_q, gradients.d_q, queries);
        }
        for (int owner = 0; owner < 3; ++owner) {
          const auto& d_block = d_blocks[static_cast<std::size_t>(owner)];
          compare(d_block.view().at(0), gradients.d_k, keys_of(problem, owner));
          compare(d_block.view().at(1), gradients.d_v, keys_of(problem, owner));
        }
        CHECK(worst < 1e-13);
      }
    }
  }
}

TEST_CASE("the model's limits: one GPU is itself, infinite links leave balance alone") {
  const AttentionShape shape{1, 16, 16, 65536, 65536, 128};
  Machine machine;
  CHECK(predicted_seconds({shape, false, RowOrder::kContiguous, 1}, Method::kRing, false,
                          machine) == doctest::Approx(4.0 * 16 * 65536 * 65536 * 128 / 989e12));
  machine.link = 1e12;
  for (const bool backward : {false, true}) {
    const auto efficiency = [&](Method method, bool causal) {
      return predicted_efficiency(shape, causal, 4, method, backward, machine);
    };
    for (const Method method : kMethods) {
      CHECK(efficiency(method, false) == doctest::Approx(1).epsilon(0.001));
    }
    CHECK(efficiency(Method::kZigZag, true) == doctest::Approx(1).epsilon(0.001));
    CHECK(efficiency(Method::kOverlap, true) == doctest::Approx(1 / (2 - 1.0 / 4)).epsilon(0.001));
  }
}

TEST_CASE("the last shift, of rounded dK and dV, is never hidden") {
  const AttentionShape shape{1, 16, 16, 131072, 131072, 128};
  const Machine machine;
  const double one =
      predicted_seconds({shape, false, RowOrder::kContiguous, 1}, Method::kOverlap, true, machine);
  const double bytes = 2.0 * 2 * 16 * 65536 * 128;
  CHECK(predicted_seconds({shape, false, RowOrder::kContiguous, 2}, Method::kOverlap, true,
                          machine) == doctest::Approx(one / 2 + bytes / 450e9).epsilon(1e-9));
}

TEST_CASE("transfers under compute are free until they take longer than it") {
  const AttentionShape shape{1, 16, 16, 1 << 20, 1 << 20, 128};
  const Machine machine;
  const double overlap = predicted_efficiency(shape, false, 8, Method::kOverlap, false, machine);
  CHECK(overlap == doctest::Approx(1).epsilon(1e-6));
  CHECK(predicted_efficiency(shape, false, 8, Method::kRing, false, machine) < overlap);
  AttentionShape small = shape;
  small.length_q = small.length_k = 4096;
  CHECK(predicted_efficiency(small, false, 8, Method::kOverlap, false, machine) < 0.5);
}
