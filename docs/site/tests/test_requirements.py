"""The packages of Sphinx must run with the oldest Python that the pages promise."""

import os
import pathlib
import re
import unittest

OLDEST = (3, 10)


class Requirements(unittest.TestCase):
    def test_run_with_the_oldest_python(self):
        python = os.environ.get("FA_DOCS_SPHINX", "")
        folder = pathlib.Path(python).parents[1] if python else None
        pattern = "lib/python3*/site-packages/*.dist-info/METADATA"
        files = sorted(folder.glob(pattern)) if folder else []
        if not files:
            self.skipTest("Sphinx is not fetched")
        for file in files:
            needed = re.search(r"^Requires-Python: >=\s*([\d.]+)", file.read_text("utf-8"), re.M)
            least = tuple(map(int, needed[1].split("."))) if needed else OLDEST
            self.assertLessEqual(least, OLDEST, file.parent.name)


if __name__ == "__main__":
    unittest.main()
