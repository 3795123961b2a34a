// fa_decode() and fa_append(), as a program in C would call them: on the memory of the lab, and on
// that of a GPU.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "05_flash_forward/interface/flash_attention.h"
#include "05_flash_forward/kernels/decode/04_even_tiles.cuh"
#include "05_flash_forward/src/decode.hpp"
#include "common/attention/tests/placed.cuh"
#include "common/testing/process.hpp"

namespace fa::FA_TARGET {
namespace {

using namespace attention;
using Numbers = std::vector<std::int32_t>;

// A call with its memory: sequences of some lengths, in pages if there is a page_size.
class DecodeCall {
 public:
  DecodeCall(const Problem& problem, Numbers lengths_k, std::int64_t page_size)
      : problem_(problem),
        inputs_(make_inputs(problem, Values::kNormal, 1)),
        lengths_(std::move(lengths_k)),
        page_size_(page_size),
        q_(problem.shape_of_q(), problem.layout, problem.shape.head_dim),
        k_(shape_of_cache(), problem.layout, problem.shape.head_dim + 8),
        v_(shape_of_cache(), problem.layout, problem.shape.head_dim),
        o_(problem.shape_of_o(), problem.layout, problem.shape.head_dim + 16),
        new_k_(shape_of_new(), problem.layout, problem.shape.head_dim + 16),
        new_v_(shape_of_new(), problem.layout, problem.shape.head_dim),
        lse_(problem.shape.batch * problem.shape.heads * problem.shape.length_q),
        device_lengths_(problem.shape.batch),
        table_(problem.shape.batch * most_pages()) {
    q_.write(inputs_.q);
    k_.write(in_cache(inputs_.k));
    v_.write(in_cache(inputs_.v));
    device_lengths_.upload(lengths_.data());
    table_.upload(pages().data());
    attention = given_attention<fa_attention>(problem);
    q_.give(attention.q, attention.q_strides);
    k_.give(attention.k, attention.k_strides);
    v_.give(attention.v, attention.v_strides);
    o_.give(attention.o, attention.o_strides);
    new_k_.give(new_keys.k, new_keys.k_strides);
    new_v_.give(new_keys.v, new_keys.v_strides);
    new_keys.size = sizeof new_keys;
    attention.lse = lse_.data();
    cache.size = sizeof cache;
    cache.lengths_k = device_lengths_.data();
    if (page_size > 0) {
      cache.block_table = table_.data();
      cache.most_pages = most_pages();
      cache.cache_pages = cache_pages();
      cache.page_size = page_size;
    }
    attention.workspace_bytes = fa_decode_workspace_bytes(&attention);
    workspace_.emplace(static_cast<std::int64_t>(attention.workspace_bytes));
    // What is not a counter may hold anything.
    const auto counters = static_cast<std::size_t>(4 * lse_.count());
    device_zero(workspace_->data(), std::min(attention.workspace_bytes, counters));
    attention.workspace = workspace_->data();
  }

  fa_attention attention{};
  fa_cache cache{};
  fa_new_keys new_keys{};

  // Takes the last length_q keys of each sequence out of the cache, and has them appended to it.
  void append(const Numbers& lengths) {
    new_k_.write(take_new(k_, inputs_.k, lengths));
    new_v_.write(take_new(v_, inputs_.v, lengths));
    const int status = fa_append(&attention, &cache, &new_keys);
    CAPTURE(std::string(fa_last_error()));
    REQUIRE(status == FA_STATUS_OK);
  }
  // What fa_append() says with something changed; "" when it succeeds.
  template <class Change>
  std::string append_says(Change change) {
    fa_attention a = attention;
    fa_cache c = cache;
    fa_new_keys n = new_keys;
    change(a, c, n);
    const int status = fa_append(&a, &c, &n);
    const std::string said = fa_last_error();
    CHECK((status == FA_STATUS_OK) == said.empty());
    return said;
  }

