"""Prints a book, on one page of HTML, as PDF: by Chromium, with a title page, a table of contents,
running heads, the numbers of pages behind its links, and an outline.

It prints until the numbers are right: where a link leads is known when the book has been printed.

    python3 -m docs.site.print_pdf build/learn/docs/single/README.html build/learn/docs/course.pdf

Exit status: 0 done, 1 the file is larger than 10 MB, 2 could not be done.
"""

import argparse
import html
import pathlib
import re
import sys

from pypdf import PdfReader, PdfWriter
from pypdf.generic import Fit

from docs.site import browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMES = 3  # that it prints at most
MOST = 10  # MB
DOCUMENT = re.compile(r'<span id="document-([^"]*)"></span>\s*<section id="[^"]*">')
HEADING = re.compile(r"<(/?)h([1-6])\b")
HEADERLINK = re.compile(r'<a class="headerlink"[^>]*>.*?</a>', re.S)
SECTION = re.compile(
    r'<section\b[^>]*\bid="([^"]*)"[^>]*>\s*(?:<span[^>]*></span>\s*)*<h([1-3])\b[^>]*>(.*?)</h\2>',
    re.S,
)
UNKNOWN = "000"  # as wide as a number
# What is longer than half a page may be divided.
LONG = """document.querySelectorAll('.listing, .printed').forEach((box) => {
  if (box.getBoundingClientRect().height > 480) box.classList.add('long');
})"""


def title_page(text, citation):
    """The title page: from the page's title and CITATION.cff."""

    def cited(key):
        return html.escape(re.search(rf"^{key}: (.*)$", citation, re.M)[1])

    title = re.search(r"<title>(.*?)</title>", text, re.S)[1].strip()
    abstract = re.search(r"abstract: >-\n((?:  .*\n)+)", citation)
    words = html.escape(" ".join(abstract[1].split())) if abstract else ""
    return (
        f'<section class="book-title"><h1>{title}</h1><p class="abstract">{words}</p>'
        f'<p class="imprint">{cited("  - name")}<br>Version {cited("version")}, '
        f"{cited('date-released')}<br>{cited('license')} licence. Explorers, the tables of all "
        "records and the reference of the code are on the site, which <code>./learn docs</code> "
        "builds.</p></section>"
    )


def contents(text):
    """The table of contents, from the navigation beside the pages, without page numbers."""
    tree = re.search(r'<div class="sidebar-tree">(.*?)</div>', text, re.S)
    if not tree:
        return ""
    tree = re.sub(r"<input\b[^>]*>|<label\b.*?</label>", "", tree[1], flags=re.S)
    return f'<nav class="book-contents"><h2>Contents</h2><div>{tree}</div></nav>'


def places(pdf):
    """{anchor: where it is} in a PDF."""
    found = PdfReader(pdf).named_destinations.items()
    return {name.removeprefix("/"): place for name, place in found}


def page_numbers(pdf):
    """{anchor: page} of a PDF."""
    reader = PdfReader(pdf)
    return {name: reader.get_destination_page_number(at) + 1 for name, at in places(pdf).items()}


def headings(text):
    """[(rank, title, anchor)] of the headings of rank 1 to 3."""
    found = SECTION.findall(text)
    return [
        (int(rank), html.unescape(re.sub(r"<[^>]*>", "", title)).strip(), anchor)
        for anchor, rank, title in found
    ]


def outline(pdf, entries):
    """Adds an outline to a PDF; entries: as headings() gives them. Chromium's own outline needs
    tags, which would be half of the file."""
    writer, known, numbers = PdfWriter(clone_from=pdf), places(pdf), page_numbers(pdf)
    above = [(0, None)]  # ranks and items
    for rank, title, anchor in entries:
        if place := known.get(anchor):
            while above[-1][0] >= rank:
                above.pop()
            where = {"page_number": numbers[anchor] - 1, "fit": Fit.xyz(place.left, place.top)}
            parent = above[-1][1]
            item = writer.add_outline_item(title=title, parent=parent, is_open=False, **where)
            above.append((rank, item))
    writer.page_mode = "/UseOutlines"
    writer.write(pdf)


