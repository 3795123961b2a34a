"""The program of an example: its options, what they do, and the record that it writes."""

import argparse
import datetime
import shlex
import subprocess
import sys

from common.bench.command import Failure, Skipped, module
from common.bench.peers import OURS, torch
from common.bench.peers import load as load_peers
from common.bench.problems import GROUPS, SETS, check_graphs_and_gpus, check_problems, points_of
from common.bench.tables import print_record, print_times
from common.bench.timing import time_points
from common.data.files import check_writable, write_file
from common.data.records import text_of


class Example:
    """What an example measures; lessons 05 and 06 each have one.

    load(args) sets `library`, which has `runs_on`.
    errors(problem, device, seed) gives for each output (label, {backend: (largest error, rms
        error)}, objection to ours or "", further fields of the record).
    same_call(device) gives a call that has more tiles than a GPU has SMs, and its outputs, each
        time with the same inputs.
    prepare(names, q, k, v, causal) gives {column: call} and {column: name of our kernel} for the
        names it can, and the inputs of a pass; a call returns what it computes.
    reference(inputs, causal) gives the same in float64, {name: tensor}, for query heads that share
        one head of K and V.
    """

    what = ""  # whose errors are checked
    explanation = ""  # of the errors
    label_heading = ""
    checked = (OURS,)  # columns of errors before those of the backends
    timed = (OURS,)  # and of times
    matmuls = (0, 0)  # of a pass, for Point.flops()

    def more_problems(self, small):
        """Problems to check beside those of every example."""
        return []


def shared_parser(doc):
    """The options of every program that calls a library on PyTorch's tensors."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--library", metavar="PATH", help="this lesson's library")
    words = "FlashAttention-3's library for PyTorch, if it is not that of an installed package"
    parser.add_argument("--flash-attention-3", metavar="PATH", help=words)
    words = "how often a call is timed at least (default 20)"
    parser.add_argument("--repeats", type=int, default=20, help=words)
    words = "how long the calls of a point are timed at least, in turn (default 2)"
    parser.add_argument("--seconds", type=float, default=2, help=words)
    parser.add_argument("--json", metavar="FILE", help="the record to write, after each point")
    parser.add_argument("--commit", metavar="ID", help="of the code, for a copy without git")
    return parser


def parser_of(doc):
    """The options of an example."""
    parser = shared_parser(doc)
    parser.add_argument("--table", metavar="FILE", help="print a record; needs no PyTorch")
    parser.add_argument("--check", action="store_true", help="errors against float64")
    parser.add_argument("--time", action="store_true", help="times beside others")
    words = f"what is timed, with commas between: {', '.join([*SETS, *GROUPS])} (default goals)"
    parser.add_argument("--points", default="goals", metavar="NAMES", help=words)
    words = "where pip --target has installed FlashAttention-4, if not in Python's path"
    parser.add_argument("--flash-attention-4", metavar="FOLDER", help=words)
    return parser


def begin(args, load):
    """Loads the library. Returns it, and whether it is for GPUs."""
    if args.library is None:
        raise Failure("which library is to be called? Give --library PATH")
    if torch is None:
        raise Skipped("PyTorch is needed, and this Python has none")
    library = load(args)
    on_gpu = library.runs_on == "gpu"
    if on_gpu and not torch.cuda.is_available():
        raise Failure("the library is for GPUs, and PyTorch finds none")
    return library, on_gpu


def run(example, args):
    """Does what the options ask for. Returns the exit status."""
    if args.table:
        print_record(args.table, example.what)
        return 0
    if args.repeats < 1:
        raise Failure(f"{args.repeats} repeats to time; at least 1 is needed")
    points = points_of(args.points)
    _, on_gpu = begin(args, lambda args: example.load(args) or example.library)
    if args.time and not on_gpu:
        raise Failure("the library is for the CPU, where times would say nothing")
    peers = load_peers(args.flash_attention_3, args.flash_attention_4) if on_gpu else {}
    kept, good = Record(args.json, record_head(on_gpu, args, peers)), True
    both = not (args.check or args.time)
    if args.check or both:
        rows, good = check_problems(example, "cuda" if on_gpu else "cpu")
        good = (not on_gpu or check_graphs_and_gpus(example.same_call)) and good
        kept.put(rows)
    if args.time or (both and on_gpu):
        time_points(example, points, kept, args.repeats, args.seconds)
        print_times(kept.rows)
    return 0 if good else 1


class Record:
    """A record that is written after each point: a run that is cut leaves what it has measured."""

    def __init__(self, path, head):
        """path: None where nothing is written."""
        self.path, self.head, self.rows = path, head, []
        if path:
            check_writable(path)

    def put(self, rows):
        """Writes the file with these rows, too."""
        self.rows += rows
        if self.path:
            write_file(self.path, text_of(self.head, self.rows))


def first_line(*command):
    """What a command prints first; "unknown" when it prints nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return (done.stdout.splitlines() or ["unknown"])[0].strip()


# What changes the rows of a point: a record has one value of each.
MEASURED_WITH = ("repeats", "seconds", "deterministic", "fixed_order", "heads", "head_dim")


def record_head(on_gpu, args, peers):
    """What a record says of the machine and the code. peers: {what was compared: its version}."""
    return {
        "gpu": torch.cuda.get_device_name() if on_gpu else "none",
        "driver": first_line("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "toolkit": torch.version.cuda or "none",
        "torch": torch.__version__,
        "commit": args.commit
        or first_line("git", "describe", "--always", "--dirty", "--abbrev=12"),
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python3", "-m", module(), *sys.argv[1:]]),
        "options": {name: getattr(args, name) for name in MEASURED_WITH if hasattr(args, name)},
        "peers": peers,
    }
