"""Facts of lesson 04. Unless a fact says otherwise: an H200, h200_04_tiled_matmul, 4096 rows and
columns; steps by the numbers of their files."""

from docs.facts.records import apart, cells, each, more, over, points, within

_MATMUL = "04_tiled_matmul/3_matmul.md"
_PROFILE = "docs/theory/08_reading_a_profile.md"
_BANDWIDTH = 4.81  # TB/s, of the tables' H200
_FIRST_TRANSPOSE, _PADDED = "03_transpose_shared", "03_transpose_shared, padded"


def _of(step, column, group=("matmul", "mma", "block")):
    return points("h200_04_tiled_matmul", column, group=group, kernel=f"{step}*")


def _memory(kernel, column):
    return points("h200_04_tiled_matmul", column, kernel=kernel)


def _hopper(step, column, gpu, size=8192):
    return points(f"{gpu}_04_hopper", column, group="mma*", kernel=f"{step}_*", size=size)


def memory_percent_of_peak(step):
    """The bandwidth of steps 01 to 06, in percent of the peak."""
    return _memory(f"{step}_*", "percent_of_peak")


def matmul_tflops(step):
    """TFLOP/s of a matmul."""
    return _of(step, "tflops")


def cublas_tflops():
    """TFLOP/s of cuBLAS, float32."""
    return _of("cuBLAS", "tflops", group="matmul")


def matmul_ms(step):
    """Milliseconds of a matmul."""
    return _of(step, "milliseconds")


def matmul_percent_of_peak(step):
    """TFLOP/s of a matmul in percent of the peak of its units."""
    return _of(step, "percent_of_peak")


def matmul_percent_of_cublas(step):
    """TFLOP/s of a matmul in percent of cuBLAS's."""
    return _of(step, "percent_of_cublas")


def matmul_registers(step):
    """Registers of a thread."""
    return _of(step, "registers")


def matmul_speedup(new, old):
    """How many times as fast the new step is."""
    return matmul_tflops(new) / matmul_tflops(old)


def matmul_gain(new, old):
    """How many percent faster the new step is."""
    return more(matmul_tflops(new), matmul_tflops(old))


def matmul_faster(new, old):
    """The new step is faster by more than 2 %."""
    return matmul_speedup(new, old) > 1.02


def shared_transpose_speedup():
    """Steps 03 and 02, milliseconds."""
    return _memory("02_*", "milliseconds") / _memory(_FIRST_TRANSPOSE, "milliseconds")


def padded_transpose_speedup():
    """Step 03 with and without padding, milliseconds."""
    return _memory(_FIRST_TRANSPOSE, "milliseconds") / _memory(_PADDED, "milliseconds")


def padding_saves_wavefronts():
    """The lab's count for step 03 without and with padding, in chapter 2's table: 16 times."""
    page = "04_tiled_matmul/2_memory.md"
    shared, padded = (cells(page, row, "wavefronts") for row in (_FIRST_TRANSPOSE, _PADDED))
    return within(shared / padded, 15, 17)


def swizzled_as_fast_as_padded():
    """Steps 04 and 03 with padding are at most 2 % apart."""
    return apart(_memory(_PADDED, "milliseconds"), _memory("04_*", "milliseconds")) <= 2


def swizzled_transpose_read_gb_per_s():
    """Half of what step 04 moves."""
    return _memory("04_*", "gigabytes_per_second") / 2


def swizzled_transpose_latency_us():
    """Little's law: 132 SMs with 8192 bytes in flight each, at that rate."""
    return 132 * 8192 / (swizzled_transpose_read_gb_per_s() * 1000)


def vector_add_read_gb_per_s():
    """Two thirds of what step 01 moves."""
    return _memory("01_*", "gigabytes_per_second") * 2 / 3


def online_softmax_gain():
    """Step 06 over step 05, GB/s, in percent."""
    return more(*(_memory(step, "gigabytes_per_second") for step in ("06_*", "05_*")))


def transposed_b_ms(step):
    """Milliseconds with B transposed."""
    return _of(step, "milliseconds", group="matmul_bt")


def coalesced_requested_tb_per_s():
    """Step 08 requests 160 bytes for 64 FLOPs."""
    return matmul_tflops("08") * 160 / 64


def coalesced_requested_over_peak():
    """The same over the bandwidth of global memory."""
    return coalesced_requested_tb_per_s() / _BANDWIDTH


def shared_tiles_requested_tb_per_s():
    """Step 09 requests 8 bytes for 64 FLOPs."""
    return matmul_tflops("09") * 8 / 64


def shared_tiles_requested_percent():
    """The same in percent of the bandwidth of global memory."""
    return 100 * shared_tiles_requested_tb_per_s() / _BANDWIDTH


def matmuls_reach_what_wavefronts_allow():
    """Chapter 3's table: what each step reaches is 0.64 to 0.9 of what its wavefronts allow."""
    reached, allowed = (each(cells(_MATMUL, "*", f"{c} % of peak")) for c in ("reached", "at most"))
    return all(0.64 <= x / y <= 0.9 for x, y in zip(reached, allowed))


def third_of_wavefronts():
    """Chapter 3's table: the lab's wavefronts of step 11 are 0.30 to 0.333 of step 09's."""
    eleven, nine = (cells(_MATMUL, step, "wavefronts lab") for step in ("11_*", "09_*"))
    return within(eleven / nine, 0.30, 0.333)


