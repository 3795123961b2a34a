"""Opens the finished site in Chromium, with no network, and looks at what a reader meets:

    searches      each of SEARCHES has its page among the first three, and most have it first
    pages         every page in windows of 1440, 1100, 820 and 390 pixels, light and dark: nothing
                  is clipped, nothing fails to load, every formula is drawn
    drawings      none is cut from 820 pixels on; one that scrolls on a phone shows that it does;
                  all have the palette of the page
    phone         tables with sentences are stacked, of others the first column stays, and they show
                  that they scroll; options are whole; the bar's icons have their size
    lines         none ends between a number and its unit, before the punctuation of a formula, or
                  behind the sign of infinity
    tables        on a wide page none of up to twelve columns is cut; on a phone no first column is
                  squeezed
    axe           no finding of level A or AA, light and dark
    print         no table or listing is wider than the paper
    keyboard      from the front page to the source of a listing without a mouse
    place         Back and reload return to the place on the page
    course        each lesson has its chapters and their exercises below it in the sidebar; arrow
                  keys lead from chapter to chapter
    front         what a newcomer looks for on the front page
    reference     no finding on three of its pages, light and dark
    slides        each question of the chapters, no answer unfolded, letters that a hall can read,
                  each fits the window, an answer too, which may scroll

Exit status: browser.run_test; 77 also where there is no site.
"""

import argparse
import concurrent.futures
import importlib.util
import pathlib
import sys

from docs.site import browser, navigation
from docs.site.excerpts import read_lines
from docs.site.transforms import COLUMN

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAULTS = pathlib.Path(__file__).with_name("page_faults.js")
BROWSERS = 2  # at a time
WIDE, PHONE, PAPER = 1440, 390, 718  # pixels; A4 without margins of 1 cm
# What readers look for, and where they should find it. Written before the index.
SEARCHES = {
    "online softmax": "03_online_softmax/1_online_softmax.html",
    "bank conflict": "04_tiled_matmul/2_memory.html",
    "log-sum-exp": "02_safe_softmax/1_safe_softmax.html",
    "ping-pong": "05_flash_forward/4_overlap.html",
    "lazy rescaling": "05_flash_forward/6_tile_shapes.html",
    "coalescing": "04_tiled_matmul/2_memory.html",
    "thread tiling": "04_tiled_matmul/3_matmul.html",
    "ldmatrix": "04_tiled_matmul/4_tensor_cores.html",
    "mbarrier": "04_tiled_matmul/5_hopper.html",
    "wgmma descriptor": "04_tiled_matmul/5_hopper.html",
    "warp specialization": "05_flash_forward/3_hopper.html",
    "causal mask": "01_naive_attention/1_attention.html",
    "persistent kernel tile scheduler": "05_flash_forward/5_persistent.html",
    "derivative of softmax": "01_naive_attention/2_gradients.html",
    "atomicAdd dQ": "06_flash_backward/2_fused_kernels.html",
    "deterministic backward": "06_flash_backward/3_tensor_cores.html",
    "roofline": "docs/theory/01_memory_hierarchy.html",
    "occupancy registers": "docs/theory/06_registers_and_occupancy.html",
    "overflow of exp": "02_safe_softmax/1_safe_softmax.html",
    "first CUDA program": "04_tiled_matmul/1_first_program.html",
    # Questions of visitors.
    "where is the kernel of ping-pong": "05_flash_forward/4_overlap.html",
    "what does ping-pong gain on an H200": "05_flash_forward/4_overlap.html",
    "what is a bank conflict": "04_tiled_matmul/2_memory.html",
    "open the code of online softmax": "03_online_softmax/1_online_softmax.html",
    "how do I run lesson 5 without a GPU": "04_tiled_matmul/1_first_program.html",
    "what is a wgmma descriptor": "04_tiled_matmul/5_hopper.html",
    "which exercise teaches the mbarrier phase": "05_flash_forward/exercises/phase/task.html",
    "how fast is the backward pass beside FA-3": "06_flash_backward/index.html",
    "how do I hand in an exercise": "common/classroom/exercises.html",
    # Words that are not in a title, are written in another way, or are for teachers.
    "dropout": "01_naive_attention/1_attention.html",
    "FlashAttention 3": "05_flash_forward/4_overlap.html",
    "flash attention 2": "05_flash_forward/1_one_kernel.html",
    "grouped-query": "01_naive_attention/1_attention.html",
    "syllabus": "common/classroom/teaching.html",
    "marks for gradescope": "common/classroom/teaching.html",
    "multi-head latent attention": "06_flash_backward/appendix_block_pairs.html",
    "register spilling": "docs/theory/06_registers_and_occupancy.html",
    "profile with ncu": "docs/theory/08_reading_a_profile.html",
    "Blackwell": "docs/theory/10_beyond_hopper.html",
    "train a transformer": "06_flash_backward/7_training.html",
    "underflow": "02_safe_softmax/1_safe_softmax.html",
    # Later chapters, and words of visitors.
    "flash decoding": "05_flash_forward/7_decoding.html",
    "paged attention": "05_flash_forward/8_serving.html",
    "context parallelism on multiple GPUs": "06_flash_backward/8_ring_attention.html",
    "zigzag load balancing": "06_flash_backward/8_ring_attention.html",
    "recompute P in backward": "06_flash_backward/1_derivation.html",
    "install cuda toolkit requirements": "docs/building.html",
    "faster than cuDNN?": "docs/results/comparison.html",
}
FIRST = 26 / 30  # of them must be the first page found
# Excerpts are sentences: no TeX, no runs of figures, no commit ids.
UNREADABLE = r"\\[A-Za-z]|(?:\d[\d.,]* ){5}|\b(?=[a-f]*\d)[0-9a-f]{10,40}\b"
# What stands above the pages found: a term of the glossary, a name of the code, corrected words.
ABOVE = {
    "what is a bank conflict": ("term", "bank conflict: "),
    "why is the LSE stored": ("term", "LSE: "),
    "where is the kernel of ping-pong": ("code", "12_ping_pong.cuh"),
    "open the code of online softmax": ("code", "fa::on_gpu::online_softmax"),
    "bank conflit": ("count", "Did you mean bank conflict?"),
    "onlien softmax": ("count", "Did you mean online softmax?"),
}
LISTING = "05_flash_forward/1_one_kernel.html"

