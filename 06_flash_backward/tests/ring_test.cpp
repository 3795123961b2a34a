// Ring attention without MPI: layouts, masks, the model, and every form on ranks that are threads.

#include <doctest/doctest.h>

#include "06_flash_backward/ring/cpu_engine.hpp"
#include "06_flash_backward/ring/forms.hpp"

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

}  // namespace

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

TEST_CASE(
    "zig-zag gives all ranks the same work, at every step; contiguous nearly twice the mean") {
  for (const int ranks : {2, 4, 8}) {
    const AttentionShape shape{1, 1, 1, 512, 512, 1};
    const Problem zigzag{shape, true, RowOrder::kZigZag, ranks};
    const auto of_rank = [&](const Problem& problem, int rank) {
      return counts_of(problem, Method::kOverlap, rank).pairs;
    };
    for (int rank = 1; rank < ranks; ++rank) CHECK(of_rank(zigzag, rank) == of_rank(zigzag, 0));
    std::int64_t slowest = 0;  // of each step
    for (int step = 0; step < ranks; ++step) slowest += most_pairs(zigzag, step);
    CHECK(slowest == of_rank(zigzag, 0));
    const Problem contiguous{shape, true, RowOrder::kContiguous, ranks};
    const double mean = 512.0 * 513 / 2 / ranks;
    CHECK(static_cast<double>(of_rank(contiguous, ranks - 1)) / mean ==
          doctest::Approx(2 - 1.0 / ranks).epsilon(0.01));
  }
}

TEST_CASE("every form gives what lesson 01 gives, and receives what the layout says") {
  const AttentionShape shapes[] = {
      {2, 6, 3, 61, 61, 8}, {1, 4, 1, 19, 83, 5}, {1, 2, 2, 83, 19, 16},  // odd lengths, groups
      {1, 2, 1, 3, 2, 4},   {1, 2, 1, 1, 29, 4},  {1, 2, 1, 29, 1, 4},    // ranks without rows
      {1, 4, 4, 64, 64, 8}};
  for (const AttentionShape& shape : shapes) {
    for (const bool causal : {false, true}) {
      const Reference reference(shape, causal, attention::Type::kFloat32);
      for (const int ranks : {1, 2, 3, 4}) {
        for (const Method method : kMethods) {
          const Problem problem{shape, causal, order_of(method), ranks};
          CAPTURE(reference.whole.text());
          CAPTURE(ranks);
          CAPTURE(name_of(method));
          std::vector<Results> all(static_cast<std::size_t>(ranks));
          run_threads(ranks, [&](Comm& comm) {
            CpuEngine engine(comm);
            all[static_cast<std::size_t>(comm.rank())] =
                results_of(comm, engine, problem, method, reference.inputs);
          });
          for (const Verdict& verdict : reference.check(all[0])) {
            INFO(verdict.report());
            CHECK(verdict.accepted);
          }
          for (int rank = 0; rank < ranks; ++rank) {
            const Results& own = all[static_cast<std::size_t>(rank)];
            const RankCounts counts = counts_of(problem, method, rank);
            CHECK(own.in_forward.bytes == 4 * counts.forward_elements);
            CHECK(own.in_forward.messages == counts.forward_messages);
            CHECK(own.in_backward.bytes == 4 * counts.backward_elements);
            CHECK(own.in_backward.messages == counts.backward_messages);
            if (shape.length_k % (2 * ranks) == 0) CHECK(own.stored == counts.stored);
          }
        }
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
