"""Facts of lesson 05. forward, forward_float16 and forward_float32 are of an H200, 16384 positions
in all and 2048 columns of all heads together: h200_05_flash_forward. Decoding and functors are of
an H100."""

from docs.facts.lesson04 import mma_sync_percent_of_peak, profile
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
    less,
    median,
    minus,
    more,
    over,
    points,
    within,
)

forward = Ladder("h200_05_flash_forward")
forward_float16 = Ladder("h200_05_flash_forward", "float16")
forward_float32 = Ladder("h200_05_flash_forward", "float32")
fp8 = Ladder("h200_05_fp8", "e4m3")
forward_functors = Cases("h100_05_functors")
forward_ratios = Ratios("h200_05_interface")
h100_forward_ratios = Ratios("h100_05_interface")
forward_float16_ratios = Ratios("h100_05_types", "float16")

_TENSOR_CORES = "05_flash_forward/2_tensor_cores.md"
_OVERLAP = "05_flash_forward/4_overlap.md"
_DETAILS = "05_flash_forward/appendix_details.md"


# ---- Beside other implementations: functors, h100_05_functors; H200, h200_05_interface.


def mask_part_of_window_loss():
    """A window of 512 keys, 11 % of whose computed scores are masked: that, in percent of how far
    its speed lies below the one without a mask."""
    return 11 / (1 - forward_functors.relative("window_512_16k", "plain_4k"))


def functor_windows_least_ratio():
    """Both windows: the least ratio to FlexAttention."""
    return min(each(forward_functors.ratio("window_*", "flex")))


def functor_step_tflops(functor, kernel):
    """H100, h100_05_functor_steps: TFLOP/s of a kernel over visible scores."""
    return points("h100_05_functor_steps", "tflops", None, functor=functor, kernel=kernel)


def functor_kernel_gain(which, new, old):
    """H100, h100_05_functor_steps, no mask and causal: a kernel below another in ms, percent."""

    def ms(kernel):
        where = {"functor": ("plain_4k", "causal_4k", "causal_16k"), "kernel": kernel}
        return points("h100_05_functor_steps", "milliseconds", **where)

    return least_or_most(which, less(ms(f"{new}_*"), ms(f"{old}_*")))


def forward_ratio(group, mask="full", gpu="h200"):
    """The course over the fastest other implementation for a group of shapes."""
    where = {"causal": mask == "causal", "type": "bfloat16", "group": group}
    return points(f"{gpu}_05_interface", "ratio", **where)


def forward_points_behind_are_wide():
    """The only bfloat16 point behind, on either GPU, has 256 columns, the causal mask and 16384
    keys; FlashAttention-3 is ahead."""
    where = {"D": "256", "type": "bfloat16", "length": 16384}
    for gpu in ("h200", "h100"):
        record = f"{gpu}_05_interface"
        both = (points(record, "tflops", True, backend=who, **where) for who in ("course", "fa3"))
        if over(*both) >= 0.9995 or Ratios(record).behind() != 1:
            return False
    return True


def forward_small_gain(gpu="h200"):
    """The group small, causal: the course over the fastest other implementation, in percent."""
    return 100 * (forward_ratio("small", "causal", gpu) - 1)


def forward_median_ratio(gpu="h200"):
    """All bfloat16 points: the median of the ratios."""
    return median(Ratios(f"{gpu}_05_interface").all())


def interface_d128_16384_tflops():
    """bfloat16, 128 columns, 16384 keys: the course."""
    where = {"group": "d128", "type": "bfloat16", "length": 16384, "backend": "course"}
    return points("h200_05_interface", "tflops", **where)


# ---- Counters: H200, h200_05_counters, and H100, h100_05_counters, 128 columns.


def _counter(column, length=4096, type="bfloat16", causal=False):
    where = {"D": "128", "type": type, "length": length, "backend": "course"}
    return points("h200_05_counters", column, causal=causal, **where)


def forward_cycles():
    """bfloat16, 4096 keys: cycles of the course's kernel."""
    return _counter("cycles")


def forward_million_cycles():
    """The same in millions."""
    return forward_cycles() / 1e6


