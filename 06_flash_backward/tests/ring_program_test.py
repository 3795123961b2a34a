"""The program ring_attention as a reader runs it: on threads and, where MPI is installed, on its
processes. RING_ATTENTION and MPIRUN name programs."""

import os
import subprocess
import unittest

PROGRAM = [os.environ["RING_ATTENTION"], "--section", "ranks"]
ODD = "--length-q 19 --length-k 61 --batch 2 --heads 6 --kv-heads 3 --head-dim 8".split()


def run(ranks, arguments, *, processes):
    """The program on so many ranks."""
    command = [*PROGRAM, "--ranks", str(ranks), *arguments]
    if processes:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        start = [os.environ["MPIRUN"], *root, "--oversubscribe", "--bind-to", "none"]
        command = [*start, "-n", str(ranks), *command]
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}  # Open MPI keeps memory
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


class Threads(unittest.TestCase):
    processes = False

    def test_every_form_and_mask_is_checked_once(self):
        for ranks in (1, 3, 4):
            outcome = run(ranks, ODD, processes=self.processes)
            self.assertEqual(outcome.returncode, 0, outcome)
            self.assertEqual(outcome.stdout.count("PASS"), 2 * 5 * 2, outcome.stdout)
            self.assertNotIn("FAIL", outcome.stdout)


@unittest.skipUnless("MPIRUN" in os.environ, "MPI is not installed")
class Processes(Threads):
    processes = True


class Options(unittest.TestCase):
    def test_bad_options_are_refused(self):
        for option in (["--heads", "3", "--kv-heads", "2"], ["--length-q", "0"]):
            outcome = run(2, option, processes=False)
            self.assertEqual(outcome.returncode, 2, outcome)
            self.assertIn(option[1], outcome.stderr)


if __name__ == "__main__":
    unittest.main()
