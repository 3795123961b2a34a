"""Ring attention on MPI ranks, run as a reader runs it: results, and faults that must end all ranks
with one message. RING_ATTENTION names the program."""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["RING_ATTENTION"]
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}  # Open MPI keeps memory
METHODS = ("all-gather", "ring", "overlap", "heads")
SMALL = "--length-q 9 --length-k 9 --heads 2 --kv-heads 2 --head-dim 4".split()


def run(*arguments, fault=""):
    return subprocess.run(
        [PROGRAM, "--section", "ranks", *arguments],
        env={**ENVIRONMENT, "RING_FAULT": fault},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def setUpModule():
    outcome = run("--ranks", "1", *SMALL)
    if outcome.returncode == 77:
        raise unittest.SkipTest(" ".join(outcome.stdout.split()))


def changed(name, value):
    """The program with the small problem, but for one option."""
    option = "--" + name.replace("_", "-")
    if option not in SMALL:
        return [PROGRAM, *SMALL, option, value]
    words = list(SMALL)
    words[words.index(option) + 1] = value
    return [PROGRAM, *words]


def mpirun(*parts):
    """Several programs in one run: lists of words, each for one rank."""
    words = ["mpirun", "--quiet", "--oversubscribe", "--bind-to", "none"]
    words += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    for number, part in enumerate(parts):
        words += [":"] * (number > 0) + ["-n", "1", *part]
    return subprocess.run(
        words, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False
    )


def side_by_side(function, calls):
    """[function(*call) of each call]: such runs wait for most of their time."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda call: function(*call), calls))


class Faults(unittest.TestCase):
    def check_refused(self, outcome, *texts):
        """One line of the program on standard error, with these texts, and status 2."""
        self.assertEqual(outcome.returncode, 2, outcome)
        lines = outcome.stderr.splitlines()
        self.assertEqual(len(lines), 1, outcome.stderr)
        self.assertTrue(lines[0].startswith("ring_attention: "), lines)
        for text in texts:
            self.assertIn(text, lines[0])

    def check_fault(self, kind, *texts):
        def run_with(method):
            words = ["--ranks", "3", "--timeout", "2", "--method", method, *SMALL]
            return run(*words, fault=f"1:{kind}")

        start = time.monotonic()
        outcomes = side_by_side(run_with, [(method,) for method in METHODS])
        self.assertLess(time.monotonic() - start, 30)
        for method, outcome in zip(METHODS, outcomes):
            with self.subTest(method=method):
                self.check_refused(outcome, "rank 1", *texts)

    def test_a_rank_that_is_killed_is_named_with_its_signal(self):
        self.check_fault("kill", "signal 9")

    def test_a_rank_that_ends_early_is_named_with_its_status(self):
        self.check_fault("exit", "status 3")

    def test_a_rank_that_throws_is_named_with_its_error(self):
        self.check_fault("throw", "out of memory")

    def test_a_rank_that_stops_is_named_by_the_ranks_that_wait(self):
        self.check_fault("stop", "did not answer for 2 s")

    def test_another_shape_on_one_rank_is_named(self):
        same = [PROGRAM, *SMALL]
        names = ("length_k", "heads", "head_dim", "batch")
        calls = []
        for other in (changed(name, "6") for name in names):
            calls += [(same, same, other), (other, same, same)]
        outcomes = side_by_side(mpirun, calls)
        for name, last, first in zip(names, outcomes[::2], outcomes[1::2]):
            with self.subTest(name=name):
                self.check_refused(last, f"rank 2 has {name} 6, rank 0 has")
                self.check_refused(first, f"rank 0 has {name} 6, rank 1 has")
        outcome = mpirun(same, [*same, "--mask", "causal"])
        self.check_refused(outcome, "rank 1 has another mask than rank 0")

    def test_another_build_on_one_rank_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "ring_attention"
            shutil.copy(PROGRAM, other)
            with other.open("ab") as file:
                file.write(b"another build")
            outcome = mpirun([PROGRAM, *SMALL], [str(other), *SMALL])
            self.check_refused(outcome, "rank 1 has another build than rank 0")

    def test_bad_options_are_refused_once(self):
        self.check_refused(run("--heads", "3", "--kv-heads", "2"), "multiple")
        bad = [PROGRAM, "--length-q", "0"]
        self.check_refused(mpirun(bad, bad), "--length-q")
        self.check_refused(mpirun([PROGRAM, *SMALL], bad), "--length-q")


if __name__ == "__main__":
    unittest.main()
