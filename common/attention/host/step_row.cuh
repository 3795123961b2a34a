/// @file
/// The row with which a numbered file ends: what its kernel supports and needs, its tiles, and the
/// way from host tensors to a launch. Compiled once for each backend: see common/gpu/target.hpp.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "common/attention/attention.cuh"
#include "common/attention/host/device_tensor.cuh"
#include "common/attention/host/step.hpp"
#include "common/attention/shape.hpp"
#include "common/gpu/backend.cuh"

namespace fa::FA_TARGET {
namespace {  // source files for one backend include this

using attention::Inputs;
using attention::Problem;
using attention::Tiles;
using attention::Type;

// The largest of some head dimensions.
template <int first, int... others>
constexpr int largest(HeadDims<first, others...>) {
  int most = first;
  ((most = others > most ? others : most), ...);
  return most;
}
template <int... d, class Work>
auto with_one_of(HeadDims<d...>, std::int64_t head_dim, Work work) {
  return with_head_dim<d...>(head_dim, work);
}

// Memory that a step needs beside its tensors: count(a, d) elements, 0 or poisoned.
template <class T, bool zeros, class Count>
struct Array {
  Count count;
  template <class A, class D>
  DeviceBuffer<T> operator()(A& a, D d) const {
    DeviceBuffer<T> buffer(count(a, d));
    if (zeros) buffer.zero();
    return buffer;
  }
};

// The workspace of a backward pass, what(a, d), to which `a` has pointers.
template <class What>
struct Workspaces {
  What what;
  template <class A, class D>
  DeviceBuffer<float> operator()(A& a, D d) const {
    const auto needed = what(a, d);
    DeviceBuffer<float> buffer(workspace_floats(a, needed));
    set_workspace(a, buffer.data(), needed);
    return buffer;
  }
};
struct NoWorkspace {
  template <class A, class D>
  int operator()(A&, D) const {
    return 0;
  }
};

// Of half and bfloat16 the watched lab has the first: kernels make the same accesses for both, and
// take long to compile.
template <class First, class... Others>
constexpr bool kHasOthers = sizeof...(Others) > 0 && !(kWatched && sizeof(First) == 2);

// Calls work(ElementType<T>{}) with the kernels' type that is meant, one of those given.
template <class First, class... Others, class Work>
auto with_device_type(Type type, Work work) {
  if constexpr (kHasOthers<First, Others...>) {
    if (type != ElementType<First>::type) return with_device_type<Others...>(type, work);
  }
  return work(ElementType<First>{});
}

// A row: what a step is called, supports and needs, and at the end how it is launched.
// OnDevice<T> has the tensors of a problem in memory of the device, `a`, and their result().
// Memory: a tuple of arrays, to which launches are given pointers. Drawn: HeadDims of the timeline.
// only_drawn: the kernel is compiled for the first type and for Drawn alone; without Drawn, not at
// all.
template <class LadderStep, template <class> class OnDevice, bool only_drawn, class Dims,
          class Drawn, class Memory, class Space, class... Ts>
class StepRow {
  template <class NewDims, class NewDrawn, class NewMemory, class NewSpace>
  using Row =
      StepRow<LadderStep, OnDevice, only_drawn, NewDims, NewDrawn, NewMemory, NewSpace, Ts...>;

 public:
  StepRow(LadderStep step, Memory memory, Space space)
      : step_(std::move(step)), memory_(memory), space_(space) {}

  // The head dimensions that the kernel is compiled for; it takes smaller ones, too.
  template <int... d>
  auto head_dims(HeadDims<d...> dims) const {
    LadderStep step = step_;
    step.max_head_dim = largest(dims);
    return Row<HeadDims<d...>, Drawn, Memory, Space>(std::move(step), memory_, space_);
  }
  // Head dimensions from the first multiple of 8 that is not less.
  StepRow from(std::int64_t head_dim) const {
    return changed([=](LadderStep& step) { step.min_head_dim = (head_dim + 7) / 8 * 8; });
  }
  StepRow mla() const {
    return changed([](LadderStep& step) { step.supports_mla = true; });
  }
  StepRow no_dropout() const {
    return changed([](LadderStep& step) { step.supports_dropout = false; });
  }
  // Not every run gives the same bits.
  StepRow any_order() const {
    return changed([](LadderStep& step) { step.deterministic = false; });
  }
  StepRow slow() const {
    return changed([](LadderStep& step) { step.slow = true; });
  }
  // See StepInfo.
  StepRow without_functor(const char* name) const {
    return changed([=](LadderStep& step) { step.without_functor = name; });
  }
  StepRow needs(const Needs& needs) const {
    return changed([&](LadderStep& step) { step.needs = needs; });
  }
  // Hopper's instructions; its kernels have no dropout.
  StepRow hopper() const { return needs(kNeedsHopper).no_dropout(); }

