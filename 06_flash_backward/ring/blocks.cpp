#include "06_flash_backward/ring/blocks.hpp"

#include "03_online_softmax/tiled.hpp"
#include "06_flash_backward/src/derivation/tiled.hpp"

namespace fa::ring {
namespace {

template <class T, int Rank>
void add(const Tensor<T, Rank>& from, View<T, Rank> to) {
  for_each_index(from.shape(), [&](const Shape<Rank>& i) { to[i] += from.view()[i]; });
}

AttentionOptions options_of(const Part& part) {
  AttentionOptions options;
  options.causal = part.causal;
  return options;
}

}  // namespace

template <class T>
States<T>::States(const Shape<4>& shape)
    : shape_(shape),
      of_rows_(static_cast<std::size_t>(shape[0] * shape[1] * shape[2]),
               online::empty_row_state<T>(shape[3])) {}

template <class T>
void States<T>::merge(const naive::Forward<T>& part, std::int64_t row) {
  for_each_index(part.lse.shape(), [&](const Shape<3>& i) {
    const auto index = (i[0] * shape_[1] + i[1]) * shape_[2] + row + i[2];
    auto& state = of_rows_[static_cast<std::size_t>(index)];
    //! [merge]
    const T lse = part.lse.view()[i];
    const auto o = as_matrix(part.o.view().at(i[0]).at(i[1])).row(i[2]);
    // A normalised O with its LSE is a state: m = LSE and l = 1.
    const T l = lse == online::BaseE<T>::neg_inf ? T(0) : T(1);
    state = online::merge(state, online::RowState<T>{lse, l, o.transpose()});
    //! [merge]
  });
}

template <class T>
naive::Forward<T> States<T>::result() const {
  naive::Forward<T> all{Tensor<T, 4>(shape_), Tensor<T, 3>({shape_[0], shape_[1], shape_[2]})};
  std::size_t index = 0;
  for_each_index(all.lse.shape(), [&](const Shape<3>& i) {
    const online::RowState<T>& state = of_rows_[index++];
    all.lse.view()[i] = online::lse_of(state);
    const T l = state.l == T(0) ? T(1) : state.l;
    as_matrix(all.o.view().at(i[0]).at(i[1])).row(i[2]) = state.o.transpose() / l;
  });
  return all;
}

// clang-format off
//! [attend]
template <class T>
void attend(const Problem& problem, const Ranges& queries, View<const T, 4> q,
            const Ranges& keys, View<const T, 5> kv, States<T>& states) {
  for (const Part& part : visible_parts(problem, queries, keys)) {
    const auto keys_in = [&](int which) {  // 0: K, 1: V
      return kv.at(which).narrow(2, part.keys.begin, part.keys.end);
    };
    const auto o = online::tiled_forward<T>(
        q.narrow(2, part.queries.begin, part.queries.end), keys_in(0),
        keys_in(1), options_of(part));
    states.merge(o, part.queries.begin);
  }
}
//! [attend]
// clang-format on

template <class T>
void add_gradients(const Problem& problem, const Ranges& queries, const Saved<T>& saved,
                   const Ranges& keys, View<const T, 5> kv, View<T, 4> d_q, View<T, 5> d_kv) {
  for (const Part& part : visible_parts(problem, queries, keys)) {
    const auto rows_of = [&](auto view) {
      return view.narrow(2, part.queries.begin, part.queries.end);
    };
    const auto keys_of = [&](auto view) { return view.narrow(2, part.keys.begin, part.keys.end); };
    const auto of_part = backward::tiled_backward<T>(
        rows_of(saved.q), keys_of(kv.at(0)), keys_of(kv.at(1)), rows_of(saved.o),
        rows_of(saved.lse), rows_of(saved.d_o), options_of(part));
    add(of_part.d_q, rows_of(d_q));
    add(of_part.d_k, keys_of(d_kv.at(0)));
    add(of_part.d_v, keys_of(d_kv.at(1)));
  }
}

#define FA_RING_BLOCKS_FOR(T)                                                                   \
  template class States<T>;                                                                     \
  template void attend<T>(const Problem&, const Ranges&, View<const T, 4>, const Ranges&,       \
                          View<const T, 5>, States<T>&);                                        \
  template void add_gradients<T>(const Problem&, const Ranges&, const Saved<T>&, const Ranges&, \
                                 View<const T, 5>, View<T, 4>, View<T, 5>);
FA_RING_BLOCKS_FOR(double)
FA_RING_BLOCKS_FOR(float)

}  // namespace fa::ring
