"""The frame of programs that check and time problems with names, points, beside others."""

import argparse
import statistics

from common.bench import peers
from common.bench.checks import largest, rms
from common.bench.command import Failure, Skipped
from common.bench.peers import HEADINGS, OURS
from common.bench.problems import name_of
from common.bench.program import record_head, writing
from common.bench.pytorch import torch
from common.bench.timing import clock_and_power, percentiles, time_in_turn
from common.data import records
from common.data.files import check_writable, write_file


class Case:
    """The tensors of a point, and what computes it: q, v, and

    ours(library) gives our call, which returns what it computes.
    others() gives {name: function that prepares a call}, None for what a backend does not have.
    differences(o) gives differences from float64 of the rows that are checked.
    work() gives FLOPs or bytes, `rate` the field of a record for them in a second, and its unit.
    """

    headings = HEADINGS
    rate, unit = "tflops", 1e12

    def label(self, backend):
        """What a record says of a call."""
        return {"backend": backend, "type": name_of(torch.bfloat16), **self.point._asdict()}

    def calls(self, library):
        """{name: call} of those that can compute it."""
        found = {OURS: self.ours(library)}
        for name, prepare in self.others().items() if self.q.is_cuda else ():
            try:
                call = prepare()
                if call is not None:
                    call()
                    found[name] = call
            except Exception as error:  # what a peer raises is not known
                print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
        return found

    def check(self, calls):
        """Prints errors. Returns rows for the record, and whether ours is right."""
        rows, good = [], True
        allowed = 2 * torch.finfo(torch.bfloat16).eps * largest(self.v)
        for name, call in calls.items():
            off = self.differences(call())
            error, rms_error = max(largest(x) for x in off), max(rms(x) for x in off)
            right = error <= allowed  # false for NaN
            good = good and (right or name != OURS)
            print(
                f"{self.point.group:16}{self.headings[name]:>10}  largest error {error:.2e}, "
                f"rms {rms_error:.2e}" + ("" if right else f"  too large: {allowed:.2e} is allowed")
            )
            errors = {"largest_error": error, "rms_error": rms_error}
            rows.append({"what": "error", **self.label(name), **errors})
        return rows, good

    def time(self, calls, repeats, seconds):
        """Rows for the record; the calls alternate."""
        timed, work = time_in_turn(calls, repeats, seconds), self.work()
        ran_at = clock_and_power()
        rows = []
        for name, rounds in timed.items():
            milliseconds = statistics.median(rounds)
            rows.append(
                {
                    "what": "time",
                    **self.label(name),
                    "milliseconds": round(milliseconds, 6),
                    "milliseconds_5_95": [round(x, 6) for x in percentiles(rounds, (5, 95))],
                    self.rate: round(work / (milliseconds / 1e3) / self.unit, 1),
                    "rounds": len(rounds),
                    **ran_at,
                }
            )
        return rows


def parser_of(doc):
    """The options of such a program."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--library", metavar="PATH", help="this lesson's library")
    parser.add_argument("--points", metavar="NAMES", help="only these, with commas between")
    parser.add_argument("--flash-attention-3", metavar="PATH", help="as in example.py")
    parser.add_argument("--repeats", type=int, default=20, help="as in example.py")
    parser.add_argument("--seconds", type=float, default=2, help="as in example.py")
    parser.add_argument("--json", metavar="FILE", help="write a record of what was measured")
    parser.add_argument("--commit", default="", help="the commit of a copy without git")
    return parser


def points_of(names, goals):
    """Points by their groups, "b1_32k,ragged"; all without names."""
    if names is None:
        return goals
    known = {point.group: point for point in goals}
    for name in names.split(","):
        if name not in known:
            raise Failure(f"there are no points '{name}'; allowed are {', '.join(known)}")
    return [known[name] for name in names.split(",")]


def run(args, load, goals, small, case_of, print_times):
    """Checks the points, and times them on a GPU. Returns the exit status.

    load(args) gives the library. small(points) gives those for the CPU. case_of(point, device)
    gives a Case. print_times(rows) prints a table.
    """
    if args.library is None:
        raise Failure("which library is to be called? Give --library PATH")
    if torch is None:
        raise Skipped("PyTorch is needed, and this Python has none")
    points, library = points_of(args.points, goals), load(args)
    on_gpu = library.runs_on == "gpu"
    if on_gpu and not torch.cuda.is_available():
        raise Failure(f"{args.library} is for GPUs, and PyTorch finds none")
    found = peers.load(args.flash_attention_3) if on_gpu else {}
    if args.json:
        with writing(args.json):
            check_writable(args.json)
    rows, timed, good = [], [], True
    for point in points if on_gpu else small(points):
        case = case_of(point, "cuda" if on_gpu else "cpu")
        calls = case.calls(library)
        of_case, right = case.check(calls)
        rows, good = rows + of_case, good and right
        if on_gpu:
            timed += case.time(calls, args.repeats, args.seconds)
            del case, calls
            torch.cuda.empty_cache()
    if on_gpu:
        print()
        print_times(timed)
    if args.json:
        with writing(args.json):
            head = record_head(on_gpu, args.commit, found)
            write_file(args.json, records.text_of(head, rows + timed))
    return 0 if good else 1
