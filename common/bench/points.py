"""The frame of programs that check and time problems with names, points, beside others."""

from common.bench import peers
from common.bench.command import Failure
from common.bench.peers import HEADINGS, OURS, torch
from common.bench.problems import largest, name_of, rms
from common.bench.program import Record, begin, record_head, shared_parser
from common.bench.timing import clock_and_power, row_of_times, time_in_turn
from common.data import records


class Case:
    """The tensors of a point, and what computes it: q, v, and

    ours(library) gives our call, which returns what it computes.
    others() gives {name: function that prepares a call}, None for what a backend does not have.
    differences(o) gives differences from float64 of the rows that are checked.
    work() gives FLOPs or bytes, `rate` the field of a record for them in a second, and its unit.
    """

    headings = HEADINGS
    own = (OURS,)  # of the names those that must be right
    clean = False  # see median_milliseconds()
    rate, unit = "tflops", 1e12

    def label(self, backend):
        """What a record says of a call."""
        return {"backend": backend, "type": name_of(torch.bfloat16), **self.point._asdict()}

    def calls(self, library):
        """{name: call} of those that can compute it, and a row for each other one that fails."""
        found, rows = {OURS: self.ours(library)}, []
        for name, prepare in self.others().items() if self.q.is_cuda else ():
            try:
                call = prepare()
                if call is not None:
                    call()
                    found[name] = call
            except Exception as error:  # what a peer raises is not known
                why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                print(f"{self.point.group:16}{self.headings[name]:>10}  missing: {why}")
                rows.append({"what": "missing", **self.label(name), "why": why})
        return found, rows

    def check(self, calls):
        """Prints errors. Returns rows for the record, and whether ours is right."""
        rows, good = [], True
        allowed = 2 * torch.finfo(torch.bfloat16).eps * largest(self.v)
        for name, call in calls.items():
            off = self.differences(call())
            error, rms_error = max(largest(x) for x in off), max(rms(x) for x in off)
            right = error <= allowed  # false for NaN
            good = good and (right or name not in self.own)
            print(
                f"{self.point.group:16}{self.headings[name]:>10}  largest error {error:.2e}, "
                f"rms {rms_error:.2e}" + ("" if right else f"  too large: {allowed:.2e} is allowed")
            )
            errors = {"largest_error": error, "rms_error": rms_error}
            rows.append({"what": "error", **self.label(name), **errors})
        return rows, good

    def time(self, calls, repeats, seconds):
        """Rows for the record; the calls alternate."""
        timed = time_in_turn(calls, repeats, seconds, self.clean)
        rates, ran_at = {self.rate: 1e3 * self.work() / self.unit}, clock_and_power()
        return [
            row_of_times(self.label(name), rounds, ran_at, **rates)
            for name, rounds in timed.items()
        ]


def parser_of(doc):
    """The options of such a program."""
    parser = shared_parser(doc)
    parser.add_argument("--points", metavar="NAMES", help="only these, with commas between")
    parser.add_argument("--table", metavar="FILE", help="print a record; needs no PyTorch")
    return parser


def points_of(names, goals):
    """Points by their groups, "b1_32k,ragged", or by how these begin, "grid"; all without names."""
    if names is None:
        return goals
    found = []
    for name in names.split(","):
        of_name = [point for point in goals if point.group == name]
        of_name = of_name or [p for p in goals if p.group.startswith(name + "_")]
        if not of_name:
            known = ", ".join(point.group for point in goals)
            raise Failure(f"there are no points '{name}'; allowed are {known}")
        found += of_name
    return found


def run(args, load, goals, small, case_of, print_times):
    """Checks the points, and times them on a GPU. Returns the exit status.

    load(args) gives the library. small(points) gives those for the CPU. case_of(point, device)
    gives a Case. print_times(rows) prints a table.
    """
    if args.table:
        record = records.read(args.table)
        print_times(records.rows_with(record, what="time"))
        print("\n".join(records.source_lines(record)))
        return 0
    points = points_of(args.points, goals)
    library, on_gpu = begin(args, load)
    found = peers.load(args.flash_attention_3) if on_gpu else {}
    record, good = Record(args.json, record_head(on_gpu, args, found)), True
    if not on_gpu:
        points = small(points)
    for point in points:
        case = case_of(point, "cuda" if on_gpu else "cpu")
        calls, rows = case.calls(library)
        of_case, right = case.check(calls)
        rows += of_case
        if on_gpu:
            rows += case.time(calls, args.repeats, args.seconds)
        if right:
            record.put(rows)
        good = good and right
        del case, calls
        torch.cuda.empty_cache()
    if on_gpu:
        print()
        print_times([row for row in record.rows if row["what"] == "time"])
    return 0 if good else 1
