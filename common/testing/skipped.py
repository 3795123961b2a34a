"""Lists the skipped tests of a JUnit file of ctest by the reason that they print.
usage: python3 skipped.py JUNIT.xml

A test that is skipped prints "skipped: REASON", or one line; the reason names the command that
brings what is missing."""

import re
import sys
import xml.etree.ElementTree as ElementTree


def skipped(junit):
    """The names of the skipped tests by reason."""
    reasons = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        if case.find("skipped") is not None:
            text = (case.findtext("system-out") or "").strip()
            said = re.findall(r"skipped: *(.*\S)", text) or text.split("\n")
            reasons.setdefault(said[0] or "no reason given", []).append(case.get("name"))
    return reasons


def table(reasons):
    """Two lines for each reason: how many tests and the reason; one of the names."""
    lines = []
    for reason, names in reasons.items():
        rest = f" and {len(names) - 1} more" if len(names) > 1 else ""
        lines.append(f"  {len(names):4}  {reason}\n        {names[0]}{rest}")
    return "\n".join(lines)


if __name__ == "__main__":
    found = skipped(sys.argv[1])
    if found:
        print(f"\nSkipped tests: {sum(map(len, found.values()))}\n{table(found)}\n")
