"""Prints the whole course, on one page of HTML, as PDF: by Chromium, with a table of contents.

It prints twice: the first time shows on which pages the chapters begin.

    python3 -m docs.site.print_pdf build/learn/docs/single/README.html build/learn/docs/course.pdf

Exit status: 0 done, 2 could not be done.
"""

import argparse
import pathlib
import re
import sys

from docs.site import browser


def contents(text):
    """The table of contents, from the navigation beside the pages, without page numbers."""
    tree = re.search(r'<div class="sidebar-tree">(.*?)</div>', text, re.S)
    if not tree:
        return ""
    tree = re.sub(r"<input\b[^>]*>|<label\b.*?</label>", "", tree[1], flags=re.S)
    # The tasks of the exercises are many: their page lists them.
    tree = re.sub(r'<li[^>]*><a[^>]*href="#[^"]*/exercises/[^"]*">.*?</a></li>', "", tree)
    return f'<nav class="book-contents"><h2>Contents</h2>{tree}</nav>'


def page_numbers(pdf):
    """{anchor: page} of a PDF that Chromium wrote."""
    raw = pdf.read_bytes()
    kinds = rb"\n(\d+) 0 obj\s*<<\s*/Type /Page\s"
    order = {int(number): i for i, number in enumerate(re.findall(kinds, raw), 1)}
    return {
        re.sub(r"#(\w\w)", lambda code: chr(int(code[1], 16)), name.decode()): order[int(page)]
        for name, page in re.findall(rb"\n/(\S+) \[(\d+) 0 R /XYZ", raw)
        if int(page) in order
    }


def numbered(book, pages):
    """The table of contents with page numbers."""

    def link(found):
        page = pages.get(found[2], "")
        return f"{found[1]}{found[3]}<b>{page}</b></a>"

    return re.sub(r'(<a\b[^>]*href="#([^"]*)"[^>]*>)(.*?)</a>', link, book, flags=re.S)


def write_book(page, pdf):
    """Prints the page, with its contents before the first section."""
    text, place = page.read_text(encoding="utf-8"), '<section id="start">'
    copy = page.with_name("book.html")  # beside the page, so that its pictures are found
    book = contents(text)
    for _ in range(2 if book else 1):
        copy.write_text(text.replace(place, book + place, 1), encoding="utf-8")
        with browser.Browser() as window:
            window.page.set_default_timeout(0)  # a thousand pages
            window.open(copy)
            window.page.pdf(
                path=pdf,
                outline=True,
                tagged=True,
                print_background=True,
                prefer_css_page_size=True,
            )
        book = numbered(book, page_numbers(pdf))


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
    print(f"{options.pdf}: {options.pdf.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