  void set_lengths(const Numbers& lengths) { device_lengths_.upload(lengths.data()); }
  void set_table(Numbers table) {
    table.resize(static_cast<std::size_t>(table_.count()), -1);
    table_.upload(table.data());
  }
  // What is said about the call with something changed; "" when it succeeds.
  std::string says(const std::function<void(DecodeCall&)>& change) {
    const fa_attention own = attention;
    const fa_cache own_cache = cache;
    change(*this);
    const int status = fa_decode(&attention, &cache);
    const std::string said = fa_last_error();
    CHECK((status == FA_STATUS_OK) == said.empty());
    attention = own;
    cache = own_cache;
    return said;
  }
  Outputs outputs() {
    const AttentionShape& s = problem_.shape;
    device_synchronize();
    Outputs result{o_.read(), lse_.tensor<float, 3>({s.batch, s.heads, s.length_q})};
    CHECK(o_.gaps_are_poison());
    return result;
  }
  // Calls it and checks it with lesson 01.
  void check(const Numbers& lengths) {
    const int status = fa_decode(&attention, &cache);
    CAPTURE(std::string(fa_last_error()));
    REQUIRE(status == FA_STATUS_OK);
    check_outputs(lengths);
  }
  // Checks what a call has written.
  void check_outputs(const Numbers& lengths) {
    flash::decode::DecodeInputs in;
    static_cast<Inputs&>(in) = inputs_;
    in.lengths_k = lengths;
    check_result(flash::decode::DecodeChecker(problem_, in), problem_, "fa_decode", outputs());
  }

 private:
  Shape<4> shape_of_new() const {
    const AttentionShape& s = problem_.shape;
    return {s.batch, s.kv_heads, s.length_q, s.head_dim};
  }
  Tensor<float, 4> take_new(Placed<fa::bfloat16>& cache_of, Tensor<float, 4> rows,
                            const Numbers& lengths) {
    Tensor<float, 4> taken(shape_of_new());
    for_each_index(taken.shape(), [&](const Shape<4>& at) {
      const auto& [b, h, i, e] = at;
      const std::int64_t key = lengths[static_cast<std::size_t>(b)] - taken.size(2) + i;
      taken(b, h, i, e) = key < 0 ? NAN : rows(b, h, key, e);
      if (key >= 0) rows(b, h, key, e) = NAN;
    });
    cache_of.write(in_cache(rows));
    return taken;
  }
  std::int64_t most_pages() const {
    return page_size_ == 0 ? 1 : (problem_.shape.length_k + page_size_ - 1) / page_size_;
  }
  std::int64_t cache_pages() const { return problem_.shape.batch * most_pages() + 1; }
  // From the last page to the second: no sequence has page 0, which is NaN.
  Numbers pages() const {
    Numbers all(static_cast<std::size_t>(cache_pages() - 1));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(all.size() - i);
    return all;
  }
  Shape<4> shape_of_cache() const {
    const AttentionShape& s = problem_.shape;
    if (page_size_ == 0) return problem_.shape_of_kv();
    return {cache_pages(), s.kv_heads, page_size_, s.head_dim};
  }
  Tensor<float, 4> in_cache(const Tensor<float, 4>& rows) const {
    if (page_size_ == 0) return rows;
    Tensor<float, 4> result(shape_of_cache());
    std::fill_n(result.data(), result.count(), NAN);
    const Numbers table = pages();
    for_each_index(rows.shape(), [&](const Shape<4>& at) {
      const auto place = static_cast<std::size_t>(at[0] * most_pages() + at[2] / page_size_);
      result(table[place], at[1], at[2] % page_size_, at[3]) = rows.view()[at];
    });
    return result;
  }

