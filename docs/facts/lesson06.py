"""Facts of lesson 06. backward, backward_16_bit (both types) and backward_float32 are of an H200,
16384 positions in all and 2048 columns of all heads together: h200_06_flash_backward; h100_backward
is of an H100."""

from docs.facts.records import (
    Cases,
    Ladder,
    Ratios,
    apart,
    below,
    cells,
    count,
    each,
    least_or_most,
    minus,
    more,
    over,
    points,
    rows,
    within,
)

backward = Ladder("h200_06_flash_backward")
backward_16_bit = Ladder("h200_06_flash_backward", "*float16")
backward_float32 = Ladder("h200_06_flash_backward", "float32")
h100_backward = Ladder("h100_06_flash_backward")
backward_functors = Cases("h100_06_functors")
packed = Cases("h100_06_packed")
h200_packed = Cases("h200_06_packed")
backward_ratios = Ratios("h200_06_interface")
backward_d64_ratios = Ratios("h200_06_interface", group="d64")
backward_h100_ratios = Ratios("h100_06_interface")
backward_all_ratios = Ratios("h200_06_interface", "*")
backward_deterministic_ratios = Ratios("h200_06_interface", "*", "deterministic")
backward_h100_all_ratios = Ratios("h100_06_interface", "*")
backward_h100_deterministic_ratios = Ratios("h100_06_interface", "*", "deterministic")
backward_float16_ratios = Ratios("h100_06_types", "float16")

_FUSED = "06_flash_backward/2_fused_kernels.md"
_TENSOR_CORES = "06_flash_backward/3_tensor_cores.md"
_RING = "06_flash_backward/8_ring_attention.md"
_DETAILS = "06_flash_backward/appendix_details.md"
_TABLES = "06_flash_backward/appendix_tables.md"


# ---- float32: steps 01 to 04, 64 columns, 4096 keys.


def _float32_ms(step):
    return backward_float32.ms(step, "64", "4096")


def score_traffic_ms():
    """8 passes over the 4096 x 4096 scores of 128 heads, 4 bytes each, at 4.8 TB/s."""
    return 8 * 4096**2 * 128 * 4 / 4.8e9


def score_traffic_percent():
    """The same in percent of step 01's time."""
    return 100 * score_traffic_ms() / _float32_ms("01")


def ms_saved(new, old):
    """Milliseconds that the new step saves."""
    return minus(_float32_ms(old), _float32_ms(new))


def stored_scores_ms():
    """14 passes over the scores: 8 by element, and 6 as tiles of matmuls with 64 columns."""
    return 14 / 8 * score_traffic_ms()


def tiles_save_six_times_traffic():
    """Step 03 saves 5.5 to 6.5 times as much."""
    return within(ms_saved("03", "02") / stored_scores_ms(), 5.5, 6.5)


def atomics_gain_near_limit():
    """Step 04 over step 03: 1.28 to 1.334 times; by chapter 2's table it reads under two thirds."""
    reads = (cells(_FUSED, step, "reads", N="128", D="32") for step in ("04_atomics", "03_two_*"))
    speedup = backward_float32.speedup("04", "03", "64", "4096")
    return within(speedup, 1.28, 1.334) and over(*reads) < 0.6667


def efficient_twice_as_fast():
    """H200, h200_06_interface, float32: PyTorch's efficient backend over twice step 04."""
    where = {"what": "time", "type": "float32", "backend": "EFFICIENT_ATTENTION"}
    return below(
        2 * backward_float32.tflops("04", "64", "4096"),
        points("h200_06_interface", "tflops", **where),
    )


def float32_interface_tflops(card, backend):
    """h100_ or h200_06_interface, float32, 64 columns, 1024 keys, no mask: `deterministic` is
    step 03."""
    where = {"what": "time", "group": "float32_d64", "backend": backend}
    return points(f"{card}_06_interface", "tflops", causal=False, **where)


# ---- The ladder.


def _without(row):
    """The table of ablations in chapter 3, both masks: the time without something over with it."""
    return cells(_TENSOR_CORES, row, "[fc]*")


def padded_tiles_ablation():
    """Ablations of chapter 3: without swizzled tiles."""
    return _without("tiles without*")


def ablation_percent(what):
    """Ablations of chapter 3: how many percent longer it takes."""
    return more(_without(f"{what}*"), 1)