def half_of_wavefronts_conflict():
    """The profile of step 11 in theory 08: 0.45 to 0.55 of its wavefronts are conflicts."""
    conflicts, all_of_them = (cells(_PROFILE, "11_*", c) for c in ("conflicts", "wavefronts"))
    return within(conflicts / all_of_them, 0.45, 0.55)


def _waits(step, *reasons):
    return [profile("04", step, f"{reason}_wait") for reason in reasons]


def waits_for_memory_and_barrier_alike():
    """The profile of step 12: both waits are less than 5 % apart."""
    return apart(*_waits("12", "global", "barrier")) < 5


def ms_that_tensor_cores_do_not_save():
    """Step 12 without the 2.05 ms of its FLOPs at the peak."""
    return matmul_ms("12") - 2.05


def predicted_tensor_core_ms():
    """A sixteenth of the 2.05 ms, and half of the rest."""
    return 2.05 / 16 + ms_that_tensor_cores_do_not_save() / 2


def tensor_core_speedup():
    """Steps 15 and 12, milliseconds."""
    return matmul_ms("12") / matmul_ms("15")


def waits_for_shared_memory_most():
    """The profile of step 16: twice as long as for anything else."""
    others = _waits("16", "global", "barrier", "math", "fixed")
    return profile("04", "16", "shared_wait") > 2 * max(others)


def back_to_back_below_shared_tiles():
    """Step 18 reaches less of the peak than step 09."""
    return matmul_percent_of_peak("18") < matmul_percent_of_peak("09")


def hopper_percent_of_cublas(gpu, step="2[12]", size="8192"):
    """Steps 21 and 22, both forms of B: h100_04_hopper or h200_04_hopper."""
    return _hopper(step, "percent_of_cublas", gpu, int(size))


def float32_near_cublas():
    """Step 14 reaches 89 to 92 % of cuBLAS."""
    return within(matmul_percent_of_cublas("14"), 89, 92)


def cluster_reaches_cublas():
    """Step 22, both forms of B, on both cards: 98 to 102 % of cuBLAS."""
    h100 = hopper_percent_of_cublas("h100", "22", "4096")
    return all(within(x, 98, 102) for x in (h100, _of("22", "percent_of_cublas", group="mma*")))


def clusters_within_noise(gpu):
    """Steps 22 and 21 with 8192 rows and columns, both forms of B: at most 2 % apart."""
    return within(apart(*(_hopper(step, "tflops", gpu) for step in ("22", "21"))), 0, 2)


def profile(lesson, step, column):
    """A kernel under `ncu` on an H100, h100_limits: percent of peaks, cycles of waits."""
    return points("h100_limits", column, lesson=lesson, kernel=f"{step}_*")


def mma_sync_percent_of_peak(type):
    """What mma.sync reaches with 16 warps of an SM of an H100: h100_limits."""
    return points("h100_limits", "percent", instruction="mma.sync", type=type, warps=16)


def bytes_requested_over_bandwidth():
    """Step 08, in the table of theory 03."""
    return cells("docs/theory/03_tiling.md", "08_*", "% of peak") / 100


def tiled_requests_percent():
    """Steps 09 and on: what they request in percent of the bandwidth, in the table of theory 03."""
    steps = (cells("docs/theory/03_tiling.md", row, "% of peak") for row in ("09_*", "1*"))
    return [percent for step in steps for percent in each(step)]


def pipelined_shared_memory_ratio():
    """Shared memory of step 16 over that of step 15."""
    return _of("16", "shared_bytes") / _of("15", "shared_bytes")


def _before(*steps):
    return [cells("docs/theory/07_software_pipelining.md", f"{s}_*", "x before") for s in steps]


def pipelining_helps_tensor_cores_most():
    """The table of theory 07: steps 16 and 17 gain more than 13 and 14."""
    return min(_before("16", "17")) > max(_before("13", "14"))


def pipelining_helps_attention_least():
    """The table of theory 07: attention's step 07 gains less than steps 13 and 14."""
    return _before("07")[0] < min(_before("13", "14"))


def _profiled(column, *kernels):
    return [cells(_PROFILE, kernel, column) for kernel in kernels]


def padding_saves_more_wavefronts_than_time():
    """Theory 08, step 03 with padding: a sixteenth of the wavefronts, less than twice the rate."""
    wavefronts = over(*_profiled("wavefronts", _PADDED, _FIRST_TRANSPOSE))
    rate = over(*_profiled("% of peak", _PADDED, _FIRST_TRANSPOSE))
    return within(wavefronts, 0.06, 0.065) and rate < 2


def coalesced_third_of_sectors():
    """Theory 08: step 08 has less than a third of step 07's sectors."""
    return over(*_profiled("sectors", "08_*", "07_*")) < 1 / 3


def register_tiles_win_by_wavefronts():
    """Theory 08: step 11 has more sectors than step 10, and conflicts, but fewer wavefronts."""
    ten, eleven = (
        [cells(_PROFILE, step, column) for column in ("sectors", "conflicts", "wavefronts")]
        for step in ("10_*", "11_*")
    )
    worse = eleven[0] > ten[0] and eleven[1] > 0
    return worse and eleven[2] < ten[2] and matmul_faster("11", "10")


def double_buffer_spills_and_gains():
    """Step 13 spills up to 64 bytes, and is faster than step 12."""
    return within(_of("13", "spilled_bytes"), 1, 64) and matmul_faster("13", "12")
