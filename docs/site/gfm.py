"""What the page tools share: fences, headings, links and anchors of GitHub Markdown.

Only as much Markdown as the pages of this repository use. Rules: the GitHub Flavored Markdown
specification 0.29 (fences 4.5, HTML comments 4.6, links 6.6).
"""

import html
import re
import unicodedata

FENCE = re.compile(r"^(?P<prefix>(?:[ ]{0,3}>[ ]?)*[ \t]*)(?P<mark>`{3,}|~{3,})(?P<info>.*)$")
HEADING = re.compile(r"^ {0,3}(?P<marks>#{1,6})(?:[ \t]+(?P<text>.*?))?(?:[ \t]+#+)?[ \t]*$")
LIST_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
DEFINITION = re.compile(
    r"^ {0,3}\[(?!\^)(?P<label>[^\]]+)\]:[ \t]*(?P<dest><[^>]*>|\S+)[ \t]*"
    r"(?:\"[^\"]*\"|'[^']*'|\([^)]*\))?[ \t]*$"
)
TABLE_RULE = re.compile(r"^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")

# One alternative for each inline construct, in the order in which GitHub looks for them.
_TEXT = r"(?:[^\[\]\\]|\\.|\[(?:[^\[\]\\]|\\.)*\](?:\([^()\s]*\))?)*"  # brackets nest once
_DEST = r"(?:<[^<>\n]*>|[^\s()<>]*(?:\([^\s()]*\)[^\s()]*)*)"
_TITLE = r"(?:\s+(?:\"[^\"]*\"|'[^']*'))?"
INLINE = re.compile(
    r"(?P<math>\$`(?P<tex>.+?)`\$)"
    r"|(?P<escape>\\(?P<escaped>[!-/:-@\[-`{-~]))"
    r"|(?P<hard_break>\\\n)"
    r"|(?P<code>(?P<ticks>`+)(?!`)(?P<code_text>.+?)(?<!`)(?P=ticks)(?!`))"
    r"|(?P<display>\$\$(?P<display_tex>.+?)\$\$)"
    r"|(?P<dollar>\$(?=[^\s$`])(?P<dollar_tex>[^$]*?[^\s$\\])\$(?![\w$]))"
    r"|(?P<comment><!--.*?-->)"
    r"|(?P<autolink><(?:https?://|mailto:)[^\s<>]*>)"
    r"|(?P<anchor><a\s+(?:id|name)\s*=[^<>]*>\s*</a>)"
    r"|(?P<summary><summary>.*?</summary>)"
    r"|(?P<tag></?[A-Za-z][A-Za-z0-9-]*(?=[\s/>])(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>)"
    rf"|(?P<image>!\[(?P<alt>{_TEXT})\]\(\s*(?P<image_dest>{_DEST}){_TITLE}\s*\))"
    r"|(?P<footnote>\[\^[^\]\s]+\])"
    rf"|(?P<link>\[(?P<link_text>{_TEXT})\]\(\s*(?P<link_dest>{_DEST}){_TITLE}\s*\))"
    r"|(?P<reference>\[(?P<reference_text>(?:[^\[\]\\]|\\.)+)\]"
    r"(?:\[(?P<reference_label>[^\]]*)\])?)"
    r"|(?P<url>https?://(?:[^\s<>\"'`()]|\([^\s()<>]*\))*"
    r"(?:[^\s<>\"'`()\[\].,:;!?*_|]|\([^\s()<>]*\)))",
    re.DOTALL,
)
ATTRIBUTE = re.compile(r"([A-Za-z][\w-]*)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")


class Fence:
    """A fenced block: `first` and `last` are the indices of its opening and closing lines."""

    def __init__(self, first, prefix, mark, info):
        self.first, self.last = first, None  # last stays None when the fence is never closed
        self.prefix, self.mark, self.info = prefix, mark, info.strip()

    def closed_by(self, line):
        """Would this line close the fence?"""
        text = line.strip(" \t>" if ">" in self.prefix else " \t")
        return set(text) == {self.mark[0]} and len(text) >= len(self.mark)


def scan(lines):
    """Sorts lines (without line ends) into text and the rest.

    Returns (kinds, fences): kinds[i] is "text", "open", "code", "close", "comment" or "indented".
    """
    kinds, fences = [], []
    fence, in_comment, in_list, blank_before = None, False, False, True
    for i, line in enumerate(lines):
        if fence and ">" in fence.prefix and not line.lstrip().startswith(">"):
            fence = None  # the quotation that held the fence has ended
        if fence:
            if fence.closed_by(line):
                fence.last = i
                fence = None
                kinds.append("close")
            else:
                kinds.append("code")
        elif in_comment:
            kinds.append("comment")
            in_comment = "-->" not in line
        elif re.match(r"^[ \t]*<!--", line):
            after = line.split("<!--", 1)[1]
            in_comment = "-->" not in after
            # A comment with text after it is an ordinary line; INLINE takes the comment out.
            alone = in_comment or not after.split("-->", 1)[1].strip()
            kinds.append("comment" if alone else "text")
        else:
            match = FENCE.match(line)
            if match and not (match["mark"][0] == "`" and "`" in match["info"]):
                fence = Fence(i, match["prefix"], match["mark"], match["info"])
                fences.append(fence)
                kinds.append("open")
            elif (
                re.match(r"^(?: {4}|\t)", line)
                and line.strip()
                and not in_list
                and (blank_before or (kinds and kinds[-1] == "indented"))
            ):
                kinds.append("indented")
            else:
                kinds.append("text")
                if LIST_ITEM.match(line):
                    in_list = True
                elif line.strip() and not line[0].isspace() and blank_before:
                    in_list = False
        blank_before = not line.strip()
    return kinds, fences


