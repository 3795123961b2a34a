"""Marks in the forms that other programs read.

A mark is a pair of an exercise and the results of its stages.
"""

import csv
import datetime
import html
import io
import json
import os
import re
import xml.etree.ElementTree as xml

from common.data.files import printable

CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def given(result):
    """Points for one stage."""
    return result.points if result.passed else 0


def clean(text):
    """A text without what XML and terminals cannot have."""
    return CONTROL.sub(" ", text)


def said(result):
    """The message of a stage for the student."""
    words = {
        "passed": "",
        "not reached": "not reached",
        "skipped": "not graded here, points given",
        "refused": "",
    }
    parts = [
        words[result.verdict],
        result.message,
        *(f"{name}: {number}" for name, number in result.notes),
    ]
    return clean("\n".join(part for part in parts if part))


def plain(name, marks):
    """For people."""
    lines, total, most = [printable(name)], 0, 0
    for exercise, results in marks:
        points, full = sum(map(given, results)), sum(r.points for r in results)
        total, most = total + points, most + full
        lines.append(f"  {exercise.id:<28} {points:>5g} of {full:<5g} {exercise.title}")
        for result in results:
            if result.verdict == "refused":
                first = result.message.split("\n")[0]
                lines.append(f"      {result.title}: {printable(first)}")
    lines.append(f"  {'in all':<28} {total:>5g} of {most:g}")
    return "\n".join(lines)


def gradescope(_name, marks):
    """results.json of Gradescope. Source: its Autograder Specifications, "Output format"."""
    tests, number = [], 0
    for exercise, results in marks:
        number += 1
        for part, result in enumerate(results, 1):
            tests.append(
                {
                    "name": f"{exercise.id}: {result.title}",
                    "number": f"{number}.{part}",
                    "score": given(result),
                    "max_score": result.points,
                    "status": "passed" if result.passed else "failed",
                    "output": said(result),
                    "output_format": "text",
                    "visibility": "visible",
                    "tags": [exercise.lesson, exercise.kind],
                }
            )
    score = sum(test["score"] for test in tests)
    return json.dumps(
        {"score": score, "output_format": "text", "stdout_visibility": "hidden", "tests": tests},
        indent=1,
    )


def classroom50(name, marks):
    """result.json of Classroom 50, schema classroom50/result/v1. Source: its wiki, "Advanced
    Autograding", "The result.json contract". Identities come from the variables that its runner
    sets; without them
    they say "local"."""
    tests = []
    for exercise, results in marks:
        for result in results:
            tests.append(
                {
                    "test-name": f"{exercise.id}: {result.title}",
                    "passed": result.passed,
                    "score": given(result),
                    "max-score": result.points,
                    "output": said(result),
                }
            )
    for test in tests:
        for field in ("score", "max-score"):
            if test[field] != int(test[field]):
                raise ValueError(
                    f"Classroom 50 takes whole points only, and {test['test-name']} has "
                    f"{test[field]}"
                )
            test[field] = int(test[field])
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    variable = {
        key: os.environ.get(key) or "local"
        for key in (
            "CLASSROOM",
            "ASSIGNMENT",
            "SUBMISSION_TAG",
            "COMMIT_URL",
            "RELEASE_URL",
            "ASSIGNMENT_TYPE",
        )
    }
    return json.dumps(
        {
            "schema": "classroom50/result/v1",
            "classroom": variable["CLASSROOM"],
            "assignment": variable["ASSIGNMENT"],
            "assignment_type": "group" if variable["ASSIGNMENT_TYPE"] == "group" else "individual",
            "owner": os.environ.get("OWNER") or os.environ.get("USERNAME") or name,
            "submission": variable["SUBMISSION_TAG"],
            "commit": variable["COMMIT_URL"],
            "release": variable["RELEASE_URL"],
            "review": os.environ.get("REVIEW_URL") or variable["COMMIT_URL"],
            "datetime": now,
            "graded_at": now,
            "score": sum(test["score"] for test in tests),
            "max-score": sum(test["max-score"] for test in tests),
            "tests": tests,
        },
        indent=1,
    )