def forward_cycles_per_tile():
    """The same for each of the 496.5 tiles of an SM."""
    return forward_cycles() / 496.5


def forward_percent_of_matmul_cycles():
    """The 2048 cycles that a tile's matmuls take at the peak, in percent of them."""
    return 100 * 2048 / forward_cycles_per_tile()


def forward_tensor_percent():
    """bfloat16, 4096 keys: percent of the time that tensor cores work."""
    return _counter("tensor")


def forward_tensor_percent_long():
    """Both types, 4096 keys and more: percent of the time that tensor cores work."""
    return _counter("tensor", lambda length: length >= 4096, "*")


def forward_d64_tensor_percent():
    """bfloat16, 64 columns, 4096 keys and more: percent of the time that tensor cores work."""
    where = {"D": "64", "type": "bfloat16", "backend": "course"}
    return points("h200_05_counters", "tensor", length=lambda length: length >= 4096, **where)


def forward_most_tensor_percent():
    """Both types and masks, all lengths: the most."""
    return max(each(_counter("tensor", lambda length: length, "*", None)))


def forward_ghz():
    """bfloat16, 4096 keys: cycles over the time of step 14."""
    return forward_cycles() / forward.ms("14", "128", "4096") / 1e6


def forward_read_mb(who, length):
    """H100, causal: megabytes read from global memory."""
    where = {"D": "128", "backend": who, "length": int(length)}
    return points("h100_05_counters", "read_bytes", True, **where) / 1e6


# ---- The ladder.


def first_steps_percent_of_peak():
    """Steps 01 and 02, float32, 64 columns."""
    return [forward_float32.percent_of_peak(step, "64", "4096") for step in ("01", "02")]


def _without(row, column="full", title="*"):
    """The table of ablations in chapter 2: the time without something over the time with it."""
    return cells(_TENSOR_CORES, row, column, title)


def exp2_costs_what_all_does():
    """Ablations of chapter 2: without exp2 it takes over 0.9 of what it takes with all undone."""
    both = [(_without("exp(x)*", m), _without("tiles of*", f"*: {m}")) for m in ("full", "causal")]
    return all(without > 0.9 * everything for without, everything in both)


def forward_ablation_percent(what):
    """Ablations of chapter 2, both masks: how many percent longer it takes."""
    return more(_without(f"{what}*", "[fc]*"), 1)


def rescaling_ablation_helps():
    """Ablations of chapter 2, both masks: O rescaled always takes less than 0.97 of the time."""
    return below(_without("O rescaled*", "[fc]*"), 0.97)


def wgmma_cycles():
    """Stamps of step 09, H100, in the appendix: cycles of an SM's two blocks."""
    return cells(_DETAILS, "09_wgmma", "cycles")


def wgmma_percent_of_peak():
    """Stamps of step 09, H100, in the appendix: percent of the peak."""
    return cells(_DETAILS, "09_wgmma", "% of peak")


def _stamps(column, *steps):
    """Chapter 4's table of stamps on an H100: h100_05_stamps."""
    return [
        cells(_OVERLAP, step, column) for step in steps or ("11_overlap", "10_warp_specialized")
    ]


def stamped_steps_apart():
    """Chapter 4's stamps: the times of steps 11 and 10, in percent."""
    return apart(*_stamps("us"))


def overlap_saves_percent():
    """Step 11 below step 10, 128 columns, milliseconds, in percent."""
    return less(forward.ms("11", "128", "4096"), forward.ms("10", "128", "4096"))


def overlap_halves_matmul_waits():
    """Chapter 4's stamps: step 11 waits less than 0.45 of step 10 for matmuls."""
    return below(over(*_stamps("waits: matmul")), 0.45)


def overlap_more_softmax_cycles():
    """Chapter 4's stamps: the softmax of step 11 takes so many cycles more."""
    return minus(*_stamps("softmax"))


def overlap_longer_rest():
    """Chapter 4's stamps: the rest of step 11 takes longer."""
    new, old = _stamps("rest")
    return new > old


def overlap_shorter_copy_waits():
    """Chapter 4's stamps: step 11 waits less for copies."""
    return below(*_stamps("copy"))


