"""Drives the tile stepper in Chromium, by mouse and by keyboard, and compares every number that it
shows with what lesson 03's program writes. Exit status: browser.run_test."""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile
import time

from docs.site import browser
from docs.stepper import page as stepper_page

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


def by_mouse(stepper):
    """Each button, the choices, the slider's ends."""
    yield from stepper.check(0, 0)
    last = len(stepper.data["runs"][0]["steps"]) - 1
    for step in range(1, 7):
        stepper.browser.click("#stepper-next")
        yield from stepper.check(0, step)
    for button, step in (
        ("previous", 5),
        ("last", last),
        ("previous", last - 1),
        ("next", last),
        ("first", 0),
    ):
        stepper.browser.click(f"#stepper-{button}")
        yield from stepper.check(0, step)
    # The probabilities instead of the scores.
    stepper.choose("show", "p")
    yield from stepper.check(0, 0, show="p")
    stepper.choose("show", "s")
    # Another row: each row of the tile, also on the next step.
    for row in range(stepper.data["runs"][0]["block_m"]):
        stepper.browser.click(f'#stepper-tile button[data-row="{row}"]')
        yield from stepper.check(0, 0, row=row)
    stepper.browser.click("#stepper-next")
    yield from stepper.check(0, 1, row=stepper.data["runs"][0]["block_m"] - 1)


def by_keyboard(stepper):
    """Arrows, Home, End on every run; rows; the slider."""
    press = stepper.browser.press
    for index, mask, tiles, steps in stepper.runs():
        stepper.choose("mask", mask)
        stepper.choose("tiles", tiles)
        stepper.browser.value("document.getElementById('stepper').focus()")
        last = len(steps) - 1
        press("End")
        yield from stepper.check(index, last)
        press("ArrowRight")  # there is nothing after the last
        yield from stepper.check(index, last)
        press("ArrowLeft")
        yield from stepper.check(index, last - 1)
        press("Home")
        press("ArrowLeft")
        for step in range(last):
            yield from stepper.check(index, step)
            press("ArrowRight")
        yield from stepper.check(index, last)
    press("Home")
    row = stepper.browser.value(READ)["row"]
    rows = steps[0]["queries"]
    for key, by in (
        ("ArrowDown", 1),
        ("ArrowDown", 1),
        ("ArrowUp", -1),
        ("ArrowUp", -1),
        ("ArrowUp", -1),
    ):
        press(key)
        row = (row + by) % rows
        yield from stepper.check(index, 0, row=row)
    # Without the focus in the stepper, all keys are the browser's.
    stepper.browser.value("document.activeElement.blur()")
    for key in ("ArrowRight", "ArrowLeft", "End", " "):
        press(key)
        yield from stepper.check(index, 0, row=row)
    # The slider.
    stepper.choose("mask", "full")
    stepper.choose("tiles", "4x4")
    stepper.browser.value("document.getElementById('stepper-slider').focus()")
    press("Home")
    yield from stepper.check(0, 0)
    for step in (1, 2):
        press("ArrowRight")
        yield from stepper.check(0, step)


def place_is_kept(stepper):
    """Another mask or size shows the tile where the reader was."""
    stepper.choose("mask", "full")
    stepper.choose("tiles", "4x4")
    runs = {(mask, tiles): (index, steps) for index, mask, tiles, steps in stepper.runs()}
    steps = runs["full", "4x4"][1]
    at = next(
        n for n, s in enumerate(steps) if s["kind"] == "tile" and (s["query"], s["key"]) == (8, 4)
    )
    stepper.browser.value("document.getElementById('stepper').focus()")
    stepper.browser.press("Home")
    for _ in range(at):
        stepper.browser.press("ArrowRight")
    stepper.choose("mask", "causal")
    yield from stepper.check(runs["causal", "4x4"][0], at)
    stepper.choose("tiles", "8x4")
    index, steps = runs["causal", "8x4"]
    wanted = next(n for n, s in enumerate(steps) if (s["query"], s.get("key")) == (8, 4))
    yield from stepper.check(index, wanted)


def playing(stepper):
    """Space plays and stops; so does the button."""
    stepper.choose("mask", "full")
    stepper.choose("tiles", "16x16")
    stepper.browser.value("document.getElementById('stepper').focus()")
    stepper.browser.press("Home")
    step = "document.getElementById('stepper').dataset.step"
    index = next(i for i, mask, tiles, _ in stepper.runs() if (mask, tiles) == ("full", "16x16"))
    for start in (
        lambda: stepper.browser.press(" "),
        lambda: stepper.browser.click("#stepper-play"),
    ):
        stepper.browser.press("Home")
        start()
        page = stepper.browser.value(READ)
        if (page["play"], page["live"]) != ("stop", "off"):
            yield f"while playing, the button says {page['play']} and aria-live is {page['live']}"
        stepper.browser.until(f"{step} === '1'", 20)  # the last step: it stops by itself
        page = stepper.browser.value(READ)
        if (page["play"], page["live"]) != ("play", "polite"):
            yield f"at the last step, the button says {page['play']} and aria-live {page['live']}"
        yield from stepper.check(index, 1)
    stepper.choose("tiles", "4x4")
    stepper.browser.value("document.getElementById('stepper').focus()")
    stepper.browser.press("Home")
    stepper.browser.press(" ")
    stepper.browser.until(f"{step} === '1'", 20)
    stepper.browser.press(" ")
    before = stepper.browser.value(step)
    time.sleep(1.8)
    if stepper.browser.value(step) != before:
        yield "it still plays after it was stopped"


def appearance(phone, page):
    """On a phone the page is no wider than the window; who wants no motion gets none."""
    motion = (
        "parseFloat(getComputedStyle(document.querySelector('#stepper-map td')).transitionDuration)"
    )
    for reduced in (False, True):
        phone.size(390, 844)
        phone.look(dark=False, reduced=reduced)
        phone.open(page)
        width = phone.value("document.documentElement.scrollWidth")
        if width > 390:
            yield f"in a window of 390 the page is {width} wide"
        for size in () if reduced else (390, 820, 1100, 1440):
            phone.size(size, 844)
            for name in phone.value(CUT):  # the tile that is shown first has four columns
                yield f"in a window of {size}, {name} is cut"
        if (phone.value(motion) == 0) != reduced:
            yield f"motion: {phone.value(motion)} s, with reduced motion {reduced}"
        yield from phone.faults()


def look(program):
    """(faults, a summary) of the page with the numbers of this program."""
    found, compared = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        command = [program.resolve(), "--section", "steps", "--save", scratch]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        steps = pathlib.Path(scratch, "steps.json")
        data = json.loads(steps.read_text(encoding="utf-8"))
        page = stepper_page.write_alone(steps, pathlib.Path(scratch, "page"))
        # No motion and a small window: a browser without a graphics card is slow to draw.
        with browser.Browser(size=(900, 700), reduced=True) as window:
            for part in (by_mouse, by_keyboard, place_is_kept, playing):
                window.open(page)
                stepper = Stepper(window, data)
                try:
                    found += [f"{part.__name__}: {fault}" for fault in part(stepper)]
                except browser.PageError as error:
                    found.append(f"{part.__name__}: {error}")
                found += [f"{part.__name__}: {fault}" for fault in window.faults()]
                compared += stepper.compared
            found += appearance(window, page)
    if not compared:
        found.append("no number was compared")
    return found, f"{compared} numbers compared"


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Drive the tile stepper.")
    parser.add_argument("--program", required=True, type=pathlib.Path, help="03_online_softmax")
    options = parser.parse_args(arguments)
    return browser.run_test("drive_stepper.py", lambda: look(options.program))
