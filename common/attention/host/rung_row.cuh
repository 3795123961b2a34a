/// @file
/// A row of the table of rungs, and the way from host tensors to a launch. Compiled once for each
/// backend: see common/gpu/target.hpp.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/attention/head_dim.cuh"
#include "common/attention/host/device_tensor.cuh"
#include "common/attention/host/rung.hpp"
#include "common/attention/tma_support.cuh"
#include "common/gpu/backend.cuh"

namespace fa::FA_TARGET {
namespace {  // source files for one backend include this

using attention::Inputs;
using attention::Problem;
using attention::Tiles;
using attention::Type;

// @{ The columns that a rung is compiled for: kAny<most> where its launch function chooses
// them, kPow2<least, most> by with_head_dim(), kTma<least, most> by with_tma_head_dim().
template <int most_columns>
struct AnyColumns {
  static constexpr int most = most_columns;
  template <class Work>
  static auto with(std::int64_t, Work work) {
    return work(std::integral_constant<int, most>{});
  }
};
template <int least, int most_columns>
struct PowersOf2 {
  static constexpr int most = most_columns;
  template <class Work>
  static auto with(std::int64_t head_dim, Work work) {
    return with_head_dim<least, most>(head_dim, work);
  }
};
template <int least, int most_columns>
struct TmaColumns {
  static constexpr int most = most_columns;
  template <class Work>
  static auto with(std::int64_t head_dim, Work work) {
    return with_tma_head_dim<least, most>(head_dim, work);
  }
};
template <int most>
constexpr AnyColumns<most> kAny{};
template <int least, int most>
constexpr PowersOf2<least, most> kPow2{};
template <int least, int most>
constexpr TmaColumns<least, most> kTma{};
// @}

// What a launch is given beside the tensors.
// Columns of K and of V that the kernel is compiled for, the stream, and the workspace or null.
template <int columns, int columns_v, class Element>
struct LaunchOn {
  static constexpr int d = columns, d_v = columns_v;
  const Stream& stream;
  Element* workspace;
  operator const Stream&() const { return stream; }  // what most launch functions ask for
};

// @{ Workspaces: workspace(a, d) allocates memory for the tensors `a` and may set pointers in `a`.
struct NoWorkspace {
  template <class A, class D>
  std::shared_ptr<DeviceBuffer<float>> operator()(A&, D) const {
    return nullptr;
  }
};
// As many floats as count(a) says.
template <class Count>
auto floats(Count count) {
  return [=](auto& a, auto) { return std::make_shared<DeviceBuffer<float>>(count(a)); };
}
// A tile counter, which is 0.
struct TileCounterWorkspace {
  template <class A, class D>
  auto operator()(A&, D) const {
    const auto counter = std::make_shared<DeviceBuffer<unsigned>>(1);
    counter->zero();
    return counter;
  }
};
// @}

// What the blocks of a rung compute at once, and their shared memory where a GPU may lack it.
struct Blocks {
  std::vector<Tiles> tiles;
  std::function<std::size_t(std::int64_t)> shared_bytes{};
};
// Shared memory by head dimension: bytes(d) for one of some columns.
template <class Choice, class Bytes>
auto bytes_by(Choice, Bytes bytes) {
  return [=](std::int64_t head_dim) -> std::size_t { return Choice::with(head_dim, bytes); };
}

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

// A row: what a rung is called, supports and needs, and at the end how it is launched.
// OnDevice<T> has the tensors of a problem in memory of the device, `a`, and their result().
template <class Rung, template <class> class OnDevice, class Columns, class... Ts>
class RungRow {
 public:
  explicit RungRow(Rung rung) : rung_(std::move(rung)) {}

