/// @file
/// The row of a step, read as the main program of ./learn flatten: one problem, compared with plain
/// loops, or timed. In place of step_row.cuh and all that it includes.
#pragma once

#include <tuple>

#include "common/attention/attention.cuh"
#include "common/flatten/host.cuh"

namespace fa::FA_TARGET {
/// @cond of flattened files only

/// Memory of a step: count(a, d) elements.
template <class T, bool zeros, class Count>
struct OneArray {
  Count count;
  template <class A, class D>
  T* operator()(A& a, D d) const {
    return zeros ? device_zeros<T>(count(a, d)) : device_array<T>(count(a, d));
  }
};

/// The workspace of a backward pass: what(a, d).
template <class What>
struct OneWorkspace {
  What what;
  template <class A, class D>
  void operator()(A& a, D d) const {
    const auto needed = what(a, d);
    set_workspace(a, device_array<float>(workspace_floats(a, needed)), needed);
  }
};
struct NoWorkspace {
  template <class A, class D>
  void operator()(A&, D) const {}
};

/// A row for elements of type T and d columns. Of what a row says only types, columns, memory and
/// the launch matter here.
/// @tparam Problem Problem<T>(d, causal, timed) has the tensors `a` and says whether results are
///                 right()
template <template <class> class Problem, class T = float, int d = 64, class Space = NoWorkspace,
          class... Arrays>
class OneRow {
 public:
  bool timed = false;
  Space space{};
  std::tuple<Arrays...> arrays{};

  template <class First, class... Others>
  auto operator()(const char*, const char*, First, Others...) const {
    return OneRow<Problem, First>{timed};
  }
  template <int... dims>
  auto head_dims(HeadDims<dims...>) const {
    constexpr int chosen = first_from_64(HeadDims<dims...>{});
    return OneRow<Problem, T, chosen, Space, Arrays...>{timed, space, arrays};
  }
  template <class Count>
  auto floats(Count count) const {
    return with(OneArray<float, false, Count>{count});
  }
  template <class Count>
  auto zeros(Count count) const {
    return with(OneArray<unsigned, true, Count>{count});
  }
  auto tile_counter() const {
    return zeros([](auto&, auto) { return 1; });
  }
  template <class What>
  auto workspace(What what) const {
    return OneRow<Problem, T, d, OneWorkspace<What>, Arrays...>{timed, {what}, arrays};
  }
  // clang-format off
  template <class... All> OneRow needs(const All&...) const { return *this; }
  template <class... All> OneRow hopper(const All&...) const { return *this; }
  template <class... All> OneRow no_dropout(const All&...) const { return *this; }
  template <class... All> OneRow any_order(const All&...) const { return *this; }
  template <class... All> OneRow mla(const All&...) const { return *this; }
  template <class... All> OneRow from(const All&...) const { return *this; }
  template <class... All> OneRow tile(const All&...) const { return *this; }
  template <class... All> OneRow over_keys(const All&...) const { return *this; }
  template <class... All> OneRow over_queries(const All&...) const { return *this; }
  template <class... All> OneRow over_both(const All&...) const { return *this; }
  template <class... All> OneRow persistent(const All&...) const { return *this; }
  template <class... All> OneRow cluster(const All&...) const { return *this; }
  template <class... All> OneRow shared_bytes(const All&...) const { return *this; }
  template <class... All> OneRow memory_is(const All&...) const { return *this; }
  template <class... All> OneRow reads(const All&...) const { return *this; }
  template <class... All> OneRow writes(const All&...) const { return *this; }
  OneRow slow() const { return *this; }
  OneRow copies(std::initializer_list<const char*>) const { return *this; }
  template <class... All> OneRow timeline(const All&...) const { return *this; }
  // clang-format on

  /// Runs the step without and with the causal mask, and prints how far results are from plain
  /// loops, or milliseconds.
  /// @return whether all are right
  template <class Launch>
  bool launch(Launch launch_step) const {
    bool passed = true;
    for (const bool causal : {false, true}) {
      Problem<T> problem(d, causal, timed);
      space(problem.a, HeadDim<d>{});
      const auto memory = std::apply(
          [&](auto... array) { return std::make_tuple(array(problem.a, HeadDim<d>{})...); },
          arrays);
      const Stream stream;
      const auto run = [&] {
        std::apply([&](auto*... at) { launch_step(problem.a, HeadDim<d>{}, stream, at...); },
                   memory);
      };
      std::printf("%s\n", causal ? "causal mask" : "no mask");
      if (timed) {
        std::printf("%.4f ms\n", milliseconds(run));
      } else {
        run();
        passed = problem.right() && passed;
      }
    }
    return passed;
  }

 private:
  template <int first, int... others>
  static constexpr int first_from_64(HeadDims<first, others...>) {
    if constexpr (first < 64) {
      return first_from_64(HeadDims<others...>{});
    } else {
      return first;
    }
  }
  template <class Array>
  auto with(Array array) const {
    return OneRow<Problem, T, d, Space, Arrays..., Array>{
        timed, space, std::tuple_cat(arrays, std::make_tuple(array))};
  }
};

/// Sizes of a problem: small, with grouped-query attention and lengths that are not multiples of a
/// tile; or to be timed.
struct OneSize {
  int batch, heads, kv_heads, length_q, length_k, d;
  OneSize(int head_dim, bool timed)
      : batch(timed ? 4 : 2),
        heads(timed ? 2048 / head_dim : 4),
        kv_heads(timed ? heads : 2),
        length_q(timed ? 4096 : 130),
        length_k(timed ? 4096 : 203),
        d(head_dim) {}
  std::size_t rows_q() const { return std::size_t{1} * batch * heads * length_q; }
  std::size_t rows_k() const { return std::size_t{1} * batch * kv_heads * length_k; }
  RowStrides strides(int of_heads, int length) const {
    return {std::int64_t{of_heads} * length * d, std::int64_t{length} * d, d};
  }
  /// Everything but pointers.
  template <class T>
  void describe(Attention<T>& a, bool causal) const {
    a.q_strides = a.o_strides = strides(heads, length_q);
    a.k_strides = a.v_strides = strides(kv_heads, length_k);
    a.batch = batch;
    a.heads = heads;
    a.kv_heads = kv_heads;
    a.length_q = length_q;
    a.length_k = length_k;
    a.head_dim = a.head_dim_v = d;
    a.scale = 1 / std::sqrt(static_cast<float>(d));
    a.causal = causal;
  }
};

/// @endcond
}  // namespace fa::FA_TARGET
