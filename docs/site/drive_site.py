"""Opens the finished site in Chromium, with no network: every formula is drawn, the tile stepper
works on its page in the site's light and dark looks, and nothing fails to load.

Exit status: 0 all is well, 1 something is wrong, 2 could not be done, 77 there is no browser, no
Selenium or no site.
"""

import argparse
import json
import pathlib
import sys

from docs.site import browser
from docs.site.stepper_driver import Stepper

STEPPER = "page_docs_stepper.html"
# Doxygen writes \(...\) and \[...\]; MathJax makes of each a script, which keeps the text, and a
# drawing.
FORMULAS = "document.querySelectorAll('script[type^=\"math/tex\"]').length"
DRAWN = "document.querySelectorAll('.MathJax_SVG > svg').length"
WRONG = "MathJax.Hub.getAllJax().filter((jax) => jax.texError).map((jax) => jax.originalText)"
LEFT = "(document.querySelector('.contents').innerText.match(/\\\\[(\\[]/g) || []).length"
READY = (
    "window.MathJax && MathJax.isReady && !MathJax.Hub.queue.pending && !MathJax.Hub.queue.running"
)


def formulas(window, pages, found):
    """Adds faults to `found`; returns how many formulas are drawn."""
    count = 0
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if "\\(" not in text and "\\[" not in text:
            continue
        window.open(page)
        window.until(READY)
        asked, drawn, left = (window.value(what) for what in (FORMULAS, DRAWN, LEFT))
        faults = [f"MathJax cannot read {words}" for words in window.value(WRONG)]
        if not asked:
            faults.append("MathJax saw no formula")
        if drawn != asked:
            faults.append(f"{drawn} of {asked} formulas are drawn")
        if left:
            faults.append(f"{left} formulas stand there as text")
        found += [f"{page.name}: {sentence}" for sentence in faults + window.faults()]
        count += drawn
    return count


def stepper(html):
    """Yields faults of the tile stepper on its page: a walk, and that its colours follow the site's
    look."""
    data = json.loads((html / "steps.json").read_text(encoding="utf-8"))
    colour = "getComputedStyle(document.querySelector('#stepper-tile td')).color"
    colours = {}
    for dark in (False, True):
        with browser.Browser(dark=dark) as window:
            window.open(html / STEPPER)
            driven = Stepper(window, data)
            for step in range(4):
                yield from driven.check(0, step)
                window.click("#stepper-next")
            window.press("ArrowRight")
            yield from driven.check(0, 5)
            width = window.value("document.documentElement.scrollWidth")
            if width > 1400:
                yield f"{STEPPER}: in a window of 1400 the page is {width} wide"
            is_dark = window.value("document.documentElement.classList.contains('dark-mode')")
            colours[is_dark] = window.value(colour)
            yield from (f"{STEPPER}: {sentence}" for sentence in window.faults())
    # Without doxygen-awesome-css the site is always light.
    if len(colours) == 2 and colours[True] == colours[False]:
        yield f"{STEPPER}: the numbers have the same colour, {colours[True]}, in light and dark"


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Open the finished site in a browser.")
    parser.add_argument("--html", required=True, type=pathlib.Path, help="the site's directory")
    html = parser.parse_args(arguments).html
    if lack := browser.missing():
        print(f"skipped: {lack}; the site was not opened.")
        return 77
    if not (html / "index.html").is_file():
        print(f"skipped: there is no site in {html}; ./learn docs builds it.")
        return 77
    found, count = [], 0
    try:
        if (html / "mathjax").is_dir():
            with browser.Browser() as window:
                pages = [html / "index.html", *sorted(html.glob("page_*.html"))]
                count = formulas(window, pages, found)
            if not count:
                found.append("the site has no formula")
        else:
            print(
                "Note: the site was built without libjs-mathjax; its formulas were not looked at."
            )
        if (html / STEPPER).is_file():
            for sentence in stepper(html):
                found.append(sentence)
    except browser.PageError as error:
        found.append(str(error))
    except (OSError, ValueError, browser.BrowserError) as error:
        print(f"drive_site.py: {error}", file=sys.stderr)
        return 2
    for sentence in found[:20]:
        print(sentence)
    print(f"{count} formulas drawn without a network, {len(found)} faults.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
