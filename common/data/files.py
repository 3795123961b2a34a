"""Files that appear whole or not at all, and text that a terminal may show: files.hpp for
Python."""

import os
import pathlib
import re
import secrets
import shutil

# Controls, what changes the direction or the line, and bytes that were not UTF-8
# (errors="surrogateescape").
OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text):
    """A text whose control characters are written as \\x1b and the like."""
    return OBEYED.sub(
        lambda c: f"\\x{ord(c[0]):02x}" if ord(c[0]) < 256 else f"\\u{ord(c[0]):04x}", text
    )


def write_file(path, data, keep=True):
    """Writes a text or bytes into a new file beside the old one, which then takes its place. Links
    are followed, the mode of an old file is kept, and devices and FIFOs are written as they are.
    OSError when it cannot be written; nothing is left behind. keep=False: only tries."""
    data = data.encode("utf-8") if isinstance(data, str) else data
    target = pathlib.Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        if keep:
            target.write_bytes(data)
        return
    if target.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(target))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(13, "Permission denied", str(target))
    partial = target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        partial.write_bytes(data)
        if keep:
            if target.exists():
                shutil.copymode(target, partial)
            os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def check_writable(path):
    """OSError when write_file() could not write this file now. The file is not touched."""
    write_file(path, b"\n", keep=False)
