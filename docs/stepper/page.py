"""Makes the tile stepper's files from what lesson 03's program wrote.

    page.py data STEPS_JSON STEPPER_DATA_JS    the numbers as a script, which a page may load from a
    file page.py alone STEPS_JSON DIRECTORY         the stepper as a page of its own, for tests:
    DIRECTORY/stepper.html

Exit status: 0 done, 2 could not be done.
"""

import argparse
import json
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tile stepper</title>
</head>
<body>
{}</body>
</html>
"""


def write_data(steps, file):
    """The numbers as a script that sets window.tileSteps."""
    text = steps.read_text(encoding="utf-8")
    runs = json.loads(text)["runs"]  # a half-written file must not get onto the site
    if not runs:
        raise ValueError(f"{steps} has no run")
    file.write_text(f"window.tileSteps = {text.rstrip()};\n", encoding="utf-8")


def write_alone(steps, directory):
    """A page without the site around it. Returns its path."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("stepper.css", "stepper.js"):
        shutil.copyfile(HERE / name, directory / name)
    write_data(steps, directory / "stepper_data.js")
    page = directory / "stepper.html"
    fragment = (HERE / "stepper.html").read_text(encoding="utf-8")
    page.write_text(PAGE.format(fragment), encoding="utf-8")
    return page


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Make the tile stepper's files.")
    parser.add_argument("what", choices=("data", "alone"))
    parser.add_argument("steps", type=pathlib.Path, help="steps.json, as the program wrote it")
    parser.add_argument("target", type=pathlib.Path, help="file or directory to write")
    options = parser.parse_args(arguments)
    try:
        {"data": write_data, "alone": write_alone}[options.what](options.steps, options.target)
    except (OSError, ValueError, KeyError) as error:
        print(f"page.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