def _exponentials(place):
    return points(
        "h200_05_exponentials", "tflops", causal=None, D="128", kernel=f"{place} the wait"
    )


def fma_exponentials_percent(part, D="*"):
    """H200, h200_05_exponentials_fma, both masks: how much longer with `part` of 16 by FMAs, %."""
    record, by = "h200_05_exponentials_fma", " of 16"
    new, old = (points(record, "milliseconds", None, D=D, kernel=n + by) for n in (part, "0"))
    return more(new, old)


def exponentials_before_the_wait_slower():
    """H200, h200_05_exponentials, 128 columns, all lengths and masks: by more than 2 %."""
    return below(over(_exponentials("before"), _exponentials("after")), 0.98)


def _scheduler(backend, type="*", length=1, causal=False):
    where = {"D": "128", "type": type, "length": lambda n: n >= length, "backend": backend}
    return points("h200_05_scheduler", "tflops", causal=causal, what="time", **where)


def fixed_order_causal_loss():
    """H200, h200_05_scheduler, from 1024 keys, causal: the fixed order below the dynamic one, %."""
    return less(
        _scheduler("fixed order", length=1024, causal=True),
        _scheduler("course", length=1024, causal=True),
    )


def fixed_order_slower_under_mask_only():
    """The same: slower by more than 2 %; without a mask at most 2 % apart."""
    both = (_scheduler(who, length=1024) for who in ("fixed order", "course"))
    return below(2, fixed_order_causal_loss()) and within(apart(*both), 0, 2)


def float16_most_below_bfloat16(who="course"):
    """H200, h200_05_scheduler, all masks: float16 below bfloat16, in percent, the most."""
    return max(each(less(*(_scheduler(who, t, causal=None) for t in ("float16", "bfloat16")))))


def flash_2_over_ten_times_math():
    """H200, h200_05_scheduler, bfloat16: FlashAttention-2 over PyTorch's own, all points."""
    flash, plain = (
        points("h200_05_scheduler", "tflops", None, what="time", type="bfloat16", backend=who)
        for who in ("fa2", "MATH")
    )
    return within(over(flash, plain), 10, float("inf"))


def lazy_rescaling_d64_most_percent():
    """Step 14, 64 columns, no mask: the most percent of the peak."""
    return max(each(forward.percent_of_peak("14", "64")))


def mirrored_tiles_mostly_slower():
    """Step 16 is slower than step 15 at more than 0.8 of all points."""
    ratios = forward.speedup("16", "15", "all", "all", "both")
    return count(ratios, lambda ratio: ratio < 1) > 0.8 * len(ratios)


def tensor_steps_percent_of_warps():
    """Steps 05 to 09, 64 columns: resident warps in percent of the most."""
    steps = (forward.percent_of_warps(f"{step:02}", "64", "4096") for step in range(5, 10))
    return list(steps)


# ---- float32 on tensor cores: steps 04 and 17.


def tf32_multiply_adds_ratio():
    """TF32's 2048 multiply-adds in three parts over 256 of the units, as far as mma.sync gets."""
    return 2048 / 3 / 256 * mma_sync_percent_of_peak("tf32") / 100


def tf32_steps_alike():
    """128 and 64 columns: step 17 less than 6 % apart, step 04 less than half."""
    wide, narrow = (
        [forward_float32.tflops(step, d, "4096") for step in ("17", "04")] for d in ("128", "64")
    )
    return apart(wide[0], narrow[0]) < 6 and wide[1] < narrow[1] / 2


def tf32_cycles_percent():
    """24 % of the tensor cores' peak, of what mma.sync can reach, in percent."""
    return 24 / mma_sync_percent_of_peak("tf32") * 100


def tf32_waits_are_short():
    """The profile of step 17: fixed and math waits are over 5 times the others."""

    def waits(*reasons):
        return sum(profile("05", "17", f"{reason}_wait") for reason in reasons)

    return waits("fixed", "math") > 5 * waits("global", "shared", "barrier")


# ---- Decoding: H100, h100_05_decode and h100_05_decode_steps; 3350 GB/s are its peak.


def _decode(case, column, who="course", gpu="h100"):
    return points(f"{gpu}_05_decode", column, group=case, backend=who)