  Problem problem_;
  Inputs inputs_;
  Numbers lengths_;
  std::int64_t page_size_;
  Placed<fa::bfloat16> q_, k_, v_, o_, new_k_, new_v_;
  DeviceBuffer<float> lse_;
  DeviceBuffer<std::int32_t> device_lengths_, table_;
  std::optional<DeviceBuffer<char>> workspace_;
};

Problem decode_problem(Layout layout = Layout::kHeadsFirst) {
  Problem problem = problem_of(Type::kBFloat16, {3, 8, 2, 2, 200, 40}, true);
  problem.layout = layout;
  return problem;
}

TEST_CASE("fa_decode() computes sequences of different lengths, paged or not") {
  for (const Layout layout : {Layout::kHeadsFirst, Layout::kLengthFirst}) {
    for (const std::int64_t page_size : {0, 16, 64}) {
      DecodeCall call(decode_problem(layout), {200, 0, 77}, page_size);
      CAPTURE(page_size);
      call.check({200, 0, 77});
      call.set_lengths({3, 200, 64});  // the same call, in the next step of a generation
      call.check({3, 200, 64});
      call.cache.lengths_k = nullptr;
      call.check({200, 200, 200});
    }
  }
}

TEST_CASE("fa_decode() computes chunks of a few queries or many") {
  for (const std::int64_t length_q : {1, 4, 5, 33, 100, 130, 300}) {
    const auto length = static_cast<std::int32_t>(300 + length_q);
    DecodeCall call(problem_of(Type::kBFloat16, {2, 8, 2, length_q, length, 64}, true),
                    {length, length}, 0);
    CAPTURE(length_q);
    call.cache.lengths_k = nullptr;
    call.check({length, length});
    call.check({length, length});  // the workspace is as it was
  }
}

TEST_CASE("a workspace serves one call after another, with items of many parts") {
  DecodeCall call(problem_of(Type::kBFloat16, {1, 4, 1, 2, 700, 40}, true), {700}, 16);
  for (const std::int32_t length : {700, 650, 1, 690, 0, 700}) {
    call.set_lengths({length});
    call.check({length});
  }
}

#if defined(__CUDACC__)
TEST_CASE("one CUDA graph of fa_decode() serves all steps of a generation") {
  for (const std::int64_t page_size : {0, 16}) {
    DecodeCall call(decode_problem(), {1, 1, 1}, page_size);
    CAPTURE(page_size);
    device_synchronize();
    cudaStream_t stream = nullptr;
    FA_CUDA(cudaStreamCreate(&stream));
    call.attention.stream = stream;
    FA_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    const int status = fa_decode(&call.attention, &call.cache);
    cudaGraph_t graph = nullptr;
    FA_CUDA(cudaStreamEndCapture(stream, &graph));
    REQUIRE(status == FA_STATUS_OK);
    cudaGraphExec_t replayed = nullptr;
    FA_CUDA(cudaGraphInstantiate(&replayed, graph, 0));
    for (const Numbers& lengths : {Numbers{200, 0, 77}, {3, 200, 64}, {199, 17, 1}, {2, 2, 2}}) {
      call.set_lengths(lengths);
      FA_CUDA(cudaGraphLaunch(replayed, stream));
      call.check_outputs(lengths);
    }
    FA_CUDA(cudaGraphExecDestroy(replayed));
    FA_CUDA(cudaGraphDestroy(graph));
    FA_CUDA(cudaStreamDestroy(stream));
  }
}
#endif

TEST_CASE("fa_append() writes new keys where fa_decode() reads them") {
  for (const Layout layout : {Layout::kHeadsFirst, Layout::kLengthFirst}) {
    for (const std::int64_t page_size : {0, 16, 64}) {
      CAPTURE(page_size);
      DecodeCall call(decode_problem(layout), {200, 0, 77}, page_size);
      call.append({200, 0, 77});
      call.check({200, 0, 77});
      call.set_lengths({65, 1, 2});  // a sequence that begins, with fewer keys than new ones
      call.append({65, 1, 2});
      call.check({65, 1, 2});
      call.cache.lengths_k = nullptr;
      call.append({200, 200, 200});
      call.check({200, 200, 200});
    }
  }
}

TEST_CASE("chunks of a prompt are appended and attend to all earlier keys") {
  for (const std::int64_t chunk : {16, 100, 512}) {
    CAPTURE(chunk);
    DecodeCall call(problem_of(Type::kBFloat16, {2, 2, 1, chunk, 600, 40}, true), {600, 515}, 16);
    call.append({600, 515});
    call.check({600, 515});
  }
}

TEST_CASE("fa_append() refuses what it cannot write, and skips pages out of range") {
  DecodeCall call(decode_problem(), {64, 0, 77}, 64);
  CHECK(call.append_says([](auto&, auto&, auto&) {}) == "");
  const auto refused = [&](const char* message, auto change) {
    const std::string said = call.append_says(change);
    CAPTURE(said);
    CHECK(testing::contains(said, message));
  };
  refused("size is 8", [](auto&, auto&, auto& n) { n.size = 8; });
  refused("new k is a null pointer", [](auto&, auto&, auto& n) { n.k = nullptr; });
  refused("overlaps new v", [](auto& a, auto&, auto& n) { n.v = a.v; });
  refused("rows overlap", [](auto& a, auto&, auto&) { a.k_strides.row = 0; });
  CHECK(fa_append(&call.attention, &call.cache, nullptr) == FA_STATUS_REFUSED);
  call.set_table({13, -1, -1, -1, -1, -1, -1, -1, 0, 1 << 30});
  CHECK(call.append_says([](auto&, auto&, auto&) {}) == "");
  refused("block_table[0][0] is 13", [](auto&, auto& c, auto&) { c.check = 1; });
  device_synchronize();
}

TEST_CASE("fa_decode() refuses what it cannot compute") {
  DecodeCall call(decode_problem(), {200, 0, 77}, 64);
  const auto refused = [&](const char* message, auto change) {
    const std::string said = call.says([=](DecodeCall& c) { change(c.attention, c.cache); });
    CAPTURE(said);
    CHECK(testing::contains(said, message));
  };
  CHECK(call.says([](DecodeCall&) {}).empty());
  refused("type is 0 (float32)", [](auto& a, auto&) { a.type = 0; });
  refused("head_dim is 136", [](auto& a, auto&) { a.head_dim = a.head_dim_v = 136; });
  refused("head_dim is 192", [](auto& a, auto&) { a.head_dim = 192, a.head_dim_v = 128; });
  refused("dropout is 0.5", [](auto& a, auto&) { a.dropout = 0.5; });
  refused("batch is 0", [](auto& a, auto&) { a.batch = 0; });
  refused("size is 8", [](auto&, auto& c) { c.size = 8; });
  refused("check is 2", [](auto&, auto& c) { c.check = 2; });
  refused("page_size is 24", [](auto&, auto& c) { c.page_size = 24; });
  refused("page_size is 0", [](auto&, auto& c) { c.page_size = 0; });
  refused("cache_pages is -1", [](auto&, auto& c) { c.cache_pages = -1; });
  refused("most_pages is 3", [](auto&, auto& c) { c.most_pages = 3; });
  refused("workspace is a null pointer", [](auto& a, auto&) { a.workspace = nullptr; });
  refused("workspace_bytes is 16", [](auto& a, auto&) { a.workspace_bytes = 16; });
  refused("k is a null pointer", [](auto& a, auto&) { a.k = nullptr; });
  refused("overlaps", [](auto& a, auto&) { a.workspace = a.o; });
  refused("overlaps block_table",
          [](auto& a, auto& c) { a.o = const_cast<std::int32_t*>(c.block_table); });
  CHECK(fa_decode(&call.attention, nullptr) == FA_STATUS_REFUSED);
  fa_attention wide = call.attention;
  wide.head_dim = wide.head_dim_v = 136;
  CHECK(fa_decode_workspace_bytes(&wide) == 0);
}

TEST_CASE(
    "more rows of queries than kernels for decoding can number, and grids that are too large") {
  const auto bytes = [](const AttentionShape& shape) {
    const auto a = given_attention<fa_attention>(problem_of(Type::kBFloat16, shape, true));
    return fa_decode_workspace_bytes(&a);
  };
  CHECK(bytes({1, 8, 1, 536870912, 64, 64}) == 16);  // a counter
  CHECK(bytes({1, 65534, 1, 32768, 64, 64}) > 16);
  CHECK(bytes({1, 65534, 1, 32769, 64, 64}) == 16);
  CHECK(bytes({1, 64, 8, 65536, 65536, 64}) < std::size_t{64} << 20);
#if defined(__CUDACC__)
  DecodeCall large(problem_of(Type::kBFloat16, {1, 64, 8, 65536, 64, 8}), {64}, 0);
  large.cache.lengths_k = nullptr;
  large.check({64});
#else  // the lab takes any address
  DecodeCall call(decode_problem(), {200, 0, 77}, 0);
  const auto far = [](fa_attention& a) {
    const auto at = [](std::uint64_t i) { return reinterpret_cast<void*>(i << 44); };
    a.q = at(1), a.k = at(2), a.v = at(3), a.o = at(4), a.lse = static_cast<float*>(at(5));
    a.length_q = 536870912;
    a.q_strides = a.o_strides = {320 * a.length_q, 40, 320};
  };
  const std::string said = call.says([&](DecodeCall& c) { far(c.attention); });
  CAPTURE(said);
  CHECK(testing::contains(said, "length_q 536870912"));
#endif
}

// The parts of a list that a kernel finds when lengths change while it runs.
using ListTile = DecodeTile<64, 1>;
__global__ void find_after_change(Attention<bfloat16> a, int* lengths, int changed,
                                  SequenceTiles* found) {
  const TileList<ListTile, bfloat16> list{a, lengths};
  const int total = list.total();
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int batch = 0; batch < a.batch; ++batch) lengths[batch] = changed;
  }
  __syncthreads();
  const SequenceTiles at = list.sequence_at(total - 1);
  if (threadIdx.x == 0) *found = at;
}
__global__ void walk_after_change(Attention<bfloat16> a, int* lengths, int changed,
                                  SplitStates states, unsigned* counters, int* items) {
  attend_to_list<ListTile>(a, lengths, states, counters,
                           [&](const auto&, const DecodeItem& item, const StridedTiles&) {
                             __syncthreads();
                             if (threadIdx.x == 0) {
                               ++items[item.batch];
                               for (int b = 0; b < a.batch; ++b) lengths[b] = changed;
                             }
                             __syncthreads();
                           });
}