# Text is compared with what is behind it at three places of each style of a page: a colour, size
# and weight, and the backgrounds that it stands on. Three, since axe cannot judge what something
# covers; nor can it judge a single letter.
AXE = """async (rules) => {
  const places = new Map(), behind = new Map();
  const backgrounds = (element) => {
    if (!element) return '';
    if (!behind.has(element)) {
      const style = getComputedStyle(element);
      const own = [style.backgroundColor, style.backgroundImage, style.opacity].join();
      const none = own === 'rgba(0, 0, 0, 0),none,1';
      behind.set(element, backgrounds(element.parentElement) + (none ? '' : own));
    }
    return behind.get(element);
  };
  for (const element of document.body.querySelectorAll('*')) {
    const text = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    element.toggleAttribute('data-compared', false);
    if (!text || element.textContent.trim().length < 2 || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const own = [style.color, style.fontSize, style.fontWeight, style.textShadow];
    const key = own.join() + backgrounds(element), count = places.get(key) || 0;
    element.toggleAttribute('data-compared', count < 3);
    places.set(key, count + 1);
  }
  axe.configure({rules: [{id: 'color-contrast', selector: '[data-compared]'}]});
  const result = await axe.run(
    document, {preload: false, resultTypes: ['violations'], runOnly: rules});
  return result.violations.map(
    (v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.target).join('; '));
}"""
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
# The page has seen its new size.
SETTLED = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))"
FOUND = """([words, unreadable]) => {
  const query = document.getElementById('course-query');
  query.value = words;
  query.dispatchEvent(new Event('input'));
  const items = [...document.querySelectorAll('#course-results > li')].slice(0, 3);
  return [
    items.map((item) => item.querySelector('a').getAttribute('href').split('#')[0]),
    items.map((item) => item.querySelector('.course-excerpt').textContent)
      .filter((text) => new RegExp(unreadable).test(text)),
  ];
}"""


