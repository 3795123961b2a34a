#include "06_flash_backward/ring/ranks.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <tuple>
#include <unistd.h>

#include "06_flash_backward/ring/01_all_gather.hpp"
#include "06_flash_backward/ring/02_ring.hpp"
#include "06_flash_backward/ring/03_overlap.hpp"
#include "06_flash_backward/ring/04_heads.hpp"
#include "common/check/acceptance.hpp"
#include "common/tensor/random.hpp"

namespace fa::ring {
namespace {

// A number that differs between two builds: FNV-1a of the program's file.
std::int64_t build_number() {
  std::uint64_t hash = 0xcbf29ce484222325u;
  std::ifstream file("/proc/self/exe", std::ios::binary);
  for (char c = 0; file.get(c);) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<std::int64_t>(hash);
}

std::int64_t number_of(const std::string& words) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : words) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<std::int64_t>(hash >> 16);
}

// The whole problem, the same on every rank.
template <class T>
struct Whole {
  Tensor<T, 4> q, k, v, d_o;
};

template <class T>
Whole<T> whole_of(const AttentionShape& s) {
  const auto make = [&](std::int64_t heads, std::int64_t length, std::uint64_t seed) {
    return converted<T>(normal_tensor<float, 4>({s.batch, heads, length, s.head_dim}, seed));
  };
  return {make(s.heads, s.length_q, 1), make(s.kv_heads, s.length_k, 2),
          make(s.kv_heads, s.length_k, 3), make(s.heads, s.length_q, 4)};
}

template <class T>
Rank<T> rank_of(Comm& comm, const Problem& problem, const Whole<T>& whole) {
  const AttentionShape& s = problem.shape;
  const Ranges queries = queries_of(problem, comm.rank()), keys = keys_of(problem, comm.rank());
  const Shape<4> of_q{s.batch, s.heads, rows(queries), s.head_dim};
  Rank<T> rank{comm, problem, Tensor<T, 4>(of_q), empty_block<T>(problem, comm.rank()),
               Tensor<T, 4>(of_q)};
  take_rows<T>(whole.q, queries, rank.q);
  take_rows<T>(whole.d_o, queries, rank.d_o);
  take_rows<T>(whole.k, keys, rank.kv.view().at(0));
  take_rows<T>(whole.v, keys, rank.kv.view().at(1));
  return rank;
}

// A whole tensor from the rows of all ranks.
template <class T>
Tensor<T, 4> collected(Comm& comm, View<const T, 4> own, std::int64_t length,
                       const std::vector<Ranges>& of_ranks) {
  const Shape<4> shape{own.size(0), own.size(1), length, own.size(3)};
  Tensor<T, 4> whole(shape);
  poison(whole.view());  // a position that no rank owns fails every check
  std::vector<std::int64_t> counts;
  for (const Ranges& ranges : of_ranks) {
    counts.push_back(shape[0] * shape[1] * rows(ranges) * shape[3]);
  }
  const Tensor<T, 4> dense = converted<T>(own);
  const auto all = comm.all_gather(dense.data(), counts, "the results of the other ranks");
  std::int64_t next = 0;
  for (std::size_t r = 0; r < of_ranks.size(); ++r) {
    const View<const T, 4> part(all.data() + next,
                                {shape[0], shape[1], rows(of_ranks[r]), shape[3]});
    put_rows<T>(part, of_ranks[r], whole.view());
    next += counts[r];
  }
  return whole;
}

// What lesson 01 says of a problem: in float64, and in the ranks' own type.
template <class T>
struct Expected {
  naive::Forward<double> ref;
  naive::Gradients<double> ref_gradients;
  naive::Forward<T> plain;
  naive::Gradients<T> plain_gradients;
  double magnitude = 0;  // of the terms of dQ and dK, which may cancel
};

template <class T>
double largest_of(const Tensor<T, 4>& x) {
  return static_cast<double>(
      as_matrix(View<const T, 2>(x.data(), {x.count(), 1})).cwiseAbs().maxCoeff());
}

// scale max|dP| max(|Q|, |K|)
template <class T>
double magnitude_of(const Whole<T>& x) {
  const std::int64_t heads = x.q.size(1), group = heads / x.k.size(1);
  T d_p = 0;
  for_each_index(Shape<2>{x.q.size(0), heads}, [&](const auto& i) {
    const Matrix<T> of_head = as_matrix(x.d_o.view().at(i[0]).at(i[1])) *
                              as_matrix(x.v.view().at(i[0]).at(i[1] / group)).transpose();
    d_p = std::max(d_p, of_head.cwiseAbs().maxCoeff());
  });
  return AttentionOptions{}.scale_for(x.q.size(3)) * static_cast<double>(d_p) *
         std::max(largest_of(x.q), largest_of(x.k));
}

template <class T>
Expected<T> expected_of(const Whole<T>& x, bool causal) {
  AttentionOptions options;
  options.causal = causal;
  const auto q = converted<double>(x.q), k = converted<double>(x.k), v = converted<double>(x.v),
             d_o = converted<double>(x.d_o);
  return {naive::forward<double>(q, k, v, options), naive::backward<double>(q, k, v, d_o, options),
          naive::forward<T>(x.q, x.k, x.v, options),
          naive::backward<T>(x.q, x.k, x.v, x.d_o, options), magnitude_of(x)};
}