def elementwise_ablation_in_range():
    """Ablations of chapter 3: the elementwise part, 0.98 to 1.02."""
    return within(_without("elementwise*"), 0.98, 1.02)


def _ablation_ms(undone, order):
    where = {"group": "06/06_*", "taken_back": undone, "order": order}
    return points("h100_ablations", "full_ms", None, **where)


def ablation_all_undone_ms():
    """The same record, no mask: all changes undone."""
    return _ablation_ms("fragments*", "so far")


def ablation_over_ladder():
    """The same, none undone: its time over that of step 06 on the H100."""
    return over(_ablation_ms("", "alone"), h100_backward.ms("06", "128", "4096"))


def v_read_twice_percent(which):
    """Ablations of the appendix, V read a second time, both masks and orders: percent longer."""
    orders = ("full", "causal", "with all above: full", "with all above: causal")
    chosen = {"least": min, "most": max}[which]
    return 100 * (chosen(cells(_DETAILS, "V read*", order) for order in orders) - 1)


def backward_peak_tflops():
    """Of which percent_of_peak is a percentage, bfloat16."""
    where = ("08", "128", "4096")
    return 100 * over(backward.tflops(*where), backward.percent_of_peak(*where))


def backward_warpgroup_percent(step, part):
    """Stamps in the appendix, H100, h100_06_stamps: percent of each consumer warpgroup's time."""
    column = {"waits_matmul": "waits: matmul", "other_warps": "other warps"}.get(part, part)
    return cells(_TABLES, "consumer*", column, f"*{step}_*")


def _waits(step, part):
    return each(backward_warpgroup_percent(step, part))


def delayed_dq_waits_for_copies():
    """Stamps, step 10: waits for copies are over 3 times any other wait."""
    return min(_waits("10", "copy")) > 3 * max(
        _waits("10", "waits_matmul") + _waits("10", "other_warps")
    )


def delay_does_not_shorten_waits_for_warps():
    """Stamps: step 10 waits for other warps at least as long as step 09."""
    return min(_waits("10", "other_warps")) >= max(_waits("09", "other_warps"))


def order_does_not_lengthen_waits_for_warps():
    """Stamps: step 11 waits for other warps no longer than step 10."""
    return max(_waits("11", "other_warps")) <= max(_waits("10", "other_warps"))


def delay_takes_more_stamped_cycles():
    """Stamps in the appendix: cycles of steps 10 and 09."""
    return below(*(cells(_TABLES, s, "cycles") for s in ("09_warp_specialized", "10_delayed_dq")))


def _exponentials(where):
    return cells(_TABLES, "*delayed_dq*", where)


def exponentials_before_the_wait():
    """Machine code of step 10, sm_90a_06_machine_code: exponentials before the wait."""
    return _exponentials("before")


def exponentials_of_a_thread():
    """The same, before and after the wait."""
    return _exponentials("before") + _exponentials("after")


def ordered_dq_most_price():
    """Step 12 over step 11, 128 columns, H200 and H100: the most, with and without a mask."""
    ladders = (backward, h100_backward)
    return max(max(each(x.speedup("12", "11", "128", "all", "both"))) for x in ladders)


def deterministic_price(mask="full", length="all"):
    """H200, h200_06_interface, 128 columns: the course over its deterministic mode."""
    where = {"what": "time", "group": "d128", "type": "bfloat16"}
    if length != "all":
        where["length"] = int(length)
    return over(
        *(
            points("h200_06_interface", "tflops", mask == "causal", backend=who, **where)
            for who in ("course", "deterministic")
        )
    )


def dq_zeroing_us():
    """Zeros into dQ and reading it again: twice 16384 x 2048 floats at 4.8 TB/s."""
    return 2 * 16384 * 2048 * 4 / 4.8e6


def dq_zeroing_percent(length):
    """The same in percent of step 10's time, 128 columns."""
    return 100 * dq_zeroing_us() / 1000 / backward.ms("10", "128", length)


def h100_store_then_reduce_gains_most_short():
    """H100, steps 12 and 10, 128 columns, causal: most with 1024 keys; without the mask a gain of
    more than 2 % at one length."""
    longer, short = (
        h100_backward.largest_gain("12", "10", "128", lengths, "causal")
        for lengths in ("from_2048", "1024")
    )
    return short > longer and count(h100_backward.gain("12", "10"), lambda x: x > 2) == 1