def junit(name, marks):
    """JUnit XML. Source: the schema junit-10.xsd of the Jenkins xUnit plugin."""
    suites = xml.Element("testsuites", name=clean(name))
    for exercise, results in marks:
        failed = sum(r.verdict == "refused" for r in results)
        left_out = sum(r.verdict in ("skipped", "not reached") for r in results)
        suite = xml.SubElement(
            suites,
            "testsuite",
            name=exercise.id,
            tests=str(len(results)),
            failures=str(failed),
            errors="0",
            skipped=str(left_out),
            time=f"{sum(r.seconds for r in results):.3f}",
        )
        for result in results:
            case = xml.SubElement(
                suite,
                "testcase",
                classname=exercise.id,
                name=result.title,
                time=f"{result.seconds:.3f}",
            )
            if result.verdict == "refused":
                message = clean(result.message)
                failure = xml.SubElement(
                    case, "failure", message=message.split("\n")[0], type=result.name
                )
                failure.text = message
            elif result.verdict in ("skipped", "not reached"):
                xml.SubElement(case, "skipped", message=said(result))
    xml.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(suites, encoding="unicode")


def github(_name, marks):
    """What autograding-grading-reporter of GitHub Classroom takes, as JSON; its workflow passes it
    in base64."""
    tests = [
        {
            "name": f"{exercise.id}: {result.title}",
            "status": "pass" if result.passed else "fail",
            "score": given(result),
            "message": said(result),
        }
        for exercise, results in marks
        for result in results
    ]
    return json.dumps(
        {
            "version": 1,
            "status": "pass" if all(test["status"] == "pass" for test in tests) else "fail",
            "max_score": sum(result.points for _, results in marks for result in results),
            "tests": tests,
        },
        indent=1,
    )


def rubric(name, marks):
    """A page for each student's open tasks: what the checks have found, and rows for a person."""
    lines = [f"# {name}", ""]
    for exercise, results in marks:
        if exercise.kind not in ("extend", "prove"):
            continue
        passed = [result.title for result in results if result.passed]
        left = [result.title for result in results if not result.passed]
        counts = [f"{what}: {number}" for r in results for what, number in r.notes]
        points = f"{sum(map(given, results)):g} of {sum(r.points for r in results):g}"
        found = f"passed: {', '.join(passed) or 'nothing'}"
        if left:
            found += f"; not: {', '.join(left)}"
        lines += [
            f"## {exercise.id}: {exercise.title}",
            "",
            "| Row | What the check has recorded | 0, 1 or 2 |",
            "|---|---|---|",
            f"| Correctness | {points} points; {found} | |",
            f"| Evidence | {'; '.join(counts) or 'no counts'} | |",
            *(f"| {row} | see the work log | |" for row in ROWS),
            "",
        ]
    return clean("\n".join(lines))


ROWS = ("Prediction", "One change at a time", "Negative results", "What limits it now")


def table(everyone):
    """Rows of a class: a head, then for each student the points of each exercise, their sum and
    what it could be."""
    exercises = [exercise.id for exercise, _ in everyone[0][1]] if everyone else []
    rows = [["student", *exercises, "points", "of"]]
    for name, marks in everyone:
        points = [sum(map(given, results)) for _, results in marks]
        most = sum(result.points for _, results in marks for result in results)
        rows.append([clean(name), *(f"{x:g}" for x in points), f"{sum(points):g}", f"{most:g}"])
    return rows


def comma_separated(everyone):
    """A class as CSV. A name that a spreadsheet would take for a formula gets an apostrophe."""
    text = io.StringIO()
    rows = table(everyone)
    for row in rows[1:]:
        row[0] = f"'{row[0]}" if row[0][:1] in "=+-@" else row[0]
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().rstrip("\n")


def page(everyone):
    """A class as one HTML page; a cell says which stages refused, and why."""
    head, *rows = table(everyone)
    body = ["<tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in head) + "</tr>"]
    for (_, marks), (name, *cells) in zip(everyone, rows):
        line = f"<th>{html.escape(name)}</th>"
        for (_, results), points in zip(marks, cells):
            full = f"{sum(result.points for result in results):g}"
            why = "\n".join(f"{r.title}: {said(r)}" for r in results if not r.passed)
            kind = "full" if points == full else "none" if points == "0" else "part"
            line += f'<td class="{kind}" title="{html.escape(why)}">{points}</td>'
        body.append(f"<tr>{line}<td>{cells[-2]}</td><td>{cells[-1]}</td></tr>")
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Marks</title>\n<style>\n'
        "body { font: 15px sans-serif } table { border-collapse: collapse }\n"
        "th, td { border: 1px solid #999; padding: 2px 6px; text-align: right }\n"
        "tr:first-child th { writing-mode: vertical-rl } .full { background: #cfc }\n"
        ".part { background: #ffc } .none { background: #fcc }\n"
        f"</style>\n<table>\n{chr(10).join(body)}\n</table></html>"
    )


# Of one student, and of a class in one file.
WRITERS = {
    "gradescope": gradescope,
    "classroom50": classroom50,
    "github": github,
    "junit": junit,
    "rubric": rubric,
}
OF_CLASS = {"csv": comma_separated, "html": page}
