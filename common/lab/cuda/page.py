"""The report as one page of HTML: findings, and the source with the counts of each line."""

import html

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem;
       color: #1b1f24; background: #fff; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.finding { border-left: 4px solid #c4432b; padding: 0 0 0 .8rem; margin: 1rem 0; }
.finding b { color: #c4432b; }
.source { overflow-x: auto; }
table { border-collapse: collapse; font: 12.5px/1.45 ui-monospace, monospace; }
th { text-align: right; font-weight: 600; padding: 0 .6rem; }
td { padding: 0 .6rem; text-align: right; white-space: pre; }
td.code { text-align: left; } tr.found { background: #fbe3de; }
svg { max-width: 100%; height: auto; background: #fff; }
@media (prefers-color-scheme: dark) {
  body { background: #16191d; color: #e4e7eb; } .finding b { color: #ff8b73; }
  tr.found { background: #4b261f; }
}
"""
COLUMNS = (
    ("global", "requests", "global requests"), ("global", "sectors", "sectors"),
    ("global", "ideal", "at best"), ("shared", "requests", "shared requests"),
    ("shared", "wavefronts", "wavefronts"), ("shared", "ideal", "at best"),
)  # fmt: skip


def place(where):
    """The file and the line of "file:line"."""
    name, _, line = where.rpartition(":")
    return name, int(line) if line.isdigit() else 0


def counts_of(report):
    """By file and line, and kind of memory: the sums of reads and writes."""
    result = {}
    for line in report["traffic"]:
        of_line = result.setdefault(place(line["where"]), {}).setdefault(line["memory"], {})
        for key in ("requests", "sectors", "wavefronts", "ideal"):
            of_line[key] = of_line.get(key, 0) + line[key]
    return result


def source_table(path, name, counts, found):
    """A file with the counts of its lines; empty where it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    head = "".join(f"<th>{title}</th>" for _, _, title in COLUMNS)
    rows = []
    for number, text in enumerate(lines, 1):
        of_line = counts.get((name, number), {})
        cells = "".join(
            f"<td>{of_line.get(memory, {}).get(key, '')}</td>" for memory, key, _ in COLUMNS
        )
        mark = ' class="found"' if (name, number) in found else ""
        rows.append(
            f'<tr{mark} id="line-{number}"><td>{number}</td>{cells}'
            f'<td class="code">{html.escape(text)}</td></tr>'
        )
    return (
        f"<h2>{html.escape(name)}</h2><div class=source><table><tr><th>line</th>{head}"
        f"<th></th></tr>{''.join(rows)}</table></div>"
    )


def write(path, source, base, result, end):
    """`base` is the folder from which the report names files."""
    report = result.report
    parts = [f"<h1>The lab: {html.escape(source.name)}</h1>"]
    if end:
        parts.append(f"<p>{html.escape(end)}</p>")
    if report:
        findings = report["findings"]
        parts.append(f"<p>{len(findings)} finding{'' if len(findings) == 1 else 's'}, "
                     f"{report['launches']} launches.</p>")  # fmt: skip
        found = set()
        for finding in findings:
            places = [finding[key] for key in ("where", "other") if finding[key]]
            found.update(place(where) for where in places)
            times = f" ({finding['count']} times)" if finding["count"] > 1 else ""
            parts.append(
                f"<div class=finding><b>{html.escape(finding['kind'])}</b>: "
                f"{html.escape(' and '.join(places))}<br>"
                f"{html.escape(finding['message'])}{times}</div>"
            )
        counts = counts_of(report)
        names = dict.fromkeys(name for name, _ in [*found, *counts] if name)
        for name in names:
            parts.append(source_table(base / name, name, counts, found))
        if report["banks"]:
            parts.append(f"<h2>The worst access to shared memory</h2>{report['banks']}")
    path.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(source.name)} in the lab</title><style>{STYLE}</style>"
        f"{''.join(parts)}</html>\n",
        encoding="utf-8",
    )