def backward_counter(column, head_dim):
    """H200, h200_06_counters, from 4096 keys, both types and masks: percent of the peak."""
    where = {"D": head_dim, "type": "*", "length": lambda n: n >= 4096, "backend": "course"}
    return points("h200_06_counters", column, None, **where)


def transposed_exponentials_before_the_wait():
    """Machine code of the transposed order, in chapter 6: none after the wait."""
    return cells("06_flash_backward/6_wide_heads.md", "*transposed*", "after") < 1


def wide_heads_copy_waits_percent():
    """Stamps of step 13 in the appendix, 256 columns, H100: percent of each consumer's time."""
    return cells(_TABLES, "consumer*", "copy", "13_*")


def wide_ratios(card, head_dim, backend="course"):
    """bfloat16, both masks: the course over the fastest other implementation."""
    where = {"D": head_dim, "type": "bfloat16", "backend": backend}
    return points(f"{card}_06_interface", "ratio", None, **where)


def d128_steps_percent_of_peak():
    """Steps 10 to 12, 128 columns, 4096 keys."""
    return [backward.percent_of_peak(step, "128", "4096") for step in ("10", "11", "12")]


def dependent_launch_most_apart(card):
    """Steps 15 and 14, 64 columns, up to 2048 keys and causal up to 8192: percent."""
    ladder = {"h200": backward, "h100": h100_backward}[card]
    points = (("to_2048",), ("to_8192", "causal"))
    return max(ladder.largest_apart("15", "14", "64", *point) for point in points)


def h100_dependent_launch_alike():
    """H100, steps 15 and 14, 64 columns, up to 2048, causal 2048 to 8192 keys: less than 1 %."""
    points = [("1024",), ("2048",), *((length, "causal") for length in ("2048", "4096", "8192"))]
    return all(h100_backward.apart("15", "14", "64", *point) < 1 for point in points)


# Where a step launches the kernels of another one.
_SAME_KERNELS = (
    ("15", "12", "128"),
    ("19", "15", "64"),
    ("19", "15", "128"),
    ("20", "18", "192"),
    ("20", "13", "256"),
)


def _noise():
    points = [(*steps, "all", "both") for steps in _SAME_KERNELS]
    return [x for where in points for x in each(backward_16_bit.apart(*where))]


def noise():
    """Percent apart, both types: the largest."""
    return max(_noise())


def noise_points(percent="100"):
    """How many of these points are at most so far apart."""
    return sum(x <= float(percent) for x in _noise())


def noise_never_counts():
    """None of them has one sign above 2 % at three neighbouring lengths, or at two in both types,
    or above 5 % at one in both types."""
    runs, single = [], []
    for steps in _SAME_KERNELS:
        for mask in ("full", "causal"):
            gains = each(backward_16_bit.gain(*steps, "all", mask))
            types = gains[:5], gains[5:]
            runs += [one[i : i + 3] for one in types for i in range(3)]
            runs += [types[0][i : i + 2] + types[1][i : i + 2] for i in range(4)]
            single += zip(*types)

    def one_sign(gains, percent):
        return min(gains) > percent or max(gains) < -percent

    return not any(one_sign(x, 2) for x in runs) and not any(one_sign(x, 5) for x in single)


# ---- Beside other implementations: H200, h200_06_interface; H100, h100_06_types, h100_06_functors.


def backward_most_loss():
    """The smallest of them, in percent below 1."""
    return 100 * (1 - backward_ratios.least())


def backward_behind_on_h100_only():
    """bfloat16, 64 columns, causal, 16384 keys: the least ratio of the H200, at least 0.98, and the
    only one of the H100 below 1, less than 0.98."""
    where = {"type": "bfloat16", "D": "64", "length": 16384, "backend": "course"}
    h200, h100 = (points(f"{gpu}_06_interface", "ratio", True, **where) for gpu in ("h200", "h100"))
    only = h100 < 0.98 and backward_h100_ratios.behind() == 1
    return only and 0.98 <= h200 == backward_ratios.least() < 0.9995


def backward_cycles_level_where_behind():
    """H200, h200_06_counters, the same problem: at most 2 % from FlashAttention-3 in cycles."""
    where = {"type": "bfloat16", "D": "64", "length": 16384, "causal": True}
    cycles = (points("h200_06_counters", "cycles", backend=x, **where) for x in ("course", "fa3"))
    return apart(*cycles) <= 2


