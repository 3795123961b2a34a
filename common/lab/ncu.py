"""Reads what NVIDIA's ncu prints."""

import csv


def number_of(text):
    """A number as ncu prints it; None where it has none."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return int(value) if value.is_integer() else value


def parse_ncu(text):
    """The launches in ncu's CSV, in order, with their metrics: from the page `details`, which has
    a line for each metric, or the page `raw`, which has a column for each and a line of units."""
    reader = csv.DictReader(line for line in text.splitlines() if line.startswith('"'))
    launches = {}
    for row in reader:
        if not (row.get("ID") or "").isdigit():
            continue  # units
        launch = launches.setdefault(
            int(row["ID"]), {"function": row.get("Kernel Name", ""), "metrics": {}}
        )
        if "Metric Name" in row:
            launch["metrics"][row["Metric Name"]] = number_of(row["Metric Value"])
        else:
            for name, value in row.items():
                if name and "__" in name:
                    launch["metrics"][name] = number_of(value)
    return [launches[number] for number in sorted(launches)]