def decode_us(case, who="course"):
    """Microseconds."""
    return 1e3 * _decode(case, "milliseconds", who)


def decode_percent_of_bandwidth(case):
    """GB/s of the course in percent of the peak."""
    return _decode(case, "gigabytes_per_second") / 33.5


def decode_ratio(case):
    """The course over the fastest other implementation."""
    return _decode(case, "ratio")


def h200_decode_ratio(case):
    """The same on an H200: h200_05_decode."""
    return _decode(case, "ratio", gpu="h200")


def h200_decode_behind(*cases):
    """On an H200 another implementation is faster in these cases, by more than 2 %."""
    return all(below(h200_decode_ratio(case), 0.98) for case in cases)


def h200_decode_alike(*cases):
    """On an H200 the fastest other implementation is at most 2 % away in these cases."""
    return all(within(h200_decode_ratio(case), 0.98, 1.02) for case in cases)


def h200_decode_us(case, who="course"):
    """Microseconds on an H200."""
    return 1e3 * _decode(case, "milliseconds", who, "h200")


def h200_decode_more(case, base):
    """How many percent longer a case takes than another."""
    return more(h200_decode_us(case), h200_decode_us(base))


def h200_decode_over(column, case, other):
    """A column of the record for a case, over that for another."""
    return over(*(_decode(of, column, gpu="h200") for of in (case, other)))


def serving_ratio(group):
    """H200, h200_05_serving: the course over FlashAttention-3 at a point, or at those of a
    pattern."""
    return points("h200_05_serving", "ratio", True, group=group)


def serving_within(low, high, *groups):
    """H200, h200_05_serving: this ratio lies between these at all of these points."""
    ratios = [value for group in groups for value in each(serving_ratio(group))]
    return all(float(low) < value < float(high) for value in ratios)


def serving_points(low=0, high=9):
    """H200, h200_05_serving: points where the course over FlashAttention-3 lies between these."""
    return count(serving_ratio("*"), lambda value: float(low) < value < float(high))


def decode_us_per_32k(who):
    """Microseconds for each 32k keys: from 32k to 128k, a third."""
    return (decode_us("b1_128k", who) - decode_us("b1_32k", who)) / 3


def decode_us_beside_keys(who):
    """Microseconds for 32k keys without those that grow with the keys."""
    return decode_us("b1_32k", who) - decode_us_per_32k(who)


def decode_grows_alike():
    """Microseconds for each 32k keys: cuDNN's and FlashAttention-3's are less than 6 % apart."""
    course, *others = (decode_us_per_32k(who) for who in ("course", "cudnn", "fa3"))
    return all(apart(course, other) < 6 for other in others)


def decode_one_sequence_us_more():
    """One sequence of 128k keys against 16 of 8k: microseconds more."""
    return decode_us("b1_128k") - decode_us("b16_8k")


def decode_us_at_best_bandwidth():
    """q16_b4_32k at the GB/s of b64_4k: microseconds."""
    rate, best = (decode_percent_of_bandwidth(case) for case in ("q16_b4_32k", "b64_4k"))
    return decode_us("q16_b4_32k") * rate / best


def _decode_step(step, column, queries):
    where = {"length": 32768, "length_q": int(queries), "kernel": f"{step}_*"}
    return points("h100_05_decode_steps", column, **where)


def decode_step_us(step, queries):
    """A step with 32768 keys, microseconds."""
    return 1e3 * _decode_step(step, "milliseconds", queries)


def decode_wgmma_slower_percent():
    """Steps 05 and 06, 16 queries: how many percent longer."""
    return more(decode_step_us("05", "16"), decode_step_us("06", "16"))


def decode_step_percent(step, queries):
    """A step with 32768 keys, in percent of the peak."""
    return _decode_step(step, "gigabytes_per_second", queries) / 33.5


# ---- Experiments with tiles: H200, h200_05_experiments, bfloat16.


def _tile(tile, column="tflops", group="tiles", D="128", **where):
    rows, columns = tile.split("x")
    kernel = f"{rows} x {columns}"
    return points("h200_05_experiments", column, group=group, D=D, kernel=kernel, **where)


