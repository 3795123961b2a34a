"""A class in one file: its weeks, their dates, the exercises and their weights.

    title: Kernels, spring
    seed: spring          # optional: the class's own numbers
    weeks:
      - title: Safe softmax
        due: 2027-03-08
        exercises:
          02_row_max: 1       # weight: 1 leaves the points as they are
          02_log_sum_exp: 2

From it `./learn classroom export --class FILE` makes the files that a class needs, and
`./learn grade --class FILE` grades these exercises with these weights.
"""

import datetime
import pathlib

from common.classroom import handout
from common.classroom.catalogue import Fault

PLAN = "class.yaml"  # in an exported copy


class Plan:
    """What the file says, checked."""

    def __init__(self, path, exercises):
        """@param exercises of the course"""
        try:
            import yaml
        except ImportError as error:
            raise Fault(
                "a class's file needs PyYAML: install python3-yaml, or pip install pyyaml"
            ) from error
        try:
            self.text = pathlib.Path(path).read_text(encoding="utf-8")
            said = yaml.safe_load(self.text)
            self.title, self.seed = str(said.get("title", "")), str(said.get("seed", ""))
            weeks = [(w["title"], w["due"], w["exercises"]) for w in said["weeks"]]
        except (OSError, AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
            raise Fault(f"{path} is not a class's file: {error!r}") from error
        by_id = {exercise.id: exercise for exercise in exercises}
        self.weeks = []
        for title, due, weights in weeks:
            if not isinstance(due, datetime.date):
                raise Fault(f"{path}: '{title}' is due {due!r}; a date is written 2027-03-08")
            for name, weight in dict(weights).items():
                if name not in by_id:
                    raise Fault(f"{path}: there is no exercise '{name}'")
                if isinstance(weight, bool) or not isinstance(weight, (int, float)) or weight < 0:
                    raise Fault(f"{path}: {name} has weight {weight!r}; allowed are numbers from 0")
            self.weeks.append((str(title), due, [(by_id[n], w) for n, w in weights.items()]))

    def exercises(self):
        """The exercises of all weeks, their points multiplied by the weights."""
        chosen = {}
        for _, _, weighted in self.weeks:
            for exercise, weight in weighted:
                points = {stage: weight * number for stage, number in exercise.points.items()}
                chosen.setdefault(exercise, points)
        for exercise, points in chosen.items():
            exercise.points = points
        return list(chosen)

    def schedule(self):
        """The weeks as a page."""
        lines = [f"# {self.title}", "", "| Due | Week | Exercise | Minutes | Weight |"]
        lines.append("|---|---|---|---:|---:|")
        for title, due, weighted in self.weeks:
            for exercise, weight in weighted:
                name = f"`{exercise.id}`: {exercise.title}"
                lines.append(f"| {due} | {title} | {name} | {exercise.minutes} | {weight:g} |")
        return "\n".join(lines) + "\n"

    def handout(self):
        """The tasks, and what students begin with, as one HTML page to print: no hints, no
        solutions."""
        groups = ((f"{title}, due {due}", weighted) for title, due, weighted in self.weeks)
        return handout.page(
            self.title, [(heading, [one for one, _ in chosen]) for heading, chosen in groups]
        )


# What Gradescope runs once, in a bare container, with the copy unpacked in /autograder/source.
SETUP = """#!/usr/bin/env bash
# Installs what checks need, and builds it.
set -e
cd "$(dirname "$0")"
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  apt-get update
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 python3-yaml \\
    $(awk '$1 == "run" {print $2}' common/cmake/packages.txt)
fi
./learn grade --layers --no-install
"""
# For each submission.
RUN = """#!/usr/bin/env bash
# Marks ${1:-/autograder}/submission into ${1:-/autograder}/results/results.json.
set -e
folder=${1:-/autograder}
mkdir -p "$folder/results"
cd "$folder/source"
./learn grade "$folder/submission" --class class.yaml --format gradescope \\
  --output "$folder/results/results.json"
"""
WORKFLOW = """name: Autograding
on: [push, workflow_dispatch]
permissions:
  checks: write
  actions: read
  contents: read
jobs:
  grade:
    runs-on: ubuntu-latest
    if: github.actor != 'github-classroom[bot]'
    steps:
      - uses: actions/checkout@v4
      - run: sudo bash setup.sh
      - id: grade
        run: |
          sudo ./learn grade my_exercises --class class.yaml --format github --output marks.json
          echo "result=$(base64 -w0 marks.json)" >> "$GITHUB_OUTPUT"
      - uses: classroom-resources/autograding-grading-reporter@v1
        env:
          GRADE_RESULTS: ${{ steps.grade.outputs.result }}
        with:
          runners: grade
"""


def files(plan):
    """Name -> text, of the files of a class in an exported copy."""
    return {
        PLAN: plan.text,
        "class/schedule.md": plan.schedule(),
        "class/handout.html": plan.handout(),
        "setup.sh": SETUP,
        "run_autograder": RUN,
        ".github/workflows/classroom.yml": WORKFLOW,
    }
