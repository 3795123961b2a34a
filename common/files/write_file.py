"""Files that appear whole or not at all, and text that a terminal may show: write_file.hpp and
escape.hpp for Python."""

import os
import pathlib
import re
import secrets
import stat

# Controls, what changes the direction or the line, and bytes that were not UTF-8
# (errors="surrogateescape").
OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text):
    """A text whose control characters are written as \\x1b and the like."""
    return OBEYED.sub(
        lambda c: f"\\x{ord(c[0]):02x}" if ord(c[0]) < 256 else f"\\u{ord(c[0]):04x}", text
    )


class _Partial:
    """A new file beside another one, which goes away unless it becomes that one."""

    def __init__(self, path):
        self.target = pathlib.Path(os.path.realpath(path))  # what symbolic links lead to
        try:
            self.status = os.stat(path)
        except FileNotFoundError:
            self.status = None
        if self.status is not None and not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied", str(path))
        if self.target.is_dir():
            raise IsADirectoryError(21, "Is a directory", str(path))
        self.path = self.target.with_name(f".{secrets.token_hex(8)}.partial")
        self.file = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb")

    def __enter__(self):
        return self

    def become(self):
        if self.status is not None:
            os.fchmod(self.file.fileno(), stat.S_IMODE(self.status.st_mode))
        self.file.close()
        os.replace(self.path, self.target)

    def __exit__(self, *_):
        try:
            self.file.close()
        finally:
            self.path.unlink(missing_ok=True)


def _is_special(path):
    """Whether it is a device or the like, which cannot be replaced."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def write_file(path, data):
    """Writes a text or bytes, whole or not at all; several may write the same file at once. Devices
    are written as they are. OSError when it cannot be written; nothing is left behind."""
    data = data.encode("utf-8") if isinstance(data, str) else data
    if _is_special(path):
        with open(path, "wb") as file:
            file.write(data)
        return
    with _Partial(path) as partial:
        partial.file.write(data)
        partial.become()


def check_writable(path):
    """OSError when write_file() could not write this file now. The file is not touched."""
    if not _is_special(path):
        with _Partial(path) as partial:
            partial.file.write(b"\n")