def plain(text):
    """The text that a reader sees of a piece of inline Markdown, formatting removed."""

    def shown(match):
        if match["math"]:
            return match["tex"]
        if match["escape"]:
            return match["escaped"]
        if match["code"]:
            return match["code_text"].strip()
        if match["display"] or match["dollar"]:
            return match["display_tex"] or match["dollar_tex"]
        if match["link"]:
            return plain(match["link_text"])
        if match["reference"]:
            return plain(match["reference_text"])
        if match["autolink"]:
            return match["autolink"][1:-1]
        if match["url"]:
            return match["url"]
        return ""  # images, tags, comments, footnotes

    pieces, end = [], 0
    for match in INLINE.finditer(text):
        pieces.append(_unemphasised(text[end : match.start()]))
        pieces.append(shown(match))
        end = match.end()
    pieces.append(_unemphasised(text[end:]))
    return "".join(pieces)


def _unemphasised(text):
    text = html.unescape(text)
    text = re.sub(r"\*+|~~", "", text)
    return re.sub(r"(?<!\w)_+(?=\S)|(?<=\S)_+(?!\w)", "", text)  # snake_case keeps its underscores


def slug(text):
    """GitHub's anchor for a heading: lower case, punctuation dropped, spaces become hyphens."""
    kept = [
        c
        for c in plain(text.strip()).lower()
        if c in "-_ "
        or unicodedata.category(c)[0] in "LM"
        or unicodedata.category(c) in ("Nd", "Pc")
    ]
    return "".join(kept).replace(" ", "-")


class Heading:
    """A heading: index of its line, level 1 to 6, its Markdown text, its anchor on GitHub."""

    def __init__(self, line, level, text, underlined, anchor):
        self.line, self.level, self.text = line, level, text
        self.underlined, self.anchor = underlined, anchor


def headings(lines, kinds=None):
    """All headings of a page in order, with anchors made unique as GitHub does (-1, -2, ...)."""
    kinds = kinds or scan(lines)[0]
    found, seen = [], {}
    for i, line in enumerate(lines):
        if kinds[i] != "text":
            continue
        match, underlined = HEADING.match(line), False
        if match:
            level, text = len(match["marks"]), match["text"] or ""
        elif (
            line.strip()
            and i + 1 < len(lines)
            and kinds[i + 1] == "text"
            and re.match(r"^ {0,3}(?:=+|-{2,})[ \t]*$", lines[i + 1])
            and not LIST_ITEM.match(line)
            and not re.match(r"^\s*[>|]", line)
        ):
            level, text, underlined = (1 if "=" in lines[i + 1] else 2), line.strip(), True
        else:
            continue
        anchor = slug(text)
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        found.append(Heading(i, level, text, underlined, f"{anchor}-{count}" if count else anchor))
    return found


def attributes(tag):
    """The attributes of an HTML tag as a dictionary with lower-case names."""
    return {
        m[1].lower(): html.unescape(next(g for g in m.groups()[1:] if g is not None))
        for m in ATTRIBUTE.finditer(tag)
    }


def units(lines, kinds):
    """Splits the text lines into units that inline markup does not cross: (first, last) indices."""
    first = None
    for i in range(len(lines) + 1):
        text = i < len(lines) and kinds[i] == "text" and lines[i].strip() != ""
        # Table rows, list items, headings and quotations each begin a unit of their own.
        starts = text and bool(
            LIST_ITEM.match(lines[i])
            or DEFINITION.match(lines[i])
            or HEADING.match(lines[i])
            or lines[i].lstrip().startswith("|")
            or (
                lines[i].lstrip().startswith(">")
                and not (first is not None and lines[i - 1].lstrip().startswith(">"))
            )
        )
        if first is not None and (
            not text
            or starts
            or HEADING.match(lines[i - 1])
            or DEFINITION.match(lines[i - 1])
            or lines[i - 1].lstrip().startswith("|")
        ):
            yield first, i - 1
            first = None
        if text and first is None:
            first = i


def definitions(lines, kinds):
    """Link definitions `[label]: target` of a page: {lower-case label: (target, line index)}."""
    found = {}
    for i, line in enumerate(lines):
        match = DEFINITION.match(line) if kinds[i] == "text" else None
        if match:
            found.setdefault(match["label"].lower(), (match["dest"].strip("<>"), i))
    return found


def links(lines):
    """Every link target of a page: yields (line index, target), images and HTML tags included."""
    kinds, _ = scan(lines)
    defined = definitions(lines, kinds)
    for dest, line in defined.values():
        yield line, dest

    def search(text, first_line):
        for match in INLINE.finditer(text):
            line = first_line + text.count("\n", 0, match.start())
            if match["image"]:
                yield line, match["image_dest"].strip("<>")
            elif match["link"]:
                yield line, match["link_dest"].strip("<>")
                yield from search(match["link_text"], line)
            elif match["tag"]:
                named = attributes(match["tag"])
                for name in ("href", "src", "srcset"):
                    if name in named:
                        yield line, named[name]

    for first, last in units(lines, kinds):
        if not DEFINITION.match(lines[first]):
            yield from search("\n".join(lines[first : last + 1]), first)


def anchors(lines):
    """Every anchor of a page on GitHub: headings and `<a id=...>` or `<a name=...>`."""
    kinds, _ = scan(lines)
    found = {heading.anchor for heading in headings(lines, kinds)}
    for first, last in units(lines, kinds):
        for match in INLINE.finditer("\n".join(lines[first : last + 1])):
            if match["tag"] or match["anchor"]:
                named = attributes(match["tag"] or match["anchor"])
                found.update(named[name] for name in ("id", "name") if name in named)
    return found


def read_lines(path):
    """The lines of a UTF-8 page without line ends. Raises ValueError when it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text (byte {error.start})") from error
