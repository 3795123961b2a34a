"""Opens every page of the finished site in Chromium, with no network, in a wide window and in that
of a phone: nothing fails to load or to run, no image is missing, and the page does not scroll
sideways. And the search finds a page.

Exit status: browser.run_test; 77 also where there is no site.
"""

import argparse
import pathlib
import sys

from docs.site import browser, navigation

ROOT = pathlib.Path(__file__).resolve().parents[3]
WIDTHS = 1440, 390  # pixels
LOOK = """() => {
  const found = [...document.images]
    .filter((image) => image.complete && !image.naturalWidth)
    .map((image) => 'no image ' + image.src);
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth > clientWidth) found.push(`the page has ${scrollWidth} pixels`);
  return found;
}"""
FOUND = "[...document.querySelectorAll('.search li a')].some((a) => a.href.includes('%s'))"


def look(html, files):
    """(faults, a summary) of these pages of the site."""
    found = []
    with browser.Browser() as window:
        for width in WIDTHS:
            window.size(width, 900)
            for file in files:
                window.open(html / file)
                faults = [*window.value(LOOK), *window.faults()]
                found += [f"{file}, {width} pixels: {fault}" for fault in faults]
        # Its excerpts need a server.
        window.open(html / "search.html", "?q=softmax")
        window.until(FOUND % "02_safe_softmax/index.html")
    return found, f"{len(files)} pages"


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Open the pages of the site in a browser.")
    parser.add_argument("--html", required=True, type=pathlib.Path, help="the finished site")
    html = parser.parse_args(arguments).html.resolve()
    if not (html / "index.html").is_file():
        print("skipped: the site is not built (./learn docs).")
        return 77
    files = [navigation.html_file(page.removesuffix(".md")) for page in navigation.pages(ROOT)]
    return browser.run_test("drive_site.py", lambda: look(html, [*files, "reference/index.html"]))


if __name__ == "__main__":
    sys.exit(main())
