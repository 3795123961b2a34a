"""Draws the folders of the course in layers: python3 -m docs.site.architecture

A folder uses folders of lower layers and of its own. Which folders there are, and what they
include and import, is read from the files; a folder without a place here, or an include that
points upwards, is an error.
"""

import pathlib
import re
import sys

from common.drawing.svg import COLOURS, Drawing
from common.testing import check_dependencies

ROOT = pathlib.Path(__file__).resolve().parents[2]
# From the top: a layer's name, and its folders with a few words each.
LAYERS = [
    (
        "pages",
        {
            "docs/theory": "background",
            "docs/results": "measurements",
            "docs/records": "tables, charts",
            "docs/explorers": "interactive",
            "docs/site": "builds the site",
            "docs/facts": "figures in sentences",
        },
    ),
    (
        "lessons",
        {
            "01_naive_attention": "the reference",
            "02_safe_softmax": "no overflow",
            "03_online_softmax": "tiles, proofs",
            "04_tiled_matmul": "first kernels",
            "05_flash_forward": "forward pass",
            "06_flash_backward": "the gradients",
        },
    ),
    (
        "shared",
        {
            "common/attention": "tiles and ladders",
            "common/bench": "timing, machine code",
            "common/flatten": "a step as one file",
            "common/classroom": "exercises, grading",
        },
    ),
    ("programs", {"common/cli": "options, tables", "common/testing": "test tools"}),
    (
        "machines",
        {"common/gpu": "CUDA, or the lab", "common/lab": "CUDA on a CPU, observed"},
    ),
    (
        "foundation",
        {
            "common/tensor": "tensors",
            "common/check": "acceptance",
            "common/parallel": "threads",
            "common/drawing": "SVG, charts",
            "common/data": "input, files",
            "common/cmake": "the build",
        },
    ),
]


def folder_of(path):
    """The folder of the picture that a file is in, or "" for a file directly in docs or common."""
    parts = path.split("/")
    if parts[0] in ("common", "docs"):
        return "/".join(parts[:2]) if len(parts) > 2 else ""
    return parts[0] if len(parts) > 1 else ""


def check(root=ROOT):
    """Raises ValueError for what contradicts LAYERS."""
    height = {name: -k for k, (_, folders) in enumerate(LAYERS) for name in folders}
    there = {folder_of(path.relative_to(root).as_posix()) for path in root.glob("0*/*")}
    for parent in ("common", "docs"):
        there |= {
            f"{parent}/{path.name}"
            for path in (root / parent).iterdir()
            if path.is_dir() and path.name != "__pycache__"
        }
    if there != set(height):
        raise ValueError(
            f"folders without a place, or none any more: {sorted(there ^ set(height))}"
        )
    for name in check_dependencies.source_files(root):
        read = (
            check_dependencies.read_python if name.endswith(".py") else check_dependencies.read_cpp
        )
        if "/tests/" in name or not folder_of(name):
            continue
        for line, kind, _, used in read(root, name):
            above = height.get(folder_of(used), -99) > height[folder_of(name)]
            if kind == check_dependencies.USES and above:
                raise ValueError(f"{name}:{line} uses {used}, of a higher layer")


def picture():
    """The layers as bands, with an arrow between them."""
    band, gap, left = 62, 16, 98
    width = 760
    drawing = Drawing(
        width, len(LAYERS) * (band + gap) + gap, "The folders of the course in layers"
    )
    for k, (title, folders) in enumerate(LAYERS):
        y = gap + k * (band + gap)
        drawing.text(12, y + band / 2 + 4, title, text_anchor="start", font_weight="bold")
        step = (width - left - 12 + 8) / len(folders)
        for i, (name, words) in enumerate(folders.items()):
            x = left + i * step
            drawing.box(x, y, step - 8, band, COLOURS[k], "#666666", 1)
            middle = x + step / 2 - 4
            above, below = re.fullmatch(r"(\d\d_[a-z]+_|\w+/)(\w+)", name).groups()
            drawing.text(middle, y + 17, above, fill="#444444")
            drawing.text(middle, y + 33, below, font_weight="bold")
            drawing.text(middle, y + 51, words, fill="#444444")
        if k:
            for x in (56, left + 120):
                drawing.pointer(x, y - gap, x, y, stroke="#666666")
    cut, height = left + (width - left - 4) / 2 - 4, len(LAYERS) * (band + gap) + gap
    drawing.narrow([(0, 0, cut, height)], [(0, 0, left - 1, height), (cut, 0, width - cut, height)])
    return drawing


if __name__ == "__main__":
    try:
        check()
    except ValueError as error:
        sys.exit(f"architecture: {error}")
    print(picture().svg(), end="")