// The largest error / limit of the tensors of a run.
class Worst {
 public:
  Worst(cli::Program& program, const AttentionShape& shape) : program_(program), shape_(shape) {}

  template <class T, int Rank>
  void add(const char* what, const Tensor<T, Rank>& out, const Tensor<double, Rank>& ref,
           const Tensor<T, Rank>& plain, double factor, double magnitude = 0) {
    const bool gradient = factor == kGradientFactor;
    if constexpr (std::is_same_v<T, double>) {
      // Lesson 01 in float64 has no error by the rule: both are rounded for each term of a sum.
      const Distance error = distance<T, Rank>(out.view(), ref.view());
      const auto terms = static_cast<double>(shape_.head_dim + shape_.length_k +
                                             (gradient ? shape_.heads * shape_.length_q : 0));
      const double limit = 4 * terms * epsilon<double>() * std::max(1.0, error.max_reference);
      note(error.invalid > 0 ? kNever : error.max_error / limit);
    } else {
      const Verdict verdict = accept(what, out, ref, plain, factor, magnitude);
      if (!verdict.accepted) program_.detail(verdict.report() + "\n");
      note(verdict.error.invalid > 0 ? kNever
                                     : std::max(verdict.error.max_error / verdict.allowed_max,
                                                verdict.error.rms_error / verdict.allowed_rms));
    }
  }
  double value() const { return value_; }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  void note(double ratio) { value_ = std::max(value_, ratio); }
  cli::Program& program_;
  AttentionShape shape_;
  double value_ = 0;
};

template <class T>
struct Results {
  naive::Forward<T> forward;
  RankGradients<T> gradients;
  Arrived in_forward, in_backward;
};

template <class T>
Results<T> computed(Rank<T>& rank, Method method) {
  Results<T> results;
  by_heads::Kept<T> kept;
  rank.comm.take_arrived();
  switch (method) {
    case Method::kAllGather:
      results.forward = all_gather::forward(rank);
      break;
    case Method::kRing:
      results.forward = blocking::forward(rank);
      break;
    case Method::kOverlap:
    case Method::kZigZag:
      results.forward = overlap::forward(rank);
      break;
    case Method::kHeads:
      results.forward = by_heads::forward(rank, kept);
      break;
  }
  results.in_forward = rank.comm.take_arrived();
  switch (method) {
    case Method::kAllGather:
      results.gradients = all_gather::backward(rank, results.forward);
      break;
    case Method::kRing:
      results.gradients = blocking::backward(rank, results.forward);
      break;
    case Method::kOverlap:
    case Method::kZigZag:
      results.gradients = overlap::backward(rank, results.forward);
      break;
    case Method::kHeads:
      results.gradients = by_heads::backward(rank, kept);
      break;
  }
  results.in_backward = rank.comm.take_arrived();
  return results;
}

// How many of a rank's counts differ from those that follow from the layout, over all ranks.
template <class T>
std::int64_t unexpected_counts(const Rank<T>& rank, const Results<T>& results, Method method) {
  const RankCounts counts = counts_of(rank.problem, method, rank.comm.rank());
  constexpr std::int64_t kBytes = sizeof(T);
  const std::int64_t own = (results.in_forward.bytes != counts.forward_elements * kBytes) +
                           (results.in_forward.messages != counts.forward_messages) +
                           (results.in_backward.bytes != counts.backward_elements * kBytes) +
                           (results.in_backward.messages != counts.backward_messages) +
                           (rank.most_stored != counts.stored * kBytes);
  const std::vector<std::int64_t> one(static_cast<std::size_t>(rank.comm.size()), 1);
  std::int64_t sum = 0;
  for (const std::int64_t count : rank.comm.all_gather(&own, one, "counts")) sum += count;
  return sum;
}

template <class T>
void check_method(cli::Program& program, Comm& comm, const Problem& problem, Method method,
                  const Whole<T>& whole, const Expected<T>& expected) {
  Rank<T> rank = rank_of(comm, problem, whole);
  const Results<T> results = computed(rank, method);
  std::vector<Ranges> queries, keys;
  for (int r = 0; r < comm.size(); ++r) {
    queries.push_back(queries_of(problem, r));
    keys.push_back(keys_of(problem, r));
  }
  const AttentionShape& s = problem.shape;
  const auto of_queries = [&](View<const T, 4> x) {
    return collected(comm, x, s.length_q, queries);
  };
  const auto of_keys = [&](int which) {
    return collected<T>(comm, results.gradients.d_kv.view().at(which), s.length_k, keys);
  };
  const auto o = of_queries(results.forward.o);
  const auto column = of_queries(by_heads::with_column(results.forward.lse));
  Tensor<T, 3> lse({s.batch, s.heads, s.length_q});
  std::copy_n(column.data(), column.count(), lse.data());
  const auto d_q = of_queries(results.gradients.d_q), d_k = of_keys(0), d_v = of_keys(1);
  const std::int64_t unexpected = unexpected_counts(rank, results, method);
  if (comm.rank() != 0) return;
  Worst worst(program, s);
  worst.add("o", o, expected.ref.o, expected.plain.o, kForwardFactor);
  worst.add("d_q", d_q, expected.ref_gradients.d_q, expected.plain_gradients.d_q, kGradientFactor,
            expected.magnitude);
  worst.add("d_k", d_k, expected.ref_gradients.d_k, expected.plain_gradients.d_k, kGradientFactor,
            expected.magnitude);
  worst.add("d_v", d_v, expected.ref_gradients.d_v, expected.plain_gradients.d_v, kGradientFactor);
  worst.add("lse", lse, expected.ref.lse, expected.plain.lse, kForwardFactor);
  const auto name = fmt::format("{}, {}, {}", name_of(method), FloatTraits<T>::name,
                                problem.causal ? "causal" : "full");
  program.check(name + ": error / limit", worst.value(), 1);
  program.check_none(name + ": bytes and messages", unexpected, "unexpected count");
}

