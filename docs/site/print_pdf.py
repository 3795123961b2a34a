"""Prints the whole course, on one page of HTML, as PDF: by Chromium, with a table of contents.

It prints twice: the first time shows on which pages the chapters begin.

    python3 -m docs.site.print_pdf build/learn/docs/single/README.html build/learn/docs/course.pdf

Exit status: 0 done, 2 could not be done.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from docs.site.browser import BROWSERS, MAC, first_of

SECONDS = 300  # for a thousand pages


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


def printed(program, page, pdf):
    """Prints a page; returns what the browser said."""
    pdf.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, "--headless", "--disable-gpu", "--disable-dev-shm-usage"]
        command += [
            f"--user-data-dir={profile}",
            "--no-pdf-header-footer",
            "--generate-pdf-document-outline",
            "--proxy-server=127.0.0.1:9",
        ]
        if hasattr(os, "getuid") and os.getuid() == 0:
            command.append("--no-sandbox")  # Chromium's sandbox refuses root; the page is our own
        command += [f"--print-to-pdf={pdf.resolve()}", page.resolve().as_uri()]
        done = subprocess.run(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            env={**os.environ, "HOME": profile},
            check=False,
        )
    return done.stderr.decode("utf-8", "replace")


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Print a page as PDF.")
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("pdf", type=pathlib.Path)
    options = parser.parse_args(arguments)
    program = first_of((os.environ.get("CHROME"), *BROWSERS, MAC))
    if program is None:
        print("print_pdf.py: there is no Chromium (apt install chromium)", file=sys.stderr)
        return 2
    if not options.page.is_file():
        print(f"print_pdf.py: there is no {options.page}", file=sys.stderr)
        return 2
    text = options.page.read_text(encoding="utf-8")
    book = contents(text)
    place = '<section id="start">'
    # Beside the page, so that its pictures are found.
    copy = options.page.with_name("book.html")
    try:
        copy.write_text(text.replace(place, book + place, 1), encoding="utf-8")
        said = printed(program, copy, options.pdf)
        if book and options.pdf.is_file():
            book = numbered(book, page_numbers(options.pdf))
            copy.write_text(text.replace(place, book + place, 1), encoding="utf-8")
            said = printed(program, copy, options.pdf)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"print_pdf.py: {error}", file=sys.stderr)
        return 2
    if not options.pdf.is_file():
        print(f"print_pdf.py: {program} printed nothing:", file=sys.stderr)
        sys.stderr.write(said[-2000:])
        return 2
    print(f"{options.pdf}: {options.pdf.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
