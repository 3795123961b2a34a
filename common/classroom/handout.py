"""./learn classroom handout: the tasks of some exercises and their start files on paper, without
hints and solutions."""

import argparse
import html
import pathlib
import shutil
import subprocess
import tempfile

from common.classroom import catalogue
from common.classroom.catalogue import Fault
from common.data.files import write_file

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
STYLE = """body { font: 12pt serif; max-width: 45em; margin: auto }
div { white-space: pre-wrap } pre { font-size: 9pt; white-space: pre-wrap }
section { break-inside: avoid-page } h2 { break-before: page } h1 + h2 { break-before: auto }
"""


def page(title, groups):
    """One HTML page to print; groups: [(heading, [exercise, ...])]."""
    parts = [f"<h1>{html.escape(title)}</h1>"]
    for heading, exercises in groups:
        parts.append(f"<h2>{html.escape(heading)}</h2>" if heading else "")
        for exercise in exercises:
            task, start = html.escape(exercise.task()), html.escape(exercise.start())
            parts.append(f"<section><div>{task}</div>\n<pre>{start}</pre></section>")
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title>\n<style>\n{STYLE}</style>\n"
        + "\n".join(parts)
        + "\n</html>\n"
    )


def print_pdf(text, output):
    """Prints a page of HTML by Chromium."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise Fault("a PDF needs Chromium (apt install chromium); --output FILE.html needs none")
    with tempfile.TemporaryDirectory() as folder:
        file, pdf = pathlib.Path(folder, "handout.html"), pathlib.Path(folder, "handout.pdf")
        file.write_text(text, encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
        options += [f"--user-data-dir={folder}/profile", f"--print-to-pdf={pdf}", file.as_uri()]
        done = subprocess.run([browser, *options], capture_output=True, text=True, timeout=300)
        if not pdf.is_file():
            raise Fault(f"Chromium printed nothing: {done.stderr.strip()[-300:]}")
        shutil.copyfile(pdf, output)


def main(arguments, root, _toolchain):
    """Writes the handout; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="./learn classroom handout",
        description="Writes tasks and start files to print, without hints and solutions.",
    )
    add = parser.add_argument
    add("exercises", nargs="+", metavar="ID", help="exercises or lessons, such as 01_memory or 03")
    add("--title", default="Exercises", help="above all (Exercises)")
    words = "a file .pdf, which Chromium prints, or .html (handout.pdf)"
    add("--output", metavar="FILE", default="handout.pdf", help=words)
    options = parser.parse_args(arguments)
    output = pathlib.Path(options.output)
    if output.suffix not in (".pdf", ".html"):
        raise Fault(f"'{output}' ends neither with .pdf nor with .html")
    chosen = catalogue.choose(options.exercises, root)
    text = page(options.title, [("", chosen)])
    if output.suffix == ".html":
        write_file(output, text)
    else:
        print_pdf(text, output)
    print(f"{output}: {len(chosen)} exercises")
    return 0