def searches(window, html):
    """Yields faults of the search."""
    window.open(html / "search.html")
    later = []
    for words, page in SEARCHES.items():
        found, unreadable = window.value(FOUND, [words, UNREADABLE])
        if page not in found:
            yield f"the search for '{words}' finds {', '.join(found)}, not {page}"
        elif page != found[0]:
            later.append(f"'{words}' finds {found[0]} before {page}")
        for text in unreadable:
            yield f"the search for '{words}' shows '{text}'"
    if len(later) > (1 - FIRST) * len(SEARCHES):
        yield f"too many searches have another page first: {'; '.join(later)}"


def above(window, html):
    """Yields faults of what stands above the pages found."""
    for words, (kind, wanted) in ABOVE.items():
        window.open(html / "search.html", "?q=" + words)
        window.until("document.getElementById('course-count').textContent")
        said = window.value(f"document.getElementById('course-{kind}').textContent")
        if wanted not in said:
            yield f"the search for '{words}' says '{said}', not '{wanted}'"


def axe():
    """The script that looks for barriers."""
    package = importlib.util.find_spec("axe_playwright_python").origin
    return pathlib.Path(package).with_name("axe.min.js").read_text(encoding="utf-8")


def every_page(window, html, files, counts):
    """Yields faults of each page, in each size and look."""
    script = axe()
    for file in files:
        window.size(WIDE, 900)
        window.look(dark=False)
        window.open(html / file)
        window.value("document.querySelectorAll('details').forEach((box) => box.open = true)")
        window.value(FAULTS.read_text(encoding="utf-8"))

        def found(kind, argument="", where=""):
            return [
                f"{file}{where}: {words}"
                for words in window.value(f"pageFaults.{kind}({argument})")
            ]

        formulas, empty = window.value("pageFaults.formulas()")
        counts["formulas"] += formulas
        if empty:
            yield f"{file}: {empty} of {formulas} formulas are not drawn"
        yield from (
            f"{file}: a gap in a formula: {gap}" for gap in window.value("pageFaults.gaps()")
        )
        for figure in window.value("pageFaults.units()"):
            yield f"{file}: a line may end in '{figure}'"
        window.value(script)
        drawn = window.value("!!document.querySelector('.drawing')")
        # Colours differ between the looks, everything else between the sizes.
        for dark, width, rules in (
            (False, WIDE, LEVELS),
            *((False, width, []) for width in COLUMN if drawn and width not in (WIDE, PHONE)),
            (False, PHONE, []),
            (True, PHONE, ["color-contrast", "scrollable-region-focusable", "aria-hidden-focus"]),
            *([(True, WIDE, [])] if drawn else []),
        ):
            window.look(dark)
            window.size(width, 900)
            window.value(SETTLED)
            where = f", {width} pixels"
            yield from found("clipped", where=f"{where}: clipped")
            column, wrong = window.value(f"pageFaults.drawings({str(dark).lower()})")
            yield from (f"{file}{where}: {words}" for words in wrong)
            if not dark:
                yield from found("ends", where=where)
                yield from found("tables", where=where) if width == WIDE else ()
            elif width == PHONE:
                yield from found("phones", where=where)
            if file == LISTING and column != COLUMN[width]:
                yield f"{file}: in a window of {width} the text has {column} pixels"
            if rules:
                counts["axe"] += 1
                for words in window.value(AXE, rules):
                    yield f"{file}, {'dark' if dark else 'light'}, {width} pixels: axe: {words}"
        window.look(False, paper=True)
        window.size(PAPER, 1000)
        yield from found("paper", where=", on paper")
        yield from (f"{file}: {sentence}" for sentence in window.faults())


FOCUS = "document.activeElement.getAttribute('href') || document.activeElement.tagName"


def tab_to(window, wanted, most):
    """Presses Tab until the focus is on a link whose address ends so; returns how often."""
    for count in range(1, most + 1):
        window.press("Tab")
        if str(window.value(FOCUS)).split("#")[0].endswith(wanted):
            return count
    raise browser.PageError(f"{most} times Tab do not reach the link to {wanted}")