  // Head dimensions up to the largest of these columns.
  template <class Choice>
  RungRow<Rung, OnDevice, Choice, Ts...> columns(Choice) const {
    Rung rung = rung_;
    rung.max_head_dim = Choice::most;
    return RungRow<Rung, OnDevice, Choice, Ts...>(std::move(rung));
  }
  // Head dimensions from the first multiple of 8 that is not less.
  RungRow from(std::int64_t head_dim) const {
    return changed([=](Rung& rung) { rung.min_head_dim = (head_dim + 7) / 8 * 8; });
  }
  RungRow mla() const {
    return changed([](Rung& rung) { rung.supports_mla = true; });
  }
  RungRow no_dropout() const {
    return changed([](Rung& rung) { rung.supports_dropout = false; });
  }
  RungRow any_order() const {
    return changed([](Rung& rung) { rung.deterministic = false; });
  }
  RungRow needs(const Needs& needs) const {
    return changed([&](Rung& rung) { rung.needs = needs; });
  }
  // Hopper's instructions; its kernels have no dropout.
  RungRow hopper() const { return needs(kNeedsHopper).no_dropout(); }
  RungRow blocks(Blocks blocks) const {
    return changed([&](Rung& rung) {
      rung.tiles = std::move(blocks.tiles);
      rung.shared_bytes = std::move(blocks.shared_bytes);
    });
  }
  // launch_kernels(a, on) launches the kernels: `a` as of OnDevice, `on` a LaunchOn.
  template <class Launch>
  Rung launch(Launch launch_kernels) const {
    return launch(NoWorkspace{}, launch_kernels);
  }
  template <class Workspace, class Launch>
  Rung launch(Workspace workspace, Launch launch_kernels) const {
    Rung rung = rung_;
    rung.start = [=](const Problem& problem, const auto& given) {
      return with_device_type<Ts...>(problem.type, [&](auto tag) {
        using T = typename decltype(tag)::device;
        const auto device = std::make_shared<OnDevice<T>>(problem, given);
        return Columns::with(problem.shape.head_dim, [&](auto d) {
          constexpr int columns = decltype(d)::value;
          if constexpr (columns == kMlaHeadDim) {
            if (is_mla(problem.shape.head_dim, problem.columns_v())) {
              return prepared<columns, kMlaHeadDimV>(device, workspace, launch_kernels);
            }
          }
          return prepared<columns>(device, workspace, launch_kernels);
        });
      });
    };
    return rung;
  }

 private:
  template <class Change>
  RungRow changed(Change change) const {
    RungRow row = *this;
    change(row.rung_);
    return row;
  }
  template <int d, int d_v = d, class Device, class Workspace, class Launch>
  static typename Rung::Prepared prepared(const std::shared_ptr<Device>& device, Workspace allocate,
                                          Launch launch_kernels) {
    const std::int64_t before = taken_bytes();
    const auto workspace = allocate(device->a, std::integral_constant<int, d>{});
    using Element = std::remove_pointer_t<decltype(workspace->data())>;
    return {[=] {
              const Stream stream = Stream::of(nullptr);
              const LaunchOn<d, d_v, Element> on{stream, workspace ? workspace->data() : nullptr};
              launch_kernels(device->a, on);
            },
            [=] { return device->result(); }, taken_bytes() - before};
  }

  Rung rung_;
};

template <class First, class... Others>
void add_types(std::vector<Type>& types) {
  types.push_back(ElementType<First>::type);
  if constexpr (kHasOthers<First, Others...>) add_types<Others...>(types);
}

// The beginning of a row: the name of the rung's file and its idea, for elements of types Ts.
template <class Rung, template <class> class OnDevice, class... Ts>
RungRow<Rung, OnDevice, AnyColumns<256>, Ts...> rung_row(const char* name, const char* idea) {
  Rung rung;
  rung.name = name;
  rung.idea = idea;
  add_types<Ts...>(rung.types);
  rung.max_head_dim = 256;
  return RungRow<Rung, OnDevice, AnyColumns<256>, Ts...>(std::move(rung));
}

// A lesson's backend with a ladder, of which it keeps what the device can run.
template <class Backend, class Rung>
Backend backend_with(const std::string& kind, std::vector<Rung> ladder) {
  Backend backend{};
  static_cast<BackendBase&>(backend) = backend_base(kind);
  backend.rungs = std::move(ladder);
  if (backend.available) {
    backend.left_out = attention::fit_ladder(backend.rungs, backend.properties);
  }
  return backend;
}

}  // namespace
}  // namespace fa::FA_TARGET
