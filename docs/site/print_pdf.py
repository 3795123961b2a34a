"""Prints a page of the site, or the whole course on one page, as PDF: by Chromium.

    python3 -m docs.site.print_pdf build/learn/docs/single/README.html build/learn/docs/course.pdf

Exit status: 0 done, 2 could not be done.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from docs.site.browser import BROWSERS, MAC, first_of

SECONDS = 300  # for a thousand pages


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
    options.pdf.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, "--headless", "--disable-gpu", "--disable-dev-shm-usage"]
        command += [
            f"--user-data-dir={profile}",
            "--no-pdf-header-footer",
            "--proxy-server=127.0.0.1:9",
        ]
        if hasattr(os, "getuid") and os.getuid() == 0:
            command.append("--no-sandbox")  # Chromium's sandbox refuses root; the page is our own
        command += [f"--print-to-pdf={options.pdf.resolve()}", options.page.resolve().as_uri()]
        try:
            done = subprocess.run(
                command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=SECONDS,
                env={**os.environ, "HOME": profile},
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"print_pdf.py: {error}", file=sys.stderr)
            return 2
    if not options.pdf.is_file():
        print(f"print_pdf.py: {program} printed nothing:", file=sys.stderr)
        sys.stderr.write(done.stderr.decode("utf-8", "replace")[-2000:])
        return 2
    print(f"{options.pdf}: {options.pdf.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