def plain_lse_errors_ratio():
    """LSE in 16 bits: the errors of `plain` over those of step 08, largest and rms."""
    where = {"group": "errors of LSE", "type": ("float16", "bfloat16"), "kernel": "08_*"}

    def errors(column):
        return points("h200_05_experiments", column, **where)

    ratios = (over(errors(f"plain_{of}"), errors(of)) for of in ("max_error", "rms_error"))
    return [ratio for both in ratios for ratio in each(both)]


def forward_tile_tflops(tile):
    """A tile of so many queries and keys, 4 warps, 128 columns."""
    return _tile(f"{tile}, 4 warps")


def forward_tile_spilled(tile):
    """The same: bytes spilled per thread."""
    return _tile(f"{tile}, 4 warps", "spilled_bytes")


def forward_tile_loss(tile, other):
    """The first tile below the second, in percent."""
    return less(forward_tile_tflops(tile), forward_tile_tflops(other))


def largest_tile_slowest():
    """64 columns, both masks: that of 256 x 64 spills, and all others are faster by over 2 %."""
    where = [{"D": "64", "causal": mask} for mask in (False, True)]
    ratios = [each(over(_tile("*x*, * warps", **x), _tile("256x64, 8 warps", **x))) for x in where]
    spilled = _tile("256x64, 8 warps", "spilled_bytes", **where[0])
    return spilled > 0 and all(sorted(of_mask)[1] > 1.02 for of_mask in ratios)


def tile_step_at_1152_keys(keys):
    """One sequence, 64 columns, tiles of 128 queries and so many keys: percent more than 1024."""
    where = {"group": "tiles, one sequence", "D": "64"}
    ms = (_tile(f"128x{keys}, 4 warps", "milliseconds", length=n, **where) for n in (1152, 1024))
    return more(*ms)


def edge_masks_gain_to_16k():
    """Step 08, 64 columns: how many percent faster 16384 keys are than 2048."""
    where = {"group": "lengths, D 64", "kernel": "08_*", "type": "bfloat16"}
    rates = (points("h200_05_experiments", "tflops", length=n, **where) for n in (16384, 2048))
    return more(*rates)


# ---- 8 bits: H200, h200_05_fp8.


def _fp8_speedup(head_dim, length, mask):
    """Step 01 over the course in bfloat16, h200_05_interface."""
    where = {"group": f"d{head_dim}", "type": "bfloat16", "backend": "course"}
    where |= {"length": int(length), "causal": {"full": False, "causal": True, "both": None}[mask]}
    of_16_bits = points("h200_05_interface", "tflops", **where)
    return over(fp8.tflops("01", head_dim, length, mask), of_16_bits)


def fp8_over(who, step, head_dim="all", length="16384", mask="full"):
    """A step over another implementation in 8 bits."""
    where = {"type": "float8*", "length": int(length), "backend": who}
    where |= {} if head_dim == "all" else {"D": head_dim}
    others = points("h200_05_fp8_peers", "tflops", mask == "causal", **where)
    return over(fp8.tflops(step, head_dim, length, mask), others)


def fp8_slower_only_when_short():
    """Step 01 over bfloat16: below 0.98 at 1024 keys with 64 columns, and causal with 128;
    above 1.1 from 4096 keys on with 128 and 256 columns."""
    faster = (_fp8_speedup(d, n, "both") for d in ("128", "256") for n in ("4096", "16384"))
    slower = _fp8_speedup("64", "1024", "both"), _fp8_speedup("128", "1024", "causal")
    return all(below(x, 0.98) for x in slower) and all(below(1.1, x) for x in faster)


def fp8_promotion_costs():
    """Step 02 is slower than step 01 at all points from 4096 keys on, and most with 256 columns."""
    losses = [fp8.loss("02", "01", d, "from_4096", "both") for d in ("64", "128", "256")]
    return all(below(0, x) and below(max(each(x)), losses[2]) for x in losses[:2])


def fp8_transpose_percent(length):
    """V of 16384 x 2048 bytes, read and written at 4.8 TB/s, of the time of step 01, 128 columns,
    without a mask."""
    return 2 * 16384 * 2048 / 4.8e7 / fp8.ms("01", "128", length)
