"""Reads the tile stepper's page in a browser and compares what it shows with what the program
wrote."""

import re

READ = """(() => {
    const root = document.getElementById("stepper");
    const at = (name) => document.getElementById("stepper-" + name);
    const texts = (name, what) => [...at(name).querySelectorAll(what)].map((e) => e.textContent);
    const cells = [...root.querySelectorAll("td[data-field]")].map((cell) => [
        cell.dataset.field, Number(cell.dataset.i),
        cell.dataset.j === undefined ? null : Number(cell.dataset.j),
        cell.children.length ? [...cell.children].map((e) => e.textContent) : [cell.textContent],
        [...cell.classList], cell.style.backgroundColor]);
    return {
        on: root.classList.contains("stepper-on"), run: Number(root.dataset.run),
        step: Number(root.dataset.step), row: Number(root.dataset.row),
        count: at("count").textContent, play: at("play").textContent,
        says: at("says").textContent, live: at("says").getAttribute("aria-live"),
        slider: [Number(at("slider").value), Number(at("slider").max)],
        disabled: ["first", "previous", "next", "last"].map((name) => at(name).disabled),
        cells: cells, columns: texts("map", "th.column"), rows: texts("map", "th.row"),
        tileColumns: texts("tile", "th.column"), tileRows: texts("tile", "th.row"),
        oParts: texts("o", "th.part"),
        chosen: [...at("tile").querySelectorAll("[aria-pressed=true]")].map(
            (button) => Number(button.dataset.row)),
    };
})()"""
# Tables of the stepper that a reader would have to scroll.
CUT = """[...document.querySelectorAll('.stepper-scroll')]
  .filter((box) => box.scrollWidth > box.clientWidth)
  .map((box) => box.getAttribute('aria-label'))"""
NUMBER = re.compile(r"[-\u2212]?(?:\u221e|\d*\.\d+|\d+)")


def number(text):
    """(value, digits after the point) of a shown number; the value of minus infinity is None."""
    text = text.replace("\u2212", "-").removesuffix(" \u2192").strip()
    if text == "-\u221e":
        return None, 0
    return float(text), len(text.partition(".")[2])


def same(shown, value):
    """Is this text the number, rounded to the digits that it has?"""
    try:
        x, digits = number(shown)
    except ValueError:
        return False
    if x is None or value is None:
        return x is value
    return abs(x - value) <= 0.5 * 10.0**-digits * (1 + 1e-9) + 1e-12


def strength(shade):
    """How much colour there is: 0 for none."""
    parts = re.fullmatch(r"rgba\((\d+), \d+, \d+, ([\d.]+)\)", shade)
    return float(parts[2]) if parts else 0.0


def right_shade(shade, x):
    """Orange above 0, blue below, none without a number."""
    if strength(shade) < 0.005:
        return True
    return x is not None and shade.startswith("rgba(217," if x > 0 else "rgba(42,")


