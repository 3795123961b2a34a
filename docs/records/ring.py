"""Prints the records of ring attention between GPUs as tables.

python3 -m docs.records.ring RECORD                all of a record, the lesson's or PyTorch's
python3 -m docs.records.ring --efficiency RECORD   the lesson's percents beside the prediction
python3 -m docs.records.ring --chart RECORD        the same as SVG
python3 -m docs.records.ring RECORD PYTORCH        beside the faster rotation of each backend

Exit status: 0, or 2 when a record has no such thing.
"""

import argparse
import sys

from common.data.records import Problem, aligned, formatted, read, rows_with, source, source_lines
from common.drawing.charts import Series, line_chart

NAMES = {"FLASH_ATTENTION": "FlashAttention-2", "CUDNN_ATTENTION": "cuDNN"}
POINT = ("mask", "pass", "gpus", "length")
PROBLEM = "bfloat16, batch 1, 16 query heads, 16 key heads, head_dim 128"


def of_several_gpus(record, *passes):
    """The rows of these passes on several GPUs; a Problem where there is none."""
    rows = [r for r in record["measurements"] if r["gpus"] > 1 and r["pass"] in passes]
    if not rows:
        raise Problem(f"the record has 0 rows of several GPUs, {' or '.join(passes)}")
    return rows


def gpus(record):
    """A line for each problem on several GPUs, with the time of one."""
    cells = [["mask", "pass", "GPUs", "N", "1 GPU: ms", "ms", "TFLOP/s per GPU"]]
    cells[0] += ["efficiency, %", "predicted, %", "MiB per GPU"]
    for row in of_several_gpus(record, "forward", "backward"):
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
    for row in of_several_gpus(record, "forward"):
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


def chart(record):
    """Percents by length, measured and predicted, of each number of GPUs; a panel for each pass."""
    panels = {}
    for row in of_several_gpus(record, "forward", "backward"):
        mask = {"causal": "causal, zig-zag"}.get(row["mask"], "no mask")
        for of, what in (("of_linear", "measured"), ("predicted", "predicted")):
            name = f"{row['gpus']} GPUs, {mask}: {what}"
            points = panels.setdefault(row["pass"], {}).setdefault(name, [])
            points.append((row["length"], row[f"percent_{of}"]))
    drawn = [
        (name, [Series(line, points, "predicted" in line) for line, points in lines.items()])
        for name, lines in panels.items()
    ]
    title = "Parallel efficiency of a ring of GPUs, measured and predicted"
    return line_chart(title, drawn, "length N", "efficiency, %", source(record))


def implementations(record):
    """A line for each problem and implementation of PyTorch."""
    cells = [["mask", "pass", "implementation", "GPUs", "N", "ms", "TFLOP/s per GPU"]]
    cells[0].append("MiB per GPU")
    for row in record["measurements"]:
        _, backend, rotation = row["implementation"].split(", ")
        name = f"{NAMES.get(backend, backend)}, {rotation}"
        place = [row["mask"], row["pass"], name, row["gpus"], row["length"]]
        rates = [row[field] for field in ("milliseconds", "tflops_per_gpu", "mebibytes_per_gpu")]
        cells.append([*place, *formatted("{:.2f} {:.0f} {}", *rates)])
    return [f"PyTorch {record['torch']}", *aligned(cells, 1, 3), *source_lines(record)]


def problems(pytorch):
    """(the number of GPUs, the problems in their order) of a record of PyTorch."""
    points = dict.fromkeys(tuple(row[name] for name in POINT) for row in pytorch["measurements"])
    found = [dict(zip(POINT, point)) for point in points]
    if len(counts := {problem["gpus"] for problem in found}) != 1:
        raise Problem(f"the record of PyTorch is of {len(counts)} numbers of GPUs, not of one")
    return counts.pop(), found


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


def main(arguments):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("record", help="a file of docs/results")
    parser.add_argument("pytorch", nargs="?", help="one of PyTorch, to compare with")
    parser.add_argument("--efficiency", action="store_true", help="beside the prediction")
    parser.add_argument("--chart", action="store_true", help="the same as SVG")
    options = parser.parse_args(arguments)
    try:
        record = read(options.record)
        if options.pytorch:
            lines = fastest(record, read(options.pytorch))
        elif options.chart:
            lines = [chart(record).rstrip("\n")]
        elif options.efficiency:
            lines = efficiency(record)
        else:
            lines = implementations(record) if "torch" in record else gpus(record)
    except KeyError as error:
        print(f"ring: the record has no {error}", file=sys.stderr)
        return 2
    except Problem as problem:
        print(f"ring: {problem}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
