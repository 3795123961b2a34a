// fa_decode() and fa_append(), as a program in C would call them: on the memory of the lab, and on
// that of a GPU.
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "05_flash_forward/tests/forward_calls.cuh"

namespace fa::FA_TARGET {
namespace {

using Call = DecodeCall<fa::bfloat16>;

Call decode_call(const Problem& problem, const Lengths& lengths, std::int64_t page_size) {
  DecodeInputs in = flash::decode::decode_inputs(problem, Values::kNormal, 1);
  in.lengths_k = lengths;
  return {problem, in, page_size};
}

Problem decode_problem(Layout layout = Layout::kHeadsFirst) {
  Problem problem = problem_of(Type::kBFloat16, {3, 8, 2, 2, 200, 40}, true);
  problem.layout = layout;
  return problem;
}

TEST_CASE("a workspace serves one call after another, with items of many parts") {
  Call call = decode_call(problem_of(Type::kBFloat16, {1, 4, 1, 2, 700, 40}, true), {700}, 16);
  for (const std::int32_t length : {700, 650, 1, 690, 0, 700}) call.check({length});
}

#if defined(__CUDACC__)
TEST_CASE("one CUDA graph of fa_decode() serves all steps of a generation") {
  const bool hopper = can_run(device_properties(), kNeedsHopper);
  for (const auto& one : {std::pair{0, 0}, {16, 0}, {0, 7}, {16, 7}}) {
    const int page_size = one.first, kernel = one.second;
    if (kernel == FA_DECODE_CHUNKED_PREFILL && !hopper) continue;
    Call call = decode_call(decode_problem(), {1, 1, 1}, page_size);
    call.cache.kernel = kernel;
    call.give_workspace();
    CAPTURE(page_size);
    CAPTURE(kernel);
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
    for (const Lengths& lengths : {Lengths{200, 0, 77}, {3, 200, 64}, {199, 17, 1}, {2, 2, 2}}) {
      call.set_lengths(lengths);
      FA_CUDA(cudaGraphLaunch(replayed, stream));
      device_synchronize();
      check_accepted(call.verdicts());
    }
    FA_CUDA(cudaGraphExecDestroy(replayed));
    FA_CUDA(cudaGraphDestroy(graph));
    FA_CUDA(cudaStreamDestroy(stream));
  }
}
#endif

// Queries of all sequences packed, on a kernel that is named.
Call packed_call(const Lengths& queries, const Lengths& keys, std::int64_t page_size) {
  const auto batch = static_cast<std::int64_t>(queries.size());
  const Problem problem = problem_of(Type::kBFloat16, {batch, 4, 2, 150, 200, 40}, true);
  DecodeInputs in = flash::decode::decode_inputs(problem, Values::kNormal, 1);
  in.lengths_q = queries, in.lengths_k = keys;
  return {problem, in, page_size};
}

TEST_CASE("fa_decode() computes packed queries of prompts and of single tokens") {
  if (!can_run(device_properties(), kNeedsHopper)) return;
  for (const std::int64_t page_size : {0, 16, 64}) {
    CAPTURE(page_size);
    Call call = packed_call({1, 150, 0, 7}, {200, 150, 30, 3}, page_size);
    call.cache.check = 1;
    CHECK(std::string(fa_decode_kernel_name(&call.attention, &call.cache)) == "07_chunked_prefill");
    call.check({200, 150, 30, 3});
    call.check({0, 151, 30, 200});
    call.check({});
  }
  Call call = packed_call({1, 150, 0, 7}, {}, 16);
  const auto refused = [&](const char* message, auto change) {
    check_said(call.says(change), message);
  };
  refused("kernel is 5, which", [](auto&, auto& c) { c.kernel = FA_DECODE_PAGED_KV; });
  refused("workspace_bytes is 0", [](auto& a, auto&) { a.workspace_bytes = 0; });
  check_said(call.append_says(kSame), "cu_seqlens_q is not a null pointer");
  Lengths wrong = {0, 1, 0, 151, 158};
  call.cu_seqlens_q.upload(wrong.data());
  refused("cu_seqlens_q[2] is 0; allowed are 1", [](auto&, auto& c) { c.check = 1; });
  CHECK(call.says(kSame) == "");  // it ends
}

TEST_CASE("every kernel of fa_decode() that supports a problem can be named") {
  for (const std::int64_t page_size : {0, 32}) {
    for (const Lengths& lengths : {Lengths{}, Lengths{200, 0, 77}}) {
      Call call = decode_call(decode_problem(), {}, page_size);
      int named = 0;
      for (int kernel = 1; kernel <= FA_DECODE_CHUNKED_PREFILL; ++kernel) {
        call.set_lengths(lengths);
        call.cache.kernel = kernel;
        const char* const name = fa_decode_kernel_name(&call.attention, &call.cache);
        if (name == nullptr) continue;
        CAPTURE(name);
        call.give_workspace();
        call.check(lengths);
        ++named;
      }
      const int hopper = can_run(device_properties(), kNeedsHopper) ? 1 : 0;
      const bool all_keys = page_size == 0 && lengths.empty();
      CHECK(named == (all_keys ? 4 + 2 * hopper : 1 + hopper));
    }
  }
}

TEST_CASE("fa_append() writes new keys where fa_decode() reads them") {
  for (const Layout layout : {Layout::kHeadsFirst, Layout::kLengthFirst}) {
    for (const std::int64_t page_size : {0, 16, 64}) {
      CAPTURE(page_size);
      Call call = decode_call(decode_problem(layout), {200, 0, 77}, page_size);
      call.check_append({200, 0, 77});
      call.check_append({65, 1, 2});  // a sequence that begins, with fewer keys than new ones
      call.check_append({});
    }
  }
}

TEST_CASE("fa_append() refuses what it cannot write, and skips pages out of range") {
  Call call = decode_call(decode_problem(), {64, 0, 77}, 64);
  CHECK(call.append_says(kSame) == "");
  const auto refused = [&](const char* message, auto change) {
    check_said(call.append_says(change), message);
  };
  refused("size is 8", [](auto&, auto&, auto& n) { n.size = 8; });
  refused("new k is a null pointer", [](auto&, auto&, auto& n) { n.k = nullptr; });
  refused("overlaps new v", [](auto& a, auto&, auto& n) { n.v = a.v; });
  refused("rows overlap", [](auto& a, auto&, auto&) { a.k_strides.row = 0; });
  CHECK(fa_append(&call.attention, &call.cache, nullptr) == FA_STATUS_REFUSED);
  call.set_table({13, -1, -1, -1, -1, -1, -1, -1, 0, 1 << 30});
  CHECK(call.append_says(kSame) == "");
  refused("block_table[0][0] is 13", [](auto&, auto& c, auto&) { c.check = 1; });
  device_synchronize();
}

TEST_CASE("fa_decode() refuses what it cannot compute") {
  Call call = decode_call(decode_problem(), {200, 0, 77}, 64);
  const auto refused = [&](const char* message, auto change) {
    check_said(call.says(change), message);
  };
  CHECK(call.says(kSame).empty());
  refused("type is 0 (float32)", [](auto& a, auto&) { a.type = 0; });
  refused("head_dim is 136", [](auto& a, auto&) { a.head_dim = a.head_dim_v = 136; });
  refused("head_dim is 192", [](auto& a, auto&) { a.head_dim = 192, a.head_dim_v = 128; });
  refused("dropout is 0.5", [](auto& a, auto&) { a.dropout = 0.5; });
  refused("batch is 0", [](auto& a, auto&) { a.batch = 0; });
  refused("size is 8", [](auto&, auto& c) { c.size = 8; });
  refused("check is 2", [](auto&, auto& c) { c.check = 2; });
  refused("kernel is 8; allowed are 0 to 7", [](auto&, auto& c) { c.kernel = 8; });
  refused("kernel is 4, which does not support", [](auto&, auto& c) { c.kernel = 4; });
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
  CHECK(fa_decode_workspace_bytes(&wide, &call.cache) == 0);
  CHECK(fa_decode_workspace_bytes(&call.attention, nullptr) == 0);
}

TEST_CASE(
    "more rows of queries than kernels for decoding can number, and grids that are too large") {
  const auto bytes = [](const AttentionShape& shape) {
    const auto a = given_attention<fa_attention>(problem_of(Type::kBFloat16, shape, true));
    fa_cache cache{};
    cache.size = sizeof cache;
    return fa_decode_workspace_bytes(&a, &cache);
  };
  CHECK(bytes({1, 8, 1, 536870912, 64, 64}) == 16);  // a counter
  CHECK(bytes({1, 65534, 1, 32768, 64, 64}) == 16);
  CHECK(bytes({1, 65534, 1, 32769, 64, 64}) == 16);
  CHECK(bytes({1, 64, 8, 65536, 65536, 64}) < std::size_t{64} << 20);
#if defined(__CUDACC__)
  Call large = decode_call(problem_of(Type::kBFloat16, {1, 64, 8, 65536, 64, 8}), {}, 0);
  large.check({});
#else  // the lab takes any address
  Call call = decode_call(decode_problem(), {200, 0, 77}, 0);
  const auto far = [](fa_attention& a, fa_cache&) {
    const auto at = [](std::uint64_t i) { return reinterpret_cast<void*>(i << 44); };
    a.q = at(1), a.k = at(2), a.v = at(3), a.o = at(4), a.lse = static_cast<float*>(at(5));
    a.length_q = 536870912;
    a.q_strides = a.o_strides = {320 * a.length_q, 40, 320};
  };
  check_said(call.says(far), "length_q 536870912");
#endif
}

TEST_CASE("fa_decode() ends when lengths change while it runs") {
  if (!device_available()) return;
#if defined(__CUDACC__)
  const int changes = 200000, calls = 300;
#else
  const int changes = 1, calls = 1;  // the lab runs one kernel after the other
#endif
  Call call = decode_call(decode_problem(), {200, 0, 77}, 16);
  const Stream stream;
  std::int32_t* const lengths = call.lengths.data();
  launch(stream, keep_changing, {{1}, {1}}, lengths, lengths, 200, changes);
  for (int i = 0; i < calls; ++i) REQUIRE(call.says(kSame) == "");
  stream.synchronize();
  call.check({200, 0, 77});
}

TEST_CASE("lengths and pages out of range are refused when a call asks for the check") {
  Call call = decode_call(decode_problem(), {200, 0, 77}, 64);
  const auto says = [&] { return call.says([](auto&, auto& c) { c.check = 1; }); };
  const auto check_lengths = [&](const Lengths& lengths, const char* message) {
    call.set_lengths(lengths);
    check_said(says(), message);
  };
  const auto check_table = [&](const Lengths& table, const char* message) {
    call.set_table(table);
    check_said(says(), message);
  };
  CHECK(says() == "");
  check_lengths({200, -1, 77}, "lengths_k[1] is -1");
  check_lengths({201, 0, 77}, "lengths_k[0] is 201");
  call.set_lengths({64, 0, 65});
  check_table({4, -1, -1, -1, -1, -1, -1, -1, 0, 13}, "block_table[2][1] is 13");
  check_table({-4, -1, -1, -1, -1, -1, -1, -1, 0, 12}, "block_table[0][0] is -4");
  call.set_table({0, -1, -1, -1, -1, -1, -1, -1, 3, 12});
  CHECK(says() == "");
}

TEST_CASE("without the check a wrong page is page 0, and a wrong length the nearest one") {
  Call call = decode_call(decode_problem(), {64, 1 << 30, -7}, 64);
  call.set_table({1 << 30, 7, 7, 7, 8, 7, 6, 5});
  CHECK(call.says(kSame).empty());
  const Outputs wrong = call.outputs();
  call.set_table({0, 7, 7, 7, 8, 7, 6, 5});
  CHECK(call.says(kSame).empty());
  const Outputs first = call.outputs();
  CHECK(std::isnan(wrong.o(0, 0, 1, 0)));  // page 0 is NaN
  CHECK(std::isnan(first.o(0, 0, 1, 0)));
  CHECK(first.lse(1, 0, 1) == wrong.lse(1, 0, 1));
  CHECK(std::isfinite(first.lse(1, 0, 1)));
  CHECK(first.lse(2, 0, 1) == -INFINITY);
}

}  // namespace
}  // namespace fa::FA_TARGET