def keyboard(window, html):
    """Yields faults of a walk without a mouse: front page, lesson, chapter, source of a listing."""
    window.size(WIDE, 900)
    window.look(dark=False)
    window.open(html / "index.html")
    window.press("Tab")
    if window.value(FOCUS) != "#furo-main-content":
        yield f"the first Tab reaches {window.value(FOCUS)}, not the link to the content"
        return
    window.press("Enter")
    tab_to(window, "05_flash_forward/index.html", 40)
    window.press("Enter")
    window.page.wait_for_url("**/05_flash_forward/index.html*")
    window.press("Tab")
    window.press("Enter")
    tab_to(window, "1_one_kernel.html", 40)
    window.press("Enter")
    window.page.wait_for_url("**/1_one_kernel.html*")
    window.press("Tab")
    window.press("Enter")
    tab_to(window, "02_flash_1.cuh.html", 20)
    window.press("Enter")
    window.page.wait_for_url("**/02_flash_1.cuh.html*")
    if not window.value("document.querySelector('.course-links a[href*=one_kernel]')"):
        yield "the source of a listing has no link to its chapter"
    window.open(html / "index.html")
    window.press("/")
    if window.value("document.activeElement.name") != "q":
        yield "the key / does not reach the search"


def place(window, html):
    """Yields faults of Back and reload."""
    window.size(WIDE, 900)
    window.open(html / LISTING)
    window.value("window.scrollTo({top: 4000, behavior: 'instant'})")
    window.until("Math.abs(window.scrollY - 4000) < 2")
    for name, act in (("Back", None), ("reload", window.page.reload)):
        if act:
            act()
        else:
            window.value("void (location.href = '2_tensor_cores.html')")
            window.page.wait_for_url("**/2_tensor_cores.html*")
            window.page.go_back()
        window.until("document.readyState === 'complete'")
        try:
            window.until("Math.abs(window.scrollY - 4000) < 100", 5)
        except browser.PageError:
            yield f"{name} leads to line {window.value('window.scrollY')} of the page, not to 4000"


def course(window, html):
    """Yields faults of the way through the course: sidebar, title and path of a chapter, arrows."""
    window.size(WIDE, 900)
    window.open(html / "05_flash_forward/3_hopper.html")
    title = window.value("document.querySelector('h1').firstChild.textContent")
    if not title.startswith("5.3 "):
        yield f"the title of chapter 3 of lesson 05 is '{title}'"
    path = window.value("document.querySelector('.crumbs')?.innerText || ''")
    if "05. Flash forward" not in path:
        yield f"above chapter 3 of lesson 05 stands '{path}', not its lesson"
    tree = "[...document.querySelectorAll('.sidebar-tree li')]"
    alone = window.value(
        f"{tree}.filter((item) => item.querySelector(':scope > a[href*=\"/exercises/\"]')"
        " && !item.closest('ul').closest('li')).length"
    )
    if alone:
        yield f"{alone} exercises stand in the sidebar without a lesson above them"
    for key, wanted in (("ArrowRight", "4_overlap.html"), ("ArrowLeft", "3_hopper.html")):
        window.press(key)
        window.page.wait_for_url(f"**/{wanted}*")


def front(window, html):
    """Yields what the front page has too much or too little of."""
    window.size(WIDE, 900)
    window.open(html / "index.html")
    tables = window.value("document.querySelectorAll('article table').length")
    if tables > 1:
        yield f"the front page has {tables} tables"
    if window.value("[...document.querySelectorAll('article .provenance')].some((d) => d.open)"):
        yield "the front page unfolds where its figures come from"
    text = window.value("document.querySelector('article').innerText")
    for words in ("Three ways in", "hours", "language model", "git clone", "exercises"):
        if words not in text and not (words == "git clone" and "Clone the repository" in text):
            yield f"the front page does not say '{words}'"


