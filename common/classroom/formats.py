"""Marks in the forms that other programs read.

A mark is a pair of an exercise and the results of its stages.
"""

import datetime
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


WRITERS = {"gradescope": gradescope, "classroom50": classroom50, "junit": junit}
