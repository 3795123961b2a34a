"""Runs a check of the pages, of the finished site or of the EPUB: a function that yields messages
and returns a summary. Its parameters are the paths that it needs.

    python3 -m docs.site.check links --root .
    python3 -m docs.site.check exercises --root . --write     with write() of the module instead

Exit status: 0 all is well, 1 something is not, 2 could not be done.
"""

import argparse
import importlib
import inspect
import pathlib
import sys

# Name: module and function; some need packages.
CHECKS = {
    "chapters": "check_pages.chapters",
    "drawings": "check_drawings.faults",
    "epub": "check_site.epub",
    "exercises": "exercise_pages.faults",
    "glossary": "check_pages.glossary",
    "links": "check_pages.links",
    "site": "check_site.site",
}


def main(arguments=None):
    """Returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else list(map(str, arguments))
    parser = argparse.ArgumentParser(description="Check pages.")
    parser.add_argument("name", choices=CHECKS)
    name = parser.parse_args(arguments[:1]).name
    module, _, function = CHECKS[name].partition(".")
    module = importlib.import_module(f"docs.site.{module}")
    faults = getattr(module, function)
    paths = list(inspect.signature(faults).parameters)
    for path in paths:
        parser.add_argument(f"--{path}", required=True, type=pathlib.Path)
    if hasattr(module, "write"):
        parser.add_argument("--write", action="store_true", help=module.write.__doc__)
    given = vars(parser.parse_args(arguments))
    look = module.write if given.get("write") else faults
    count, found = 0, look(*(given[path].resolve() for path in paths))
    try:
        while True:
            print(next(found))
            count += 1
    except StopIteration as end:
        print(f"{end.value}, {count} faults.")
    except (OSError, ValueError) as error:
        print(f"check {name}: {error}", file=sys.stderr)
        return 2
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
