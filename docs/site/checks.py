"""The command line of the programs that check pages, the site or the glossary."""

import argparse
import pathlib
import sys


def run(name, faults, arguments=None, *options, root=True):
    """Runs a check: faults(root) yields messages and returns a summary; `options` are the names of
    further paths that it takes. Returns the exit status: 0 all is well, 1 something is not, 2 could
    not be done."""
    parser = argparse.ArgumentParser(description=faults.__doc__.splitlines()[0])
    options = ("root", *options) if root else options
    for option in options:
        parser.add_argument(f"--{option}", required=True, type=pathlib.Path)
    given = vars(parser.parse_args(arguments))
    paths = [given[option].resolve() for option in options]
    count, found = 0, faults(*paths)
    try:
        while True:
            print(next(found))
            count += 1
    except StopIteration as end:
        print(f"{end.value}, {count} faults.")
    except (OSError, ValueError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    return 1 if count else 0
