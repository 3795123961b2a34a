"""Checks the figures in sentences, as docs/README.md says how they are bound and marked: it finds
measured figures that are bound to no record, values that differ from their record, and claims that
do not hold. It runs no program: what pages have printed is taken as it stands.
"""

import re

from docs.site.excerpts import fences_of, markdown_files, read_lines
from docs.site.figures import CLAIM, VALUE, WORDS, Figures, with_figures

NUMBER = rf"(?:(?<![\w.,/-])\d[\d,]*(?:\.\d+)?|\b(?:{'|'.join(WORDS[2:])})\b)"
AS_FAST = (
    r"(?:as (?:fast|slow|long)|faster|slower|longer|the (?:speed|time|rate|bandwidth)|that of)"
)
UNIT = (
    r"(?:[TG]?FLOP/s|[GT]B/s|ms\b|us\b|µs|(?-i:s)(?=[ ,.;:)]|$)|(?:micro|milli|nano)?seconds\b|"
    rf"%(?! ?\d)|percent(?:age points)?\b|points\b|times {AS_FAST}|registers\b|"
    r"(?:KiB|bytes) (?:per|of a|for each) thread|registers (?:per|of a|for each) thread)"
)
MEASURED = re.compile(rf"{NUMBER}(?:(?:,| (?:to|and|or|of)) {NUMBER})*[  ]?{UNIT}", re.IGNORECASE)
PART = r"(?:half|third|quarter|fifth|sixth|seventh|eighth|tenth)s?"
CHANGES = r"(?:falls?|rises?|gains?|loses?|costs?)(?: by| of| about| nearly| almost| more than)*"
IN_WORDS = re.compile(
    rf"\b(?:twice|half) (?:as (?:fast|slow|long)|the (?:speed|time))|"
    rf"\b{PART} (?:more|less|faster|slower|(?:of )?the (?:speed|time|peak))|"
    rf"\b(?:speeds?|rates?|times?)\b.*fold\b|\b{CHANGES} an? {PART}(?=[,.:;]|$)",
    re.IGNORECASE,
)
FROM_TO = re.compile(
    rf"\b(?:climb|f[ae]ll|r[io]se|gr[eo]w|drop)\w* from {NUMBER} to {NUMBER}", re.IGNORECASE
)
RATE = re.compile(r"(?<![\w.,/-])\d+\.\d+(?: (?:to|and) \d+\.\d+)? times\b")
RATIO = re.compile(r"(?<![\w.,/-])[01]\.\d\d+(?: to \d\.\d+)?(?![\w%]| ?\w+/s)")
COMPARED = re.compile(r"\b(?:fast|slow|price|ratio|speed|gain|best|peers?)", re.IGNORECASE)
MARK = re.compile(r"<!-- (?:arithmetic|cited|hardware|example|limit)\b.*? -->")
APART = re.compile(r"``.*?``|`[^`]*`|\]\([^)]*\)|<!--.*?-->|<[^>]+>|https?://\S+")
GENERATED = re.compile(r"\s*<!-- (/?)(?:generated|on the site)\b")
# Figures that no record has to say, on any page: properties of hardware, and their sources.
CONSTANTS = {
    "1071 TFLOP/s": "H200: 132 SMs x 4096 dense 16-bit FLOPs x 1.98 GHz, the tables' peak",
    "989 TFLOP/s": "H100 and H200 data sheet: dense bfloat16",
    "67 TFLOP/s": "the same, rounded",
    "66.9 TFLOP/s": "H200: 132 SMs x 128 multiply-adds x 2 x 1.98 GHz, their float32 peak",
    "4.81 TB/s": "H200: width of the memory's bus times its clock, the peak of the tables",
    "4.8 TB/s": "H200 data sheet: HBM3e",
    "3.35 TB/s": "H100 SXM data sheet: HBM3",
    "255 registers": "CUDA C++ Programming Guide: the most that a thread may have",
    "255 registers per thread": "CUDA C++ Programming Guide: the most that a thread may have",
    "450 GB/s": "half of the 900 GB/s of NVLink in data sheets, which count both directions",
}
HISTORY = ("CHANGELOG.md",)  # what was true of a release stays as it is


def sentences(lines):
    """Yields (number, line) of the lines that are typed: no listings, no printed blocks."""
    _, inside = fences_of(lines)
    printed = False
    for i, line in enumerate(lines):
        if line.startswith("# ") or (i and lines[i - 1] == "<!-- navigation -->"):
            continue  # a title stands in other pages, too
        if i not in inside and (match := GENERATED.match(line)):
            printed = not match[1]
        elif i not in inside and not printed and not line.lstrip().startswith("```"):
            yield i + 1, line


def claimed(line):
    """The numbers that a claim of this line states, as factors and as percent."""
    found = set()
    for claim in CLAIM.finditer(line):
        for text in re.findall(r"\d+(?:\.\d+)?", re.sub(r"\[.*?\]", "", claim["relation"])):
            x = float(text)
            found |= {round(y, 6) for y in (x, 100 * x, 100 * (x - 1), 100 * (1 - x))}
    return found


def numbers(text):
    """The numbers of a figure."""
    for word in re.findall(r"[A-Za-z]+|\d[\d,]*(?:\.\d+)?", text):
        if word.lower() in WORDS:
            yield float(WORDS.index(word.lower()))
        elif word[0].isdigit():
            yield float(word.replace(",", "").rstrip("."))


def unbound(lines):
    """Yields (number of the line, figure) of each measured figure that is neither bound nor
    marked."""
    for number, line in sentences(lines):
        if MARK.search(line):
            continue
        known = claimed(line)
        text = APART.sub(" ", VALUE.sub("☐", line))
        patterns = [MEASURED, FROM_TO, RATE, *([RATIO] if COMPARED.search(text) else [])]
        patterns += [] if CLAIM.search(line) else [IN_WORDS]
        for pattern in patterns:
            for match in pattern.finditer(text):
                figure = " ".join(match[0].split())
                if figure in CONSTANTS or (known and set(numbers(figure)) <= known):
                    continue
                yield number, figure


def out_of_step(figures, page):
    """Yields a message for each value and claim of a page that is not as the records have it."""
    found, old = [], figures.text_of(page)

    def note(line, sentence):
        found.append(f"{page}:{line}: {sentence}")

    new = with_figures(old, figures, page, note, note)
    for i, (line, wanted) in enumerate(zip(old.split("\n"), new.split("\n"))):
        for was, is_now in zip(VALUE.finditer(line), VALUE.finditer(wanted)):
            if was["text"] != is_now["text"]:
                note(i + 1, f"'{was['text']}' is {is_now['text']} by {was['query']}.")
    yield from found


def faults(root):
    """Checks the figures in sentences."""
    figures = Figures(root, lambda page: (root / page).read_text(encoding="utf-8"))
    known = [path.relative_to(root).as_posix() for path in markdown_files(root)]
    for page in known:
        yield from out_of_step(figures, page)
        if page not in HISTORY:
            for number, figure in unbound(read_lines(root / page)):
                yield f"{page}:{number}: '{figure}' is bound to no record; docs/README.md says how."
    return f"{len(known)} pages"
