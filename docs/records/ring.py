"""Prints the records of ring attention between GPUs as tables.

python3 -m docs.records.ring gpus RECORD               several GPUs beside one and the prediction
python3 -m docs.records.ring efficiency RECORD         the same on fewer lines
python3 -m docs.records.ring beside RECORD PYTORCH     beside PyTorch's context parallelism
python3 -m docs.records.ring fastest RECORD PYTORCH    beside the faster rotation of each backend
"""

import sys

from common.data.records import Problem, aligned, formatted, print_named, rows_with, source_lines

NAMES = {"FLASH_ATTENTION": "FlashAttention-2", "CUDNN_ATTENTION": "cuDNN"}
POINT = ("mask", "pass", "gpus", "length")
PROBLEM = "bfloat16, batch 1, 16 query heads, 16 key heads, head_dim 128"


def gpus(record):
    """A line for each problem on several GPUs, with the time of one."""
    cells = [["mask", "pass", "GPUs", "N", "1 GPU: ms", "ms", "TFLOP/s per GPU"]]
    cells[0] += ["efficiency, %", "predicted, %", "MiB per GPU"]
    for row in record["measurements"]:
        if row["gpus"] == 1:
            continue
        point = {name: row[name] for name in POINT} | {"gpus": 1}
        one = rows_with(record, **point)[0]
        cells.append(
            formatted(
                "{} {} {} {} {:.2f} {:.2f} {:.0f} {:.1f} {:.1f} {}",
                *(row[name] for name in POINT),
                one["milliseconds"],
                row["milliseconds"],
                row["tflops_per_gpu"],
                row["percent_of_linear"],
                row["percent_predicted"],
                row["mebibytes_per_gpu"],
            )
        )
    return [PROBLEM, *aligned(cells, 1, 2), *source_lines(record)]


def efficiency(record):
    """A line for both passes of each problem on several GPUs."""
    cells = [["N", "mask", "GPUs", "forward, %", "predicted, %", "backward, %", "predicted, %"]]
    cells[0].append("MiB per GPU")
    for row in record["measurements"]:
        if row["gpus"] == 1 or row["pass"] == "backward":
            continue
        point = {name: row[name] for name in POINT} | {"pass": "backward"}
        passes = [row, rows_with(record, **point)[0]]
        percents = [row[f"percent_{of}"] for row in passes for of in ("of_linear", "predicted")]
        most = max(row["mebibytes_per_gpu"] for row in passes)
        cells.append(
            formatted(
                "{} {} {} {:.1f} {:.1f} {:.1f} {:.1f} {}",
                *(row[name] for name in ("length", "mask", "gpus")),
                *percents,
                most,
            )
        )
    return [PROBLEM, *aligned(cells, 1, 2), *source_lines(record)]


def problems(pytorch):
    """(the number of GPUs, the problems in their order) of a record of PyTorch."""
    points = dict.fromkeys(tuple(row[name] for name in POINT) for row in pytorch["measurements"])
    found = [dict(zip(POINT, point)) for point in points]
    if len(counts := {problem["gpus"] for problem in found}) != 1:
        raise Problem(f"the record of PyTorch is of {len(counts)} numbers of GPUs, not of one")
    return counts.pop(), found


def beside(record, pytorch):
    """A line for each problem and implementation."""
    count, found = problems(pytorch)
    cells = [["mask", "pass", "implementation", "N", "ms", "x lesson", "TFLOP/s per GPU"]]
    cells[0].append("MiB per GPU")
    for problem in found:
        own = rows_with(record, **problem)
        for row in own + rows_with(pytorch, **problem):
            cells.append(
                formatted(
                    "{} {} {} {} {:.2f} {:.2f} {:.0f} {}",
                    row["mask"],
                    row["pass"],
                    name_of(row),
                    row["length"],
                    row["milliseconds"],
                    row["milliseconds"] / own[0]["milliseconds"],
                    row["tflops_per_gpu"],
                    row["mebibytes_per_gpu"],
                )
            )
    title = f"{count} GPUs, PyTorch {pytorch['torch']}; x lesson: the time over the lesson's"
    return [title, *aligned(cells, 1, 3), *source_lines(record, pytorch)]


def fastest(record, pytorch):
    """A line for each problem: milliseconds and MiB of the lesson and of the faster rotation of
    each backend."""
    count, found = problems(pytorch)
    names = ["lesson", *NAMES.values()]
    cells = [["N", "mask", "pass", *(f"{n}: ms" for n in names), *(f"{n}: MiB" for n in names)]]
    for problem in found:
        rows = rows_with(record, **problem)
        for backend in NAMES:
            of = [r for r in rows_with(pytorch, **problem) if backend in r["implementation"]]
            if not of:
                raise Problem(f"the record of PyTorch lacks {backend} of {problem}")
            rows.append(min(of, key=lambda row: row["milliseconds"]))
        times = [f"{row['milliseconds']:.1f}" for row in rows]
        memory = [row["mebibytes_per_gpu"] for row in rows]
        place = [problem[name] for name in ("length", "mask", "pass")]
        cells.append([*place, *times, *memory])
    title = f"{count} GPUs, PyTorch {pytorch['torch']}"
    return [title, *aligned(cells, 1, 3), *source_lines(record, pytorch)]


def name_of(row):
    """What a row of either record times."""
    if "implementation" not in row:
        return "lesson"
    _, backend, rotation = row["implementation"].split(", ")
    return f"{NAMES.get(backend, backend)}, {rotation}"


def main(arguments):
    """Returns the exit status."""
    choices = {"gpus": (gpus, 1), "efficiency": (efficiency, 1)}
    choices |= {"beside": (beside, 2), "fastest": (fastest, 2)}
    return print_named(sys.modules[__name__], choices, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
