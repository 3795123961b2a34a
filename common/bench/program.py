"""The program of an example: its options, and what they do."""

import argparse

from common.bench import counters
from common.bench.command import Failure, Skipped
from common.bench.peers import load as load_peers
from common.bench.problems import GROUPS, SETS, points_of
from common.bench.pytorch import torch
from common.bench.record import rows_before, write_record, writing
from common.bench.tables import print_counted, print_summary
from common.files.write_file import check_writable


def parser_of(doc):
    """The options of an example."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--library", metavar="PATH", help="this lesson's library")
    parser.add_argument("--table", metavar="FILE", help="print a record; needs no PyTorch")
    parser.add_argument("--check", action="store_true", help="errors against float64")
    parser.add_argument("--time", action="store_true", help="times beside others")
    parser.add_argument(
        "--points",
        default="goals",
        metavar="NAMES",
        help=f"what is timed, with commas between: {', '.join([*SETS, *GROUPS])} (default goals)",
    )
    parser.add_argument(
        "--counters", action="store_true", help="what ncu counts, for Hopper GPUs; alone"
    )
    parser.add_argument(
        "--flash-attention-3",
        metavar="PATH",
        help="FlashAttention-3's library for PyTorch, if it is not that of an installed package",
    )
    parser.add_argument(
        "--flash-attention-4",
        metavar="FOLDER",
        help="where pip --target has installed FlashAttention-4, if not in Python's path",
    )
    parser.add_argument(
        "--repeats", type=int, default=20, help="how often a call is timed at least (default 20)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=2,
        help="how long the calls of a point are timed at least, in turn (default 2)",
    )
    parser.add_argument("--json", metavar="FILE", help="write a record of what was measured")
    parser.add_argument(
        "--continue",
        action="store_true",
        dest="goes_on",
        help="keep what the record --json has of other points",
    )
    parser.add_argument("--commit", help="of the code, for the record of a copy without git")
    return parser


def run(args, load, check, time_all, count_all):
    """Does what the options ask for. Returns the exit status.

    load() gives an object with `runs_on`; check(it, device) gives rows and whether all errors are
    small; time_all(it, points) and count_all(it) give rows.
    """
    if args.repeats < 1:
        raise Failure(f"{args.repeats} repeats to time; at least 1 is needed")
    if args.counters and (args.check or args.time):
        raise Failure("--counters goes with neither --check nor --time: ncu would slow them down")
    if args.library is None:
        raise Failure("which library is to be called? Give --library PATH")
    if torch is None:
        raise Skipped("PyTorch is needed, and this Python has none")
    points = points_of(args.points)
    library = load()
    on_gpu = library.runs_on == "gpu"
    if on_gpu and not torch.cuda.is_available():
        raise Failure("the library is for GPUs, and PyTorch finds none")
    peers = load_peers(args.flash_attention_3, args.flash_attention_4) if on_gpu else {}
    if args.time and not on_gpu:
        raise Failure("the library is for the CPU, where times would say nothing")
    if args.counters and not on_gpu:
        raise Failure("the library is for the CPU, where ncu counts nothing")
    if args.json:
        with writing(args.json):
            check_writable(args.json)
    before = rows_before(args.json) if args.json and args.goes_on else []
    both = not (args.check or args.time or args.counters)
    rows, good = [], True
    if args.counters:
        rows = count_all(library)
        if counters.under_ncu():
            return 0
        print_counted(rows)
    if args.check or both:
        rows, good = check(library, "cuda" if on_gpu else "cpu")
    if args.time or (both and on_gpu):
        timed = time_all(library, points)
        print_summary(timed)
        rows += timed
    if args.json:
        write_record(args.json, on_gpu, args.commit, peers, joined(before, rows))
    return 0 if good else 1


def joined(before, rows):
    """Rows of a record with those of a later run, which replaces what it measures again."""
    kinds = {(row["what"], row.get("group")) for row in rows}
    return [row for row in before if (row["what"], row.get("group")) not in kinds] + rows
