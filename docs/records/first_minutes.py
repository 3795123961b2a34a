"""Prints the records of common/cli/tests/first_minutes.sh as a table: a column for each.

python3 -m docs.records.first_minutes RECORD...    Exit status: 0, or 2 without a record.
"""

import sys

from common.data.records import Problem, aligned, read


def main(files):
    """Returns the exit status."""
    try:
        records = [read(file) for file in files]
    except Problem as problem:
        print(f"first_minutes: {problem}", file=sys.stderr)
        return 2
    columns = [{row["what"]: row["seconds"] for row in r["measurements"]} for r in records]
    heads = ["", *(f"{r['cores']} cores{', ' + r['gpu'] if r['gpu'] else ''}" for r in records)]
    rows = [
        [what, *(f"{column[what]:.0f} s" if what in column else "-" for column in columns)]
        for what in columns[0]
    ]
    print("\n".join(aligned([heads, *rows], 1)))
    for r in records:
        print(
            f"{r['processor']}, {r['system']}, {r['compiler']}, commit {r['commit']}, {r['date']}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
