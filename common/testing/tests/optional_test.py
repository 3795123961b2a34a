"""Tests that a test which needs an optional package is skipped without it, and does not fail.

FA_BUILD names the build. Each package is hidden in turn: programs by a PATH without them, modules
of Python by modules of their name that cannot be imported."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from common.testing.skipped import skipped

# What is hidden: programs, modules of Python, and the tests that need them.
OPTIONAL = {
    "Chromium": (
        ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"],
        [],
        ["docs.explorers", "docs.site"],
    ),
    "Playwright": ([], ["playwright"], ["docs.explorers", "docs.site"]),
    "PyTorch": ([], ["torch"], ["lesson05.interface.operators", "lesson06.interface.operators"]),
    "matplotlib": ([], ["matplotlib"], ["docs.programs"]),
    "nvcc": (["nvcc"], [], ["common.flatten_py"]),
}
MAY_PASS = {"docs.programs", "common.flatten_py"}  # of which only some cases are skipped


def without(folder, programs, modules):
    """The environment in which these are hidden."""
    shown, hidden = folder / "bin", folder / "modules"
    shown.mkdir()
    hidden.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for file in pathlib.Path(place).iterdir() if os.path.isdir(place) else ():
            if file.name not in programs and not (shown / file.name).is_symlink():
                (shown / file.name).symlink_to(file)
    for module in modules:
        (hidden / f"{module}.py").write_text("raise ModuleNotFoundError(__name__)\n")
    return {**os.environ, "PATH": str(shown), "PYTHONPATH": str(hidden), "CUDA_HOME": str(folder)}


class OptionalTest(unittest.TestCase):
    def test_without_a_package_its_tests_are_skipped(self):
        for package, (programs, modules, names) in OPTIONAL.items():
            with self.subTest(package), tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                pattern = "^(" + "|".join(name.replace(".", "[.]") for name in names) + ")$"
                command = ["ctest", "--test-dir", os.environ["FA_BUILD"], "-R", pattern]
                command += ["--output-junit", str(folder / "tests.xml"), "--output-on-failure"]
                environment = without(folder, programs, modules)
                done = subprocess.run(command, env=environment, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout)
                found = skipped(folder / "tests.xml")
                self.assertNotIn("no reason given", found)
                left = {name for name in names if name in done.stdout} - MAY_PASS
                self.assertLessEqual(left, {name for of in found.values() for name in of})


if __name__ == "__main__":
    unittest.main()