def backward_fa4_lacks_shapes():
    """bfloat16: FlashAttention-4 lacks 9 points, groups gqa, small, and d256 with the mask."""
    fa4 = points("h200_06_interface", "tflops", None, type="bfloat16", backend="FLASH_ATTENTION_4")
    # A key of the course ends with its kernel.
    lacks = [dict(key) for key in backward_ratios.all() if key[:-1] not in fa4]
    shapes = sorted({(x["group"], x["causal"][0]) for x in lacks})
    return len(lacks) == 9 and shapes == [*zip(("d256", "gqa", "gqa", "small", "small"), "TFTFT")]


def deterministic_error_ratio():
    """float32: the largest error of the deterministic mode over that of the efficient backend."""
    names = "deterministic", "EFFICIENT_ATTENTION"
    where = {"column": "largest_error", "causal": None, "what": "error", "type": "float32"}
    return max(each(over(*(points("h200_06_interface", backend=x, **where) for x in names))))


def few_heads_ratio(group, length, mask="full"):
    """H100, h100_06_few_heads: the course over the fastest other implementation."""
    return points("h100_06_few_heads", "ratio", mask == "causal", group=group, length=int(length))


def backward_functor_step_tflops(functor, kernel):
    """H100, h100_06_functor_steps: TFLOP/s of a kernel over visible scores."""
    return points("h100_06_functor_steps", "tflops", None, functor=functor, kernel=kernel)


def functor_step_01_most_apart():
    """H100, h100_06_functor_steps, no mask and causal: functor step 01 from step 06, in percent."""
    cases = ("plain_4k", "causal_4k", "causal_16k")
    first, sixth = (
        [backward_functor_step_tflops(case, kernel) for case in cases]
        for kernel in ("01_score_functor", "06_swizzled_pipeline")
    )
    return max(apart(*pair) for pair in zip(first, sixth))


def soft_cap_ms(kernel="01_score_functor"):
    """H100, h100_06_functor_steps, soft_cap_4k: milliseconds of step 01, and with dual numbers."""
    name = "01_score_functor" + (", dual" if kernel == "dual" else "")
    return points("h100_06_functor_steps", "milliseconds", functor="soft_cap_4k", kernel=name)


def functor_backward_plain_ratio(which):
    """No mask and causal: the course over FlexAttention."""
    cases = [backward_functors.ratio(case, "flex") for case in ("plain_4k", "causal_4k")]
    return {"least": min, "most": max}[which](cases)


def dual_numbers_within_noise():
    """The same: at most 2 % apart."""
    return apart(soft_cap_ms("dual"), soft_cap_ms()) <= 2


# ---- Packed sequences: H100, h100_06_packed.


def packed_tokens(case):
    """The shortest and the longest sequence."""
    found = [row["lengths"] for row in rows("h100_06_packed") if row["group"] == f"{case}_backward"]
    return [min(found[0]), max(found[0])]


# ---- Ring attention on two H100: h100_06_ring, and beside PyTorch's, h100_06_ring_pytorch.


def ring_predicted_percent(column, length, gpus):
    """The model's table in chapter 8: parallel efficiency, forward, causal mask."""
    return cells(_RING, length, f"{column}, %", "forward, causal", GPUs=gpus)


def ring_backward_leads():
    """The same, backward: heads lead at 16k, zig-zag leads at 64k, on 4 and on 8 GPUs."""

    def lead(length, gpus):
        zigzag, heads = (
            cells(_RING, length, f"{column}, %", "backward, causal", GPUs=gpus)
            for column in ("zig-zag", "heads")
        )
        return zigzag - heads

    return all(lead("16k", gpus) < 0 < lead("64k", gpus) for gpus in "48")


def ring_forward_percent(length, gpus):
    """The model of the plain ring in chapter 8: parallel efficiency, forward, full mask."""
    return cells(_RING, length, "ring, %", "*forward, full*", GPUs=gpus)


def _ring(column, length, pass_="*", mask="*", gpus=2):
    return points("h100_06_ring", column, **{"pass": pass_}, mask=mask, gpus=gpus, length=length)


def _beside(column, implementation="lesson", length=131072):
    return points("h100_06_ring_pytorch", column, implementation=implementation, length=length)


def ring_percent_of_linear(which):
    """128k positions, both masks and passes."""
    return least_or_most(which, _ring("percent_of_linear", 131072))


def ring_repeat_percent_of_linear(which):
    """128k positions, the repeat beside PyTorch."""
    return least_or_most(which, _beside("percent_of_linear"))


