"""Doxygen's input filter for C++ and CUDA: `cpp2dox.py FILE` prints what Doxygen shall read.

It blanks the marks of listings, `//! [tag]`: Doxygen would take each for the description of what
follows. To a source file it adds @file: Doxygen links from a header to the file in which a function
is defined even when it writes no page for that file. With @file it asks for a description of each
macro in the file, so those without one are called local. Lines keep their numbers.
"""

import pathlib
import re
import sys

from docs.site.excerpts import MARK


def main(arguments):
    """Prints the translated file; returns the exit status, which Doxygen ignores."""
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    try:
        path = pathlib.Path(arguments[0])
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        print(f"{arguments[0]}: cpp2dox.py cannot read the file: {error}", file=sys.stderr)
        print(r"/** @file" "\n" r"\ref error_cpp2dox_could_not_read_this_file */")
        return 2
    print("\n".join("" if MARK.match(line) else line for line in lines))
    if path.suffix in (".cpp", ".cu"):
        print("/** @file */")
        for before, line in zip([""] + lines, lines):
            macro = re.match(r"\s*#\s*define\s+(\w+)", line)
            if macro and not before.lstrip().startswith("///"):
                print(f"/** @def {macro[1]}\nA macro of this file only. */")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
