"""Opens every page of the finished site in Chromium, with no network, in a wide window and in that
of a phone: nothing fails to load or to run, no image is missing, and the page does not scroll
sideways, lines of text are short. And the search finds pages.

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
  const count = (selector) => document.querySelectorAll(selector).length;
  if (count('meta[name="viewport"]') !== 1) found.push('not one viewport');
  if (count('.content') && !count('meta[name="description"]')) found.push('no description');
  if (count('.explorer-view:not([tabindex="0"])')) found.push('keys do not reach an explorer');
  if (count('.next-page + .prev-page')) found.push('Tab reaches Next before Previous');
  if (count('article hr + p:has(a)')) found.push('the links at the foot of the file');
  for (const root of document.querySelectorAll('msqrt')) {
    const of = [root, root.firstElementChild].map((one) => one.getBoundingClientRect().width);
    if (of[0] - of[1] < 4) found.push('a root without its sign');
  }
  for (const text of document.querySelectorAll('article p')) {
    const width = parseFloat(getComputedStyle(text).width);
    if (width > 42 * 16) found.push(`a line of ${width} pixels`);
  }
  return found;
}"""
TABLES = """[...document.querySelectorAll('article table')].filter(({style, offsetWidth, rows}) =>
  style.zoom * parseFloat(getComputedStyle(rows[1].cells[0]).fontSize) < 6.5 / 0.75 ||
  style.zoom * offsetWidth > document.querySelector('article').clientWidth).length"""
# Explorers are loaded where a reader scrolls to them.
LOADED = """[...document.querySelectorAll('.explorer')].every(
  (one) => one.querySelector('.explorer-view') || void one.scrollIntoView())"""
# What a reader may search, and a page that must be among the first three results.
SEARCHES = {
    "softmax": "02_safe_softmax/1_safe_softmax.html",
    "flash attn varlen": "05_flash_forward/9_packed_sequences.html",
    "how to install without root": "docs/building.html",
    "nvcc not found": "docs/building.html",
    "fp8 kv cache in vLLM": "05_flash_forward/8_serving.html",
    "MLA": "docs/glossary.html",
    "call from Python": "06_flash_backward/7_training.html",
    "MemoryRegion": "reference/structfa_1_1attention_1_1MemoryRegion.html",
}
FOUND = "document.querySelector('.search > :nth-child(-n + 3) a[href*=\"%s\"]')"

# Explorers on the pages where they are read: name, pages, what the mouse does where, and what a
# finger touches.
ALICE = "index", "01_naive_attention/index", "01_naive_attention/1_attention"
BYTES = "index", "05_flash_forward/1_one_kernel"
RING = "04_tiled_matmul/5_hopper", "05_flash_forward/5_persistent"
PIECES = [
    ("alice", ALICE, "point", "[data-pick^='word=2&'] text", "[data-pick^='word=8&'] text"),
    ("bytes", BYTES, "click", "[data-field=moved]", "[data-field=n]"),
    ("stages", RING, "click", "[data-row='1'] text", "[data-row='0'] text"),
]
PLACE = """(name) => {
  const root = document.getElementById(name + '-explorer');
  const [page, box, drawing] = [root.parentNode, root, root.querySelector('.explorer-view')]
    .map((one) => one.getBoundingClientRect());
  return [box.top - page.top, box.height, drawing.top - box.top].map(Math.round);
}"""


def pieces(window, html):
    """Yields what does not work by keyboard, mouse and touch, or moves the page."""
    for name, pages, move, mouse, finger in PIECES:
        root = f"#{name}-explorer"
        drawn = f"document.querySelector('{root} .explorer-view').innerHTML"
        for page in pages:
            window.open(html / f"{page}.html")
            window.until(LOADED, seconds=10)
            place = window.value(PLACE, name)
            for what in ("mouse", "keys", "finger"):
                before = window.value(drawn)
                if what == "keys":
                    window.page.focus(f"{root} .explorer-view")
                    window.press("ArrowLeft")
                elif what == "mouse":
                    getattr(window, move)(f"{root} {mouse}")
                else:
                    window.touch(f"{root} {finger}")
                try:
                    window.page.wait_for_function(
                        f"(old) => {drawn} !== old", arg=before, timeout=2000
                    )
                except browser.PageError:
                    yield f"{page}: {what}: nothing changes in {name}"
                if (now := window.value(PLACE, name)) != place:
                    yield f"{page}: {what}: {name} moves from {place} to {now}"


NO_STORAGE = """Object.defineProperty(window, 'localStorage', {
  get() { throw new DOMException('denied', 'SecurityError'); }
});"""


def memory(window, html):
    """Yields what the pages do not remember: a prediction, a page that was read, and where."""
    page = "02_safe_softmax/1_safe_softmax.html"
    field, tick = ".prediction textarea", f"a[href$='{page}'] .read"
    said = window.page.locator("details .predicted").first

    def count(selector):
        return window.value("(all) => document.querySelectorAll(all).length", selector)

    window.open(html / "index.html")
    window.value("localStorage.clear()")
    window.open(html / "index.html")
    if count(".last") or count(".read"):
        yield "the front remembers what has not been"
    window.open(html / page)
    window.page.fill(field, "about 88")
    window.open(html / page)
    if window.page.input_value(field) != "about 88":
        yield "a prediction is forgotten"
    if said.is_visible():
        yield "a prediction stands in an answer that is folded"
    window.page.press(field, "Enter")
    if not said.is_visible() or "about 88" not in said.inner_text():
        yield "an answer does not begin with the prediction"
    window.value("scrollTo({top: document.body.scrollHeight, behavior: 'instant'})")
    window.until("document.querySelector('.read')", seconds=10)
    section = window.value("document.querySelectorAll('section > h2')[2].parentNode.id")
    window.value(
        "(id) => document.getElementById(id).scrollIntoView({behavior: 'instant'})", section
    )
    window.open(html / "index.html")
    if not (link := window.page.get_attribute(".last a", "href")).endswith(f"{page}#{section}"):
        yield f"the front leads to {link}, not to {section} of {page}"
    if not count(tick):
        yield "a page that was read has no tick"
    with window.page.expect_navigation():
        window.click(".last button")
    if count(".last") or count(".read"):
        yield "what is to be forgotten is not"
    yield from window.faults()
    window.page.add_init_script(NO_STORAGE)  # the theme, too, then reports an error
    window.open(html / page)
    if count(field):
        yield "without storage there is a field for a prediction"


def look(html, files):
    """(faults, a summary) of these pages of the site."""
    found = []
    with browser.Browser() as window:
        for width in WIDTHS:
            window.size(width, 900)
            for file in files:
                window.open(html / file)
                window.until(LOADED, seconds=10)
                faults = [*window.value(LOOK), *window.faults()]
                found += [f"{file}, {width} pixels: {fault}" for fault in faults]
            window.look(dark=width == min(WIDTHS))
            found += [f"{fault}, {width} pixels" for fault in pieces(window, html)]
            window.look(dark=False)
        # Its excerpts need a server.
        for words, page in SEARCHES.items():
            window.open(html / "search.html", f"?q={words.replace(' ', '+')}")
            try:
                window.until(FOUND % page, seconds=10)
            except browser.PageError:
                found.append(f"the search for {words} does not find {page}")
        found += memory(window, html)
        window.size(*browser.PAGE)
        window.page.emulate_media(media="print")
        window.open(html / "docs/results/06_beside_pytorch.html")
        window.value(browser.FIT)
        if faults := window.value(TABLES):
            found.append(f"in the book {faults} tables are too wide or too small")
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