def ring_repeats_most_apart():
    """128k positions: times of both programs, in percent."""
    return max(each(apart(_ring("milliseconds", 131072), _beside("milliseconds"))))


def ring_short_percent_of_linear(pass_="*", mask="*"):
    """16k positions, both masks and passes."""
    return _ring("percent_of_linear", 16384, pass_, mask)


def ring_short_percent_predicted():
    """The same, as the model predicts."""
    return _ring("percent_predicted", 16384)


def ring_ms_over_half(pass_, length):
    """Both masks: milliseconds beyond half of those of one GPU."""
    one, two = (_ring("milliseconds", int(length), pass_, gpus=gpus) for gpus in (1, 2))
    return minus(two, over(one, 2))


def ring_all_ms(which):
    """128k positions, both masks and passes."""
    return least_or_most(which, _ring("milliseconds", 131072))


def ring_overhead_shrinks_with_length():
    """Backward: what is beyond half of one GPU's time, with 128k and 16k positions."""
    return below(
        *(
            over(ring_ms_over_half("backward", n), _ring("milliseconds", int(n), "backward"))
            for n in ("131072", "16384")
        )
    )


def ring_half_of_one_gpu_ms(mask):
    """128k positions, backward: half of one GPU's milliseconds."""
    return _ring("milliseconds", 131072, "backward", mask, gpus=1) / 2


def ring_ms_without_transfers(mask):
    """128k positions, backward."""
    return _ring("milliseconds_without_transfers", 131072, "backward", mask)


def ring_ms(mask):
    """128k positions, backward."""
    return _ring("milliseconds", 131072, "backward", mask)


def ring_gb_per_s():
    """128k positions, backward, both masks."""
    return _ring("gigabytes_per_second", 131072, "backward")


def ring_transfer_ms():
    """512 MiB at that rate."""
    return over(536.870912, ring_gb_per_s())


def ring_one_gpu_tflops(length):
    """Backward with the causal mask, one GPU."""
    return _ring("tflops_per_gpu", int(length), "backward", "causal", gpus=1)


def one_gpu_tflops(which):
    """Forward without a mask, all lengths, one GPU."""
    where = {"pass": "forward", "mask": "full", "gpus": 1}
    return least_or_most(which, points("h100_06_ring", "tflops_per_gpu", **where))


def ring_memory_ratio():
    """128k positions: memory of each of two GPUs over that of one."""
    return over(*(_ring("mebibytes_per_gpu", 131072, gpus=gpus) for gpus in (2, 1)))


def _slower_than_ours(*implementations):
    """From 32k positions, both masks and passes: milliseconds over the course's."""

    def times(implementation):
        return _beside("milliseconds", implementation, lambda length: length >= 32768)

    return [x for name in implementations for x in each(over(times(name), times("lesson")))]


def _pytorch(backend):
    return [f"*{backend}*{way}" for way in ("allgather", "alltoall")]


def pytorch_ring_flash_ratio():
    """PyTorch's context parallelism with FlashAttention: milliseconds over the course's."""
    return _slower_than_ours(*_pytorch("FLASH"))


def pytorch_ring_cudnn_ratio():
    """PyTorch's context parallelism with cuDNN: milliseconds over the course's."""
    return _slower_than_ours(*_pytorch("CUDNN"))


def ring_flash_attn_ratio():
    """ring-flash-attn: milliseconds over the course's."""
    return _slower_than_ours("ring-flash-attn")


def ring_flash_attn_over_pytorch():
    """ring-flash-attn over PyTorch's all-to-all with FlashAttention, milliseconds."""
    length = {"length": lambda length: length >= 32768}
    times = (
        _beside("milliseconds", name, **length) for name in ("ring-flash-attn", "*FLASH*alltoall")
    )
    return over(*times)


def ring_flash_attn_memory_ratio():
    """ring-flash-attn: memory over the course's, both lengths and masks."""
    where = ("mebibytes_per_gpu", "ring-flash-attn", lambda length: length >= 32768)
    return over(_beside(*where), _beside(where[0], length=where[2]))


def pytorch_ring_memory_ratio(length):
    """The least memory of PyTorch's, without the whole gradients, over the course's most."""
    pytorch, ours = (
        each(_beside("mebibytes_per_gpu", who, int(length))) for who in ("PyTorch*", "lesson")
    )
    return (min(pytorch) - int(length) / 128) / max(ours)