TEST_CASE("a kernel ends when lengths change while it runs, and reads no other ones") {
  if (!device_available()) return;
  const std::int64_t batch = 3, d = 64;
  DeviceBuffer<bfloat16> o(batch * d);
  DeviceBuffer<float> lse(batch), memory(state_floats(2, ListTile::block_m, d));
  Attention<bfloat16> a{};
  a.o = o.data();
  a.lse = lse.data();
  a.o_strides = {d, d, d};
  a.batch = static_cast<int>(batch);
  a.heads = a.kv_heads = a.length_q = 1;
  a.head_dim = a.head_dim_v = static_cast<int>(d);
  a.length_k = 10000;
  a.scale = 1;
  for (const int changed : {0, 1, 600, 1 << 30}) {
    CAPTURE(changed);
    Tensor<std::int32_t, 1> host({4});
    host(0) = 200, host(1) = 100, host(2) = 300, host(3) = 5000;  // the last is no sequence's
    DeviceBuffer<std::int32_t> lengths(4), items(16);
    lengths.upload(host.data());
    DeviceBuffer<SequenceTiles> found(1);
    launch(find_after_change, {{1}, {ListTile::threads}}, a, lengths.data(), changed, found.data());
    SequenceTiles at{};
    found.download(&at);
    CHECK(at.batch >= 0);
    CHECK(at.batch <= batch);
    CHECK(at.first <= 10);
    if (at.batch < batch) CHECK(10 - at.first < at.tiles);
    lengths.upload(host.data());
    items.zero();
    DeviceBuffer<unsigned> counters(batch);
    counters.zero();
    launch(walk_after_change,
           {{1}, {ListTile::threads}, decode_bytes<ListTile, bfloat16>(), ListTile::stages}, a,
           lengths.data(), changed,
           states_at(memory.data(), 2, ListTile::block_m, static_cast<int>(d)), counters.data(),
           items.data());
    const auto walked = items.tensor<std::int32_t, 1>({items.count()});
    CHECK(walked(0) == 1);
    for (std::int64_t i = batch; i < walked.count(); ++i) CHECK(walked(i) == 0);
    Tensor<unsigned, 1> left({batch});
    counters.download(left.data());
    for (std::int64_t b = 0; b < batch; ++b) CHECK(left(b) == 0);
  }
}