  // The kernel reads lengths of keys from the memory of the device.
  StepRow lengths() const {
    return changed([](LadderStep& step) { step.supports_lengths = true; });
  }
  // @{ What the step allocates, reads and writes for one head: value(n, d), see StepInfo.
  template <class Value>
  StepRow memory_is(const char* formula, Value value) const {
    return changed([=](LadderStep& step) { step.memory = {formula, value}; });
  }
  template <class Value>
  StepRow reads(const char* formula, Value value) const {
    return changed([=](LadderStep& step) { step.reads = {formula, value}; });
  }
  template <class Value>
  StepRow writes(const char* formula, Value value) const {
    return changed([=](LadderStep& step) { step.writes = {formula, value}; });
  }
  // @}

  // @{ What a block computes at once, for each form of tiles: a tile of queries, over the keys; a
  // tile of keys, over the queries; or both, in kernels of two loops. With the stages of a loop in
  // shared memory.
  template <class Tile>
  StepRow over_keys(Tile, int stages) const {
    return tile(Tile::block_m, Tile::block_n, 0, stages, Tile::d, columns_v<Tile>(0));
  }
  template <class Tile>
  StepRow over_queries(Tile, int stages) const {
    return over_both(Tile{}, stages, 0);
  }
  template <class Tile>
  StepRow over_both(Tile, int query_stages, int key_stages) const {
    return tile(Tile::block_m, Tile::block_n, query_stages, key_stages, Tile::d,
                columns_v<Tile>(0));
  }
  StepRow tile(int queries, int keys, int query_stages, int key_stages, int head_dim = 64,
               int head_dim_v = 0) const {
    return changed([=](LadderStep& step) {
      Tiles tiles{queries, keys, query_stages, key_stages, head_dim};
      if (head_dim_v != 0 && head_dim_v != head_dim) tiles.head_dim_v = head_dim_v;
      step.tiles.push_back(tiles);
    });
  }
  StepRow persistent() const {
    return changed([](LadderStep& step) {
      for (Tiles& tiles : step.tiles) tiles.persists = true;
    });
  }
  StepRow cluster(int blocks) const {
    return changed([=](LadderStep& step) {
      for (Tiles& tiles : step.tiles) tiles.cluster = blocks;
    });
  }
  // @}
  // Shared memory of a block, where a GPU may lack it: bytes(d) for a head dimension of
  // head_dims().
  template <class Bytes>
  StepRow shared_bytes(Bytes bytes) const {
    return changed([=](LadderStep& step) {
      step.shared_bytes = [=](std::int64_t head_dim) -> std::size_t {
        return with_one_of(Dims{}, head_dim, bytes);
      };
    });
  }
  // A timeline is drawn of one head with these lengths and this head dimension of head_dims().
  template <int d>
  auto timeline(HeadDims<d> drawn, int length_q, int length_k, bool causal = false) const {
    LadderStep step = step_;
    step.drawn = attention::problem_of(Type::kFloat16, {1, 1, 1, length_q, length_k, d}, causal);
    return Row<Dims, decltype(drawn), Memory, Space>(std::move(step), memory_, space_);
  }
  // The order of its copies where it is not that of the others: see StepInfo::tensors.
  StepRow copies(std::initializer_list<const char*> tensors) const {
    return changed([=](LadderStep& step) { step.tensors.assign(tensors.begin(), tensors.end()); });
  }

  // @{ Memory for launches, count(a, d) elements: floats, values of another type, or zeros.
  template <class Count>
  auto floats(Count count) const {
    return array(float{}, count);
  }
  template <class T, class Count>
  auto array(T, Count count) const {
    return with(Array<T, false, Count>{count});
  }
  template <class Count>
  auto zeros(Count count) const {
    return with(Array<unsigned, true, Count>{count});
  }
  auto tile_counter() const {
    return zeros([](auto&, auto) { return 1; });
  }
  // What `a` is given pointers to: what(a, d) is a Workspace.
  template <class What>
  auto workspace(What what) const {
    return Row<Dims, Drawn, Memory, Workspaces<What>>(step_, memory_, {what});
  }
  // @}

  // The step: launch_kernels(a, d, stream, pointers...) launches its kernels, with `a` as of
  // OnDevice, d a HeadDim, and pointers to the memory above.
  template <class Launch>
  LadderStep launch(Launch launch_kernels) const {
    LadderStep step = step_;
    if constexpr (!only_drawn) {
      step.start = start<Ts...>(Dims{}, launch_kernels);
    } else if constexpr (!std::is_same_v<Drawn, HeadDims<>>) {
      step.start = first_type<Ts...>(launch_kernels);
    }
    return step;
  }

