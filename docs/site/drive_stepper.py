"""Drives the tile stepper in Chromium, by mouse and by keyboard, and compares every number that it
shows with what lesson 03's program writes. Exit status: browser.run_test."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from docs.site import browser
from docs.site.stepper_driver import CUT, READ, Stepper
from docs.stepper import page as stepper_page


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


if __name__ == "__main__":
    sys.exit(main())