TEST_CASE("lengths and pages out of range are refused when a call asks for the check") {
  DecodeCall call(decode_problem(), {200, 0, 77}, 64);
  const auto checked = [&] { return call.says([](DecodeCall& c) { c.cache.check = 1; }); };
  CHECK(checked().empty());
  call.set_lengths({200, -1, 77});
  CHECK(testing::contains(checked(), "lengths_k[1] is -1"));
  call.set_lengths({201, 0, 77});
  CHECK(testing::contains(checked(), "lengths_k[0] is 201"));
  call.set_lengths({64, 0, 65});
  call.set_table({4, -1, -1, -1, -1, -1, -1, -1, 0, 13});
  CHECK(testing::contains(checked(), "block_table[2][1] is 13"));
  call.set_table({-4, -1, -1, -1, -1, -1, -1, -1, 0, 12});
  CHECK(testing::contains(checked(), "block_table[0][0] is -4"));
  call.set_table({0, -1, -1, -1, -1, -1, -1, -1, 3, 12});
  CHECK(checked().empty());
}

TEST_CASE("without the check a wrong page is page 0, and a wrong length the nearest one") {
  DecodeCall call(decode_problem(), {64, 1 << 30, -7}, 64);
  const auto same = [](DecodeCall&) {};
  call.set_table({1 << 30, 7, 7, 7, 4, 3, 2, 1});
  CHECK(call.says(same).empty());
  const Outputs wrong = call.outputs();
  call.set_table({0, 7, 7, 7, 4, 3, 2, 1});
  CHECK(call.says(same).empty());
  const Outputs first = call.outputs();
  CHECK(std::isnan(wrong.o(0, 0, 1, 0)));  // page 0 is NaN
  CHECK(std::isnan(first.o(0, 0, 1, 0)));
  CHECK(first.lse(1, 0, 1) == wrong.lse(1, 0, 1));
  CHECK(std::isfinite(first.lse(1, 0, 1)));
  CHECK(first.lse(2, 0, 1) == -INFINITY);
}

}  // namespace
}  // namespace fa::FA_TARGET