template <class T>
void check_type(cli::Program& program, Comm& comm, const Choice& choice) {
  if (choice.type != "all" && choice.type != FloatTraits<T>::name) return;
  const auto whole = whole_of<T>(choice.shape);
  for (const bool causal : {false, true}) {
    if (choice.mask == (causal ? "full" : "causal")) continue;
    std::optional<Expected<T>> expected;
    if (comm.rank() == 0) expected = expected_of(whole, causal);
    for (const Method method : methods_of(choice)) {
      const Problem problem{choice.shape, causal, order_of(method), comm.size()};
      check_method(program, comm, problem, method, whole, expected ? *expected : Expected<T>{});
    }
  }
}

}  // namespace

bool has_mpi() {
  return true;
}

bool is_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

struct RankSession::State {
  Comm comm{"ring_attention", 10};
  int standard_error = -1;  // kept while the command line is read
  bool same_arguments = true, ran = false;
};

RankSession::RankSession(int& argc, char**& argv) {
  MPI_Init(&argc, &argv);
  state_ = std::make_unique<State>();
  Comm& comm = state_->comm;
  std::string words;
  for (int i = 1; i < argc; ++i) words += std::string(argv[i]) + '\n';
  const std::int64_t own = number_of(words);
  const std::vector<std::int64_t> one(static_cast<std::size_t>(comm.size()), 1);
  for (const std::int64_t other : comm.all_gather(&own, one, "the command line")) {
    state_->same_arguments = state_->same_arguments && other == own;
  }
  if (comm.rank() == 0) return;
  const bool quiet = std::freopen("/dev/null", "w", stdout) != nullptr;
  if (quiet && state_->same_arguments) {  // rank 0 says the same about them
    state_->standard_error = dup(STDERR_FILENO);
    dup2(STDOUT_FILENO, STDERR_FILENO);
  }
}

RankSession::~RankSession() = default;

void RankSession::run(cli::Program& program, const Choice& choice) {
  state_->ran = true;
  if (state_->standard_error >= 0) dup2(state_->standard_error, STDERR_FILENO);
  Comm& comm = state_->comm;
  comm.set_limit(static_cast<double>(choice.timeout));
  const AttentionShape& s = choice.shape;
  comm.agree({{"build", build_number(), false}});
  comm.agree({{"batch", s.batch},
              {"heads", s.heads},
              {"kv_heads", s.kv_heads},
              {"length_q", s.length_q},
              {"length_k", s.length_k},
              {"head_dim", s.head_dim},
              {"method", number_of(choice.method), false},
              {"type", number_of(choice.type), false},
              {"mask", number_of(choice.mask), false}});
  try {
    attention_shape({s.batch, s.heads, s.length_q, s.head_dim},
                    {s.batch, s.kv_heads, s.length_k, s.head_dim},
                    {s.batch, s.kv_heads, s.length_k, s.head_dim});
  } catch (const std::invalid_argument& error) {
    comm.fail_together(error.what());
  }
  try {
    // For tests: RING_FAULT=2:kill makes rank 2 end.
    const std::string fault = std::getenv("RING_FAULT") ? std::getenv("RING_FAULT") : "";
    const std::string of_rank = fmt::format("{}:", comm.rank());
    if (fault.rfind(of_rank, 0) == 0) comm.set_fault(fault.substr(of_rank.size()));
    program.detail(fmt::format("{} ranks, {} queries, {} keys, {} heads, {} of keys\n", comm.size(),
                               s.length_q, s.length_k, s.heads, s.kv_heads));
    check_type<float>(program, comm, choice);
    check_type<double>(program, comm, choice);
    comm.barrier();
  } catch (const std::exception& error) {
    comm.fail(fmt::format("rank {}: {}", comm.rank(), error.what()));
  }
}

int RankSession::finish(int status) {
  if (!state_->ran && status != cli::kSuccess && !state_->same_arguments) {
    MPI_Abort(MPI_COMM_WORLD, status);  // the message has been printed
  }
  MPI_Finalize();
  return status;
}

}  // namespace fa::ring
