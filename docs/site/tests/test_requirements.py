"""The packages of the site's tools must run with the oldest Python that the pages promise."""

import importlib.metadata
import pathlib
import re
import unittest

LIST = pathlib.Path(__file__).resolve().parents[1] / "requirements.txt"
OLDEST = (3, 10)


class Requirements(unittest.TestCase):
    def test_run_with_the_oldest_python(self):
        names = re.findall(r"^([\w.-]+)==[^;\n]*\\$", LIST.read_text(encoding="utf-8"), re.M)
        self.assertGreater(len(names), 20)
        for name in names:
            needed = importlib.metadata.metadata(name).get("Requires-Python") or ""
            found = re.search(r">=\s*(\d+)\.(\d+)", needed)
            least = tuple(map(int, found.groups())) if found else OLDEST
            self.assertLessEqual(least, OLDEST, name)


if __name__ == "__main__":
    unittest.main()