# The smallest letters of texts; those of drawings: check_drawings.py.
LETTERS = """(() => {
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const box = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || box.closest('script, math')) continue;
    const size = parseFloat(getComputedStyle(box).fontSize);
    if (size < 15) found.push(`${size} pixels: ${walk.currentNode.data.trim().slice(0, 40)}`);
  }
  if (document.documentElement.scrollWidth > innerWidth) found.push('wider than the window');
  return found.slice(0, 5);
})()"""
# What of a slide a window does not show (unfolded, it may scroll), and answers without room.
OVERFULL = """(() => {
  const found = [];
  for (const slide of document.querySelectorAll('.slide')) {
    const folds = [...slide.querySelectorAll(':scope > details')];
    for (const open of [false, true]) {
      for (const fold of folds) fold.open = open;
      const height = open ? slide.offsetHeight : Math.max(slide.offsetHeight, slide.scrollHeight);
      const words = open ? ', unfolded' : '';
      if (height > innerHeight + 2) found.push(`${slide.id} has ${height} pixels${words}`);
    }
    for (const box of slide.querySelectorAll('.whole')) {
      if (box.getClientRects().length > 1) found.push(`${slide.id}: ${box.textContent} is broken`);
    }
    const cut = folds.some(fold => fold.clientHeight < Math.min(fold.scrollHeight, 100));
    if (cut) found.push(`${slide.id} has no room for its answer`);
    for (const fold of folds) fold.open = false;
  }
  return found;
})()"""
ANSWERS = "[...document.querySelectorAll('details')].filter((box) => box.open).length"


def slides(window, html):
    """Yields faults of the slides of each lesson."""
    window.size(1280, 720)
    window.look(dark=False)
    for lesson in navigation.lessons(ROOT):
        name = lesson.replace("README.md", "slides.html")
        numbered = [page for page in navigation.chapters(ROOT, lesson) if "/appendix" not in page]
        asked = sum(
            line.startswith("**Predict") for page in numbered for line in read_lines(ROOT / page)
        )
        window.open(html / name)
        count = "document.querySelectorAll('.slide.question').length"
        if (shown := window.value(count)) != asked:
            yield f"{name}: {shown} questions, not {asked} as in the chapters"
        for kind in ("listing", "table", "drawing"):
            if not window.value(f"document.querySelectorAll('.slide.{kind}').length"):
                yield f"{name}: no slide has a {kind}"
        if window.value(ANSWERS):
            yield f"{name}: an answer is unfolded"
        yield from (f"{name}: {words}" for words in window.value(LETTERS))
        yield from (f"{name}: {words}" for words in window.value(OVERFULL))
        yield from (f"{name}: {sentence}" for sentence in window.faults())


REFERENCE = ("index.html", "05_flash_forward/kernels/12_ping_pong.cuh.html")


def reference(window, html):
    """Yields what axe finds on pages of the reference."""
    window.size(WIDE, 900)
    for name in REFERENCE:
        for dark in (False, True):
            window.look(dark)
            window.open(html / "reference" / name)
            window.value(axe())
            for words in window.value(AXE, LEVELS):
                yield f"reference/{name}, {'dark' if dark else 'light'}: axe: {words}"


WALKS = (searches, above, keyboard, place, course, front, slides, reference)


def look(html):
    """(faults, a summary) of the site."""
    files = [navigation.html_file(page) for page in navigation.pages(ROOT)] + ["search.html"]
    files += [
        path.relative_to(html).as_posix() for path in sorted(html.glob("changes/*/*/*.html"))[:1]
    ]
    counts = {"formulas": 0, "axe": 0}

    def part_of(part):
        """The faults that one browser finds: the first one's walks, and its part of the pages."""
        found = []
        with browser.Browser() as window:
            try:
                for walk in WALKS if part == 0 else ():
                    found += walk(window, html)
                found += every_page(window, html, files[part::BROWSERS], counts)
            except browser.PageError as error:
                found.append(str(error))
        return found

    with concurrent.futures.ThreadPoolExecutor(BROWSERS) as pool:
        found = [fault for part in pool.map(part_of, range(BROWSERS)) for fault in part]
    if not counts["formulas"]:
        found.append("the site has no formula")
    return found, (
        f"{len(files)} pages, {counts['formulas']} formulas drawn without a network, "
        f"{counts['axe']} runs of axe, {len(SEARCHES)} searches"
    )


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Open the finished site in a browser.")
    parser.add_argument("--html", required=True, type=pathlib.Path, help="the site's directory")
    html = parser.parse_args(arguments).html
    if not (html / "index.html").is_file():
        print(f"skipped: there is no site in {html}; ./learn docs builds it.")
        return 77
    return browser.run_test("drive_site.py", lambda: look(html))


if __name__ == "__main__":
    sys.exit(main())