class Stepper:
    """The stepper in a browser, and the data that it should show."""

    def __init__(self, browser, data):
        self.browser, self.data = browser, data
        self.compared = 0  # numbers

    def runs(self):
        """(index, mask, tiles as the page names them, steps) of each run."""
        for index, run in enumerate(self.data["runs"]):
            yield index, run["mask"], f"{run['block_m']}x{run['block_n']}", run["steps"]

    def choose(self, name, value):
        """Clicks on a choice: mask, tiles or show."""
        self.browser.click(f'#stepper-{name} input[value="{value}"]')

    def check(self, run, step, show="s", row=None):
        """Yields a message for each difference between the page and a step of a run."""
        page = self.browser.value(READ)
        where = f"run {run}, step {step}"
        if not page["on"] or (page["run"], page["step"]) != (run, step):
            yield f"{where}: the page shows run {page['run']}, step {page['step']}"
            return
        this = self.data["runs"][run]
        data, last = this["steps"][step], len(this["steps"]) - 1
        expected = {
            "count": f"step {step + 1} of {last + 1}",
            "slider": [step, last],
            "disabled": [step == 0, step == 0, step == last, step == last],
            "columns": self.data["keys"],
            "rows": self.data["queries"],
        }
        if row is not None:
            expected["row"] = row
        queries = self.data["queries"][data["query"] : data["query"] + data["queries"]]
        if data["kind"] == "skipped":
            fields = {}
            expected.update(tileColumns=[], tileRows=[], oParts=[])
        elif data["kind"] == "finish":
            fields = {name: data[name] for name in ("m", "l", "lse", "o_before", "o")}
            expected.update(tileColumns=["m", "l", "LSE"], tileRows=queries)
            expected.update(oParts=["O", "O / l, the output"], chosen=[page["row"]])
        else:
            names = (show, "m", "l", "rescale", "o_before", "o_rescaled", "o")
            fields = {name: data[name] for name in names}
            keys = self.data["keys"][data["key"] : data["key"] + data["keys"]]
            expected.update(tileColumns=[*keys, "m", "rescale", "l"], tileRows=queries)
            expected.update(
                oParts=["O before", "O \u00d7 rescale", "O + P V"], chosen=[page["row"]]
            )
        for name, value in expected.items():
            if page[name] != value:
                yield f"{where}: {name} is {page[name]}, not {value}"
        yield from self.check_cells(where, data, fields, page["cells"], show)
        yield from self.check_map(where, this, step, page["cells"])
        yield from self.check_sentence(where, data, page)

    def check_cells(self, where, data, fields, cells, show):
        seen = set()
        strongest = {}  # shade of each heat map
        for name, i, j, texts, classes, shade in cells:
            if name == "map":
                continue
            place = f"{where}: {name}[{i}]" + (f"[{j}]" if j is not None else "")
            if name not in fields:
                yield f"{place} does not belong here"
                continue
            seen.add((name, i, j))
            value = fields[name][i] if j is None else fields[name][i][j]
            values = [value]
            if name in ("m", "l") and data["kind"] == "tile":
                values = [data[name + "_before"][i], value]
            masked = name in ("s", "p") and data["s"][i][j] is None
            if masked != ("masked" in classes):
                yield f"{place} is shown as {'visible' if masked else 'masked'}"
            if masked and name == "s":
                if texts != [""]:
                    yield f"{place} is masked, but the page shows {texts}"
                continue
            if len(texts) != len(values) or not all(map(same, texts, values)):
                yield f"{place} is {values}, but the page shows {texts}"
            self.compared += len(values)
            if name in ("s", "p") or name.startswith("o"):
                if not right_shade(shade, value):
                    yield f"{place} is {value}, but its colour is {shade}"
                strongest[name] = max(strongest.get(name, 0), strength(shade))
        wanted = {
            (name, i, j)
            for name, rows in fields.items()
            for i, row in enumerate(rows)
            for j in (range(len(row)) if isinstance(row, list) else (None,))
        }
        # The largest number has the full colour; of O the largest before the division.
        full = ("o", "o_before") if data["kind"] == "finish" else ("o_before", "o_rescaled", "o")
        for names in ((show,), full):
            if any(name in strongest for name in names):
                if not 0.59 < max(strongest.get(name, 0) for name in names) < 0.61:
                    yield f"{where}: no number of {names} has the full colour"
        if seen != wanted:
            yield f"{where}: {len(seen)} numbers are shown, {len(wanted)} should be"

    def check_map(self, where, run, step, cells):
        """The kinds of all cells of the map: to come, used, masked, skipped, this tile."""
        expected = {}
        steps = [s for s in run["steps"][: step + 1] if s["kind"] != "finish"]
        for data in steps:
            now = "now" if data is run["steps"][step] else "past"
            end = min(data["key"] + run["block_n"], len(self.data["keys"]))
            for i in range(data["queries"]):
                for j in range(end - data["key"]):
                    kind = "score"
                    if data["kind"] == "skipped" or j >= data["keys"]:
                        kind = "skipped"
                    elif data["s"][i][j] is None:
                        kind = "masked"
                    expected[data["query"] + i, data["key"] + j] = (kind, now)
        count = 0
        scores = {}
        for data in steps:
            for i, row in enumerate(data.get("s", ())):
                for j, s in enumerate(row):
                    scores[data["query"] + i, data["key"] + j] = s
        for name, i, j, _, classes, shade in cells:
            if name != "map":
                continue
            if not right_shade(shade, scores.get((i, j))):
                yield f"{where}: map[{i}][{j}] is {scores.get((i, j))}, but its colour is {shade}"
            count += 1
            kind = next((k for k in ("skipped", "masked") if k in classes), "score")
            time = next((t for t in ("now", "past") if t in classes), None)
            shown = (kind, time) if time else None
            if shown != expected.get((i, j)):
                yield f"{where}: map[{i}][{j}] is {shown}, not {expected.get((i, j))}"
        if count != len(self.data["queries"]) * len(self.data["keys"]):
            yield f"{where}: the map has {count} cells"

    def check_sentence(self, where, data, page):
        """The sentence shows the values of its row."""
        says, i = page["says"], page["row"]
        if data["kind"] == "skipped":
            if "skipped" not in says:
                yield f"{where}: the sentence does not say that the tile is skipped: {says}"
            return
        if f"Row \u2018{self.data['queries'][data['query'] + i]}\u2019" not in says:
            yield f"{where}: the sentence is not about row {i}: {says}"
            return
        text = says.split("Row \u2018", 1)[1].split("\u2019", 1)[1]
        if data["kind"] == "finish":
            wanted = [data["l"][i], data["lse"][i]] if data["l"][i] else [0, None]
        elif all(s is None for s in data["s"][i]):
            wanted = []
        elif data["m_before"][i] is None:
            wanted = [data["m"][i], None, 0, data["l"][i]]
        elif data["m"][i] > data["m_before"][i]:
            before, after = data["m_before"][i], data["m"][i]
            wanted = [before, after, before, after, data["rescale"][i], data["l"][i]]
            text = text.replace(" \u2212 ", " less ")
        else:
            wanted = [data["m"][i], 1, data["l_before"][i], data["l"][i]]
        shown = NUMBER.findall(text)
        if len(shown) < len(wanted) or not all(map(same, shown, wanted)):
            yield f"{where}: the sentence should have {wanted}: {says}"
