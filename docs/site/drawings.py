"""How large the site shows a drawing: as wide as the column while its letters are no larger than
the text; in a narrow window its narrow form, or, where it has none, no smaller than can be read.
Then it scrolls."""

import re

from common.drawing import narrow

LARGEST, DRAWN, LEAST = 16, 12, 9  # pixels: of letters at most, where nothing is said, at least
NARROW_WINDOW = 600  # pixels; up to here the narrow form is shown
COLUMN = {390: 358, 820: 772, 1100: 812, 1440: 840}  # width of a window, and of its text
FONT = re.compile(r'font-size="([\d.]+)')
MARK = re.compile(r"\bdrawn-(\d+)-(\d+)-(\d+)(?:-(\d+)-(\d+))?\b")


class Look:
    """The sizes of a drawing, in pixels."""

    def __init__(self, svg):
        self.svg = svg
        self.width, self.height = narrow.size(svg)
        self.letters = min(map(float, FONT.findall(svg)), default=DRAWN)
        self.wide = self.width * LARGEST / self.letters  # on a wide page, where that has the room
        self.least = self.width * LEAST / self.letters
        self.parts = narrow.size(narrow.narrow(svg)) if narrow.rows_of(svg) else None

    def letters_at(self, window):
        """How large the smallest letters are in a window, and whether the drawing scrolls there."""
        width, column = self.width, COLUMN[window]
        if self.parts and window <= NARROW_WINDOW:
            width = self.parts[0]
        else:
            column = max(column, self.least)
        return self.letters * min(column, self.wide) / width, column > COLUMN[window]

    def mark(self):
        """The sizes as the name of a class: drawn, at least, and the narrow form."""
        sizes = [self.width, self.height, self.least, *(self.parts or ())]
        return "drawn-" + "-".join(str(round(size)) for size in sizes)


def picture(image, book=False):
    """The HTML of an image with such a class, as it stands on a page; in a book it has its size."""
    found = MARK.search(image)
    if not found:
        return image
    width, height, least, *parts = found.groups()
    image = image.replace("<img ", f'<img width="{width}" height="{height}" ', 1)
    if book:
        return image
    if not parts[0]:
        return re.sub(r'style="', f'style="min-width: {least}px; ', image, count=1)
    source = re.search(r'src="([^"]*)\.svg"', image)[1]
    return (
        f'<picture><source media="(max-width: {NARROW_WINDOW}px)" srcset="{source}.narrow.svg" '
        f'width="{parts[0]}" height="{parts[1]}"/>{image}</picture>'
    )