def numbered(text, pages, form):
    """The text with the number of a page in each link within the book; form: how it is written."""

    def link(found):
        page = pages.get(found[2], UNKNOWN) if pages is not None else UNKNOWN
        return f"{found[1]}{found[3]}{form.format(page)}</a>"

    return re.sub(r'(<a\b[^>]*href="#([^"]*)"[^>]*>)(.*?)</a>', link, text, flags=re.S)


def ranked(text):
    """(the text with headings that show their rank and a named page for each document, the styles
    of these pages). All documents of a book are nested in one page, so each heading has the rank
    of the place where it stands."""
    found = list(DOCUMENT.finditer(text))
    ends = [place.start() for place in found[1:]] + [len(text)]
    made, styles, lesson = [text[: found[0].start()] if found else text], [], ""
    for number, (place, end) in enumerate(zip(found, ends)):
        name, part = place[1], text[place.start() : end]
        below = not name.endswith("/README") and bool(re.match(r"\d\d_", name))
        task = "/exercises/" in name
        first = int(HEADING.search(part)[2])
        title = re.sub(r"<[^>]*>", "", re.search(r"<h\d>(.*?)</h", part, re.S)[1])
        rank = (2 if below else 1) - first

        def level(heading, rank=rank):
            return f"<{heading[1]}h{min(6, max(1, int(heading[2]) + rank))}"

        part = HEADING.sub(level, part)
        if not below:
            lesson = title
        head = f"Exercises: {lesson}" if task else title
        page = f"part-{name.split('/')[0][:2]}-exercises" if task else f"part-{number}"
        left = lesson if below else ""
        left, right = (
            html.unescape(words).replace("\\", "").replace('"', "'") for words in (left, head)
        )
        styles.append(
            f'@page {page} {{ @top-left {{ content: "{left}" }} '
            f'@top-right {{ content: "{right}" }} '
            "@bottom-center { content: counter(page) } }"
        )
        # A new name begins a new page.
        kind = "task" if task else "document"
        opened = place[0].replace("<section ", f'<section style="page: {page}" ', 1)
        opened = opened.replace("<span ", f'<span class="{kind}" style="page: {page}" ', 1)
        made.append(part.replace(place[0], opened, 1))
    return "".join(made), "\n".join(dict.fromkeys(styles))


def write_book(page, pdf):
    """Prints the page."""
    text = HEADERLINK.sub("", page.read_text(encoding="utf-8"))
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    table, title = contents(text), title_page(text, citation)
    head, mark, body = text.partition('<article role="main"')
    body, styles = ranked(body)
    entries = headings(body)
    # Chromium names the places that links lead to.
    links = "".join(f'<a href="#{anchor}"></a>' for *_, anchor in entries)
    style = f'<link rel="stylesheet" href="_static/book.css"><style>{styles}</style></head>'
    head = head.replace("</head>", style, 1)
    # All addresses of a single page begin at the root of what Sphinx wrote.
    root = next((folder for folder in page.parents if (folder / "_static").is_dir()), page.parent)
    copy = root / "book.html"
    pages, form = None, ' <span class="page-number">(p.&nbsp;{})</span>'
    for _ in range(TIMES):
        opened, end, rest = numbered(body, pages, form).partition(">")
        front = title + numbered(table, pages, "<b>{}</b>")
        hidden = f"<div hidden>{links}</div>"
        copy.write_text(head + mark + opened + end + front + hidden + rest, encoding="utf-8")
        with browser.Browser() as window:
            window.page.set_default_timeout(0)  # a thousand pages
            window.open(copy)
            window.look(False, paper=True)
            window.value(LONG)
            window.page.pdf(path=pdf, print_background=True, prefer_css_page_size=True)
        before, pages = pages, page_numbers(pdf)
        if pages == before:
            break
    outline(pdf, entries)


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Print a page as PDF.")
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("pdf", type=pathlib.Path)
    options = parser.parse_args(arguments)
    try:
        if lack := browser.missing():
            raise OSError(lack)
        write_book(options.page, options.pdf)
    except (OSError, browser.PageError) as error:
        print(f"print_pdf.py: {error}", file=sys.stderr)
        return 2
    size = options.pdf.stat().st_size / 1e6
    print(f"{options.pdf}: {size:.1f} MB" + (f"; allowed are {MOST}" if size > MOST else ""))
    return 1 if size > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
