"""Chromium without a window, for tests and for the PDF: opens files, presses keys, clicks, reads
values. Playwright drives the Chromium of this machine; it downloads none. The network is off.

    python3 -m docs.site.browser PAGE.html BOOK.pdf     prints a page
"""

import os
import pathlib
import shutil
import subprocess
import sys

try:
    import pypdf
    from playwright.sync_api import Error as PageError
    from playwright.sync_api import sync_playwright
except ImportError:
    sync_playwright = None

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# A table that is wider than the page would make Chromium print all pages smaller, so it is printed
# smaller itself. Where that is too small it goes on below: the columns before the first fraction,
# which say what a row is of, stand in each part.
FIT = """() => {
  const room = document.querySelector('article').clientWidth - 1, least = 6.5 / 0.75;
  const shrink = (table) => { table.style.zoom = Math.min(1, room / table.offsetWidth); };
  for (const table of document.querySelectorAll('article table')) {
    const cells = [...table.rows[1].cells], wide = table.offsetWidth;
    const keys = cells.findIndex((one) => /[.]/.test(one.innerText));
    const size = parseFloat(getComputedStyle(cells[0]).fontSize);
    if (keys < 1 || size * Math.min(1, room / wide) >= least) {
      shrink(table);
      continue;
    }
    const fixed = cells.slice(0, keys).reduce((sum, one) => sum + one.offsetWidth, 0);
    const each = Math.ceil((cells.length - keys) / Math.ceil((wide - fixed) / (room - fixed)));
    for (let from = keys; from < cells.length; from += each) {
      const part = table.cloneNode(true);
      for (const one of part.querySelectorAll('th, td')) {
        const at = one.cellIndex;
        one.hidden = at >= keys && (at < from || at >= from + each);
      }
      table.before(part);
      shrink(part);
    }
    table.remove();
  }
}"""
CONTENTS = """(pages) => {
  for (const a of document.querySelectorAll('#contents a')) {
    a.dataset.page = pages[decodeURIComponent(a.hash.slice(1))];
  }
}"""
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
PAGE = 517, 763  # pixels of a page of the book without its margins
SECONDS = 60  # that a page may take for anything


def program():
    """The path of the browser, or None. CHROME in the environment comes first."""
    names = filter(None, (os.environ.get("CHROME"), *BROWSERS, MAC))
    return next(filter(None, map(shutil.which, names)), None)


def run_test(name, look):
    """Runs a test in a browser. look() returns (faults, a summary). Returns the exit status: 0 all
    is well, 1 something is wrong, 2 could not be done, 77 there is no browser or no Playwright."""
    if sync_playwright is None or program() is None:
        print(
            "skipped: there is no Chromium (apt install chromium), or no Playwright (./learn docs)"
        )
        return 77
    try:
        found, summary = look()
    except (OSError, ValueError, subprocess.CalledProcessError, PageError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    for fault in found[:30]:
        print(fault)
    print(f"{summary}, {len(found)} faults.")
    return 1 if found else 0


class Browser:
    """A browser with one page. Use with `with`.

    size      width and height of the window in pixels
    reduced   tells the page that its reader wants no motion
    dark      tells the page that its reader likes dark pages
    """

    def __init__(self, size=(1400, 900), reduced=False, dark=False):
        self.messages = []  # errors since the page was opened
        self.playwright = sync_playwright().start()
        self.chromium = self.playwright.chromium.launch(
            executable_path=program(),
            args=["--host-resolver-rules=MAP * ~NOTFOUND"],
            chromium_sandbox=getattr(os, "getuid", lambda: 1)() != 0,  # it refuses root
        )
        self.page = self.chromium.new_page(has_touch=True)
        self.page.set_default_timeout(1000 * SECONDS)
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("console", self.note)
        self.size(*size)
        self.look(dark, reduced)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.playwright.stop()

    def note(self, message):
        """Keeps what the console shows as an error, files not found included."""
        if message.type == "error":
            self.messages.append(f"{message.text} {message.location.get('url', '')}")

    def size(self, width, height):
        """Gives the window this size in pixels."""
        self.page.set_viewport_size({"width": width, "height": height})

    def look(self, dark, reduced=False):
        """Tells the page what its reader likes."""
        self.page.emulate_media(
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if reduced else "no-preference",
        )

    def open(self, path, anchor=""):
        """Opens a file and waits until it is loaded."""
        self.messages.clear()
        self.page.goto(pathlib.Path(path).resolve().as_uri() + anchor)

    def value(self, expression, argument=None):
        """The value of an expression of JavaScript; where that is a function, of its call."""
        return self.page.evaluate(expression, argument)

    def until(self, expression, seconds=SECONDS):
        """Waits until an expression is true."""
        self.page.wait_for_function(expression, timeout=1000 * seconds)

    def press(self, key):
        """Presses a key: a character, or one by its name, as in ArrowLeft, Home, Tab."""
        self.page.keyboard.press(key)

    def middle(self, selector):
        """(x, y) of the middle of an element, scrolled into view."""
        element = self.page.locator(selector).first
        element.scroll_into_view_if_needed()
        box = element.bounding_box() or {"width": 0}
        if not box["width"]:
            raise PageError(f"{selector} cannot be seen")
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def point(self, selector):
        """Moves the mouse to the middle of an element."""
        self.page.mouse.move(*self.middle(selector))

    def click(self, selector):
        """Clicks on the middle of an element. What covers it gets the click."""
        self.page.mouse.click(*self.middle(selector))

    def touch(self, selector):
        """Touches the middle of an element."""
        self.page.touchscreen.tap(*self.middle(selector))

    def faults(self):
        """What went wrong in the page since it was opened: exceptions, errors, files not found."""
        return list(self.messages)


def main(page, book):
    """Prints a page. Returns the exit status."""
    if sync_playwright is None or program() is None:
        print("the PDF needs Chromium: apt install chromium", file=sys.stderr)
        return 2
    with Browser(size=PAGE) as window:
        window.page.set_default_timeout(1000 * 10 * SECONDS)
        window.page.emulate_media(media="print")
        window.open(page)
        window.value(FIT)
        how = {"path": book, "prefer_css_page_size": True, "outline": True, "tagged": True}
        window.page.pdf(**how)
        # Chromium numbers no contents: this is done once it is known where what is.
        reader = pypdf.PdfReader(book)
        places = reader.named_destinations.items()  # a name begins with /
        pages = {name[1:]: reader.get_destination_page_number(place) + 1 for name, place in places}
        window.value(CONTENTS, pages)
        window.page.pdf(**how)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