 private:
  template <class First, class... Others, class Launch>
  auto first_type(Launch launch_kernels) const {
    return start<First>(Drawn{}, launch_kernels);
  }
  template <class... Types, class DimsOf, class Launch>
  auto start(DimsOf dims, Launch launch_kernels) const {
    return [=, row = *this](const Problem& problem, const auto& given) {
      return with_device_type<Types...>(problem.type, [&](auto tag) {
        using T = typename decltype(tag)::device;
        const auto device = std::make_shared<OnDevice<T>>(problem, given);
        return with_one_of(dims, problem.shape.head_dim, [&](auto d) {
          constexpr int columns = decltype(d)::value;
          if constexpr (columns == kMlaHeadDim) {
            if (is_mla(problem.shape.head_dim, problem.columns_v())) {
              return row.prepared(HeadDim<columns, kMlaHeadDimV>{}, device, launch_kernels);
            }
          }
          return row.prepared(HeadDim<columns>{}, device, launch_kernels);
        });
      });
    };
  }
  template <class Change>
  StepRow changed(Change change) const {
    StepRow row = *this;
    change(row.step_);
    return row;
  }
  // @{ Columns of V that a tile is compiled for; 0 where it has none of its own.
  template <class Tile>
  static constexpr auto columns_v(int) -> decltype(int{Tile::columns_v}) {
    return Tile::columns_v;
  }
  template <class Tile>
  static constexpr int columns_v(...) {
    return 0;
  }
  // @}
  template <class D, class Device, class Launch>
  typename LadderStep::Prepared prepared(D d, const std::shared_ptr<Device>& device,
                                         Launch launch_kernels) const {
    const std::int64_t before = taken_bytes();
    const auto space = std::make_shared<decltype(space_(device->a, d))>(space_(device->a, d));
    auto memory = std::apply(
        [&](auto... arrays) {
          return std::make_tuple(
              std::make_shared<decltype(arrays(device->a, d))>(arrays(device->a, d))...);
        },
        memory_);
    return {[=] {
              (void)space;  // device->a points to it
              const Stream stream = Stream::of(nullptr);
              std::apply(
                  [&](const auto&... arrays) {
                    launch_kernels(device->a, d, stream, arrays->data()...);
                  },
                  memory);
            },
            [=] { return device->result(); }, taken_bytes() - before};
  }
  template <class NewArray>
  auto with(NewArray array) const {
    const auto memory = std::tuple_cat(memory_, std::make_tuple(array));
    return Row<Dims, Drawn, std::remove_const_t<decltype(memory)>, Space>(step_, memory, space_);
  }

  LadderStep step_;
  Memory memory_;
  Space space_;
};

template <class First, class... Others>
void add_types(std::vector<Type>& types) {
  types.push_back(ElementType<First>::type);
  if constexpr (kHasOthers<First, Others...>) add_types<Others...>(types);
}

// What a numbered file is given to make its row: row(name of the file, idea, elements of the types
// that it takes...).
template <class LadderStep, template <class> class OnDevice, bool only_drawn = false>
struct RowMaker {
  template <class... Ts>
  auto operator()(const char* name, const char* idea, Ts...) const {
    LadderStep step;
    step.name = name;
    step.idea = idea;
    add_types<Ts...>(step.types);
    step.max_head_dim = 256;
    return StepRow<LadderStep, OnDevice, only_drawn, HeadDims<256>, HeadDims<>, std::tuple<>,
                   NoWorkspace, Ts...>(std::move(step), {}, {});
  }
};

// The ladder of steps 1 to `steps`: what make(number) gives for each, a std::integral_constant.
template <class Make, int... before>
auto ladder_of(std::integer_sequence<int, before...>, Make make) {
  return std::vector{make(std::integral_constant<int, before + 1>{})...};
}
template <int steps, class Make>
auto ladder_of(Make make) {
  return ladder_of(std::make_integer_sequence<int, steps>{}, make);
}
// The steps with a timeline, compiled for what is drawn: make(number, row maker).
template <class LadderStep, template <class> class OnDevice, int steps, class Make>
std::vector<LadderStep> drawn_ladder(Make make) {
  std::vector<LadderStep> drawn = ladder_of<steps>([&](auto number) -> LadderStep {
    return make(number, RowMaker<LadderStep, OnDevice, true>{});
  });
  drawn.erase(std::remove_if(drawn.begin(), drawn.end(), [](auto& one) { return !one.start; }),
              drawn.end());
  return drawn;
}

// A lesson's backend with a ladder, of which it keeps what the device can run.
template <class Backend, class LadderStep>
Backend backend_with(const std::string& kind, std::vector<LadderStep> ladder) {
  Backend backend{};
  static_cast<BackendBase&>(backend) = backend_base(kind);
  backend.steps = std::move(ladder);
  if (backend.available) {
    backend.left_out = attention::fit_ladder(backend.steps, backend.properties);
  }
  return backend;
}

}  // namespace
}  // namespace fa::FA_TARGET
