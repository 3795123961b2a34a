"""What GitHub's Markdown becomes on the site: formulas, alerts, links and anchors, drawings in
their size; the parts of a step; where a line does not end."""

import pathlib
import re

from docutils import nodes
from pygments.lexer import RegexLexer, bygroups, default
from pygments.token import Comment, Generic, Name, String, Text
from sphinx.transforms import SphinxTransform

from common.drawing import narrow
from docs.site import navigation
from docs.site.links import OTHER_SITE, from_root, page_of

SENTENCE, LONG = 40, 80  # letters: a cell with more is no figure and no name, nor the name of a row
NAMED = 9  # letters: longer names of rows need room on a phone
ALERT = re.compile(r"\[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]\s*")


def phone_form(table):
    """The class of a table on a phone: stacked, each row a block, where it has sentences; named
    where the first column stays and needs room for its names; else none."""
    rows = list(table.next_node(nodes.tbody))
    first = max(len(row[0].astext()) for row in rows)
    later = max((len(cell.astext()) for row in rows for cell in row[1:]), default=0)
    if first >= LONG or later >= SENTENCE:
        return ["stacked"]
    return ["named"] if first >= NAMED else []


def without_way(document):
    """Takes the line of links from the end of a page, behind a rule: the site has its own ways to
    the neighbours and up. Links to lessons stay."""
    box = [document, *document.findall(nodes.section)][-1]
    if len(box) < 2 or not isinstance(box[-2], nodes.transition):
        return
    rule, line = box[-2:]
    if not isinstance(line, nodes.paragraph) or not line.next_node(nodes.reference):
        return
    parts = [[]]
    for node in line.children:
        first, *others = str(node).split("·") if isinstance(node, nodes.Text) else [node]
        parts[-1].append(first)
        parts += [[words] for words in others]
    kept = next((part for part in parts if str(part[0]).startswith("Lesson")), [])
    if kept:
        line[:] = [nodes.Text(node) if isinstance(node, str) else node for node in kept]
    else:
        box.remove(line)
        box.remove(rule)


class GithubMarkdown(SphinxTransform):
    """Formulas, alerts, and anchors of headings as GitHub has them."""

    default_priority = 310

    def apply(self, **_):
        for literal in list(self.document.findall(nodes.literal)):
            self.formula(literal)
        for block in list(self.document.findall(nodes.literal_block)):
            if block.get("language") == "math":
                formula = nodes.math_block("", block.astext(), nowrap=True, number=None, label=None)
                block.replace_self(formula)
            elif block.get("language") == "cuda":
                block["language"] = "cpp"
        for quote in list(self.document.findall(nodes.block_quote)):
            self.alert(quote)
        page = page_of(self.env, self.env.docname)
        for reference in self.document.findall(nodes.reference):
            uri = reference.get("refuri", "")
            if uri and not OTHER_SITE.match(uri) and not uri.startswith("/"):
                reference["refuri"] = "/" + from_root(page, uri)
        for image in list(self.document.findall(nodes.image)):
            self.drawing(image)
        for table in self.document.findall(nodes.table):
            table["classes"] += phone_form(table)
        for section in self.document.findall(nodes.section):
            section["ids"] = [section["slug"]]
        without_way(self.document)

    def drawing(self, image):
        """A drawing in a paragraph of its own: its size on a wide page, and the least that it may
        have. course.py makes HTML of the classes."""
        paragraph = image.parent
        if not isinstance(paragraph, nodes.paragraph) or len(paragraph) != 1:
            return
        box = nodes.container("", image, classes=["drawing"])
        paragraph.replace_self(box)
        file = pathlib.Path(self.env.doc2path(self.env.docname)).parent / image["uri"]
        if file.suffix != ".svg" or not file.is_file():
            return
        text = file.read_text(encoding="utf-8")
        if not narrow.size(text):
            return
        look = Look(text)
        image["width"] = f"{round(look.wide if self.app.builder.name == 'html' else look.width)}px"
        image["classes"].append(look.mark())

    @staticmethod
    def formula(literal):
        """$`x`$: a literal between two dollars."""
        parent = literal.parent
        index = parent.index(literal)
        if not 0 < index < len(parent) - 1:
            return
        before, after = parent[index - 1], parent[index + 1]
        if not (isinstance(before, nodes.Text) and isinstance(after, nodes.Text)):
            return
        if before.endswith("$") and after.startswith("$"):
            literal.replace_self(nodes.math("", literal.astext()))
            parent.replace(before, nodes.Text(before[:-1]))
            parent.replace(after, nodes.Text(after[1:]))

    @staticmethod
    def alert(quote):
        """> [!NOTE]: an admonition."""
        first = quote[0] if quote.children else None
        if not isinstance(first, nodes.paragraph) or not isinstance(first[0], nodes.Text):
            return
        match = ALERT.match(first[0])
        if not match:
            return
        first.replace(first[0], nodes.Text(first[0][match.end() :]))
        quote.replace_self(getattr(nodes, match[1].lower())("", *quote.children))


NAMES = {
    "stand": r"Where we stand",
    "limit": r"What limits it(?: now)?",
    "predict": r"Predict",
    "idea": r"The idea",
    "change": r"The change",
    "measure": r"Measure(?: the \w+)?",
    "write": r"Write it",
}
FIRST_NUMBER = re.compile(r"\d+\.(?= )")


def lead_in(paragraph):
    """The bold words that a paragraph begins with, or None. MyST leaves empty texts there."""
    first = next((child for child in paragraph if child.astext()), None)
    return first if isinstance(first, nodes.strong) else None


def kind_of(node):
    """Which part of a step a paragraph begins; None for others."""
    bold = lead_in(node) if isinstance(node, nodes.paragraph) else None
    words = bold.astext().strip() if bold else ""
    return next(
        (kind for kind, name in NAMES.items() if re.fullmatch(name + r"[.?:]?", words)), None
    )


def begins_fold(node):
    return isinstance(node, nodes.raw) and node.astext().lstrip().startswith("<details")


def ends_fold(node):
    return isinstance(node, nodes.raw) and "</details>" in node.astext()


def answer(siblings):
    """How many of the nodes behind a prediction belong to it: up to the end of the first fold, if
    one follows in this part of the step."""
    inside = False
    for count, node in enumerate(siblings, 1):
        if isinstance(node, nodes.section) or kind_of(node):
            return 0
        inside = inside or begins_fold(node)
        if inside and ends_fold(node):
            return count
    return 0


class Callouts(SphinxTransform):
    """Boxes around predictions, classes for the other parts of a step."""

    default_priority = 320

    def apply(self, **_):
        for paragraph in list(self.document.findall(nodes.paragraph)):
            kind = kind_of(paragraph)
            if kind is None:
                continue
            name = lead_in(paragraph)
            name["classes"].append("callout-name")
            parent = paragraph.parent
            at = parent.index(paragraph)
            count = answer(parent[at + 1 :]) if kind == "predict" else 0
            box = nodes.container(classes=["callout", f"callout-{kind}"])
            if paragraph.astext().strip() == name.astext().strip():
                box["classes"].append("callout-label")
                name[:] = [nodes.Text(name.astext().strip().rstrip(".:"))]
            taken = parent[at : at + 1 + count]
            for node in taken:
                parent.remove(node)
            box += taken
            parent.insert(at, box)


class ChapterTitle(SphinxTransform):
    """# 3. Attention on Hopper, in lesson 05: 5.3 Attention on Hopper. Its anchor stays."""

    default_priority = 330

    def apply(self, **_):
        number = navigation.number(page_of(self.env, self.env.docname))
        title = self.document.next_node(nodes.title)
        text = title and title.next_node(nodes.Text)
        if number and text and FIRST_NUMBER.match(text):
            text.parent.replace(text, nodes.Text(FIRST_NUMBER.sub(number, text, count=1)))


UNIT = re.compile(
    r"(?<=\d) (?=%|(?:[KMGT]i?B(?:/s)?|kB|bytes?|bits?|[nmuµ]?s|min|h|hours?|minutes?|seconds?|"
    r"[kMG]Hz|[MGT]FLOPs?(?:/s)?|pixels?)\b)|(?<=\d h) (?=\d\d\b)"
)
INFINITY = re.compile(r"(?<![\w)\]-])-(?=inf)")
CODE = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)
SHORT = re.compile(r'<span class="pre">(?=(?:-[^<]{1,30}|(?:[^<&]|&\w+;){1,20})</span>)')

NAME = re.compile(r"(?<=<p>)(<a [^>]*>)?([^<]*_[^<]*)(?=</[ap]>)")
FORMULA = re.compile(
    r"(?P<open>[(\[“‘]*)(?P<math><math\b(?:(?!</math>).)*</math>)(?P<close>[.,;:!?)\]”’]*)",
    re.DOTALL,
)
ROW = re.compile(r'<tr class="row-\w+">\s*<t[dh][^>]*>.*?</t[dh]>', re.DOTALL)


class Units(SphinxTransform):
    """A space that does not break before a unit, and a minus that does not before infinity."""

    default_priority = 870  # before titles are collected, for the sidebar and links

    def apply(self, **_):
        before = ""  # a figure and its unit may be two texts: a comment stood between them
        for text in list(self.document.findall(nodes.Text)):
            if not isinstance(text.parent, CODE):
                made = UNIT.sub("\N{NO-BREAK SPACE}", before + text)[len(before) :]
                made = INFINITY.sub("\N{MINUS SIGN}", made)
                if made != text:
                    text.parent.replace(text, nodes.Text(made))
            if not isinstance(text.parent, nodes.raw):
                before = text[-1:] or before


def whole(body):
    """The HTML of a page whose options and other short words of code have a class of their own, as
    have formulas with their punctuation: a browser may end a line beside any formula. Names in the
    first column of a table may end a line behind an underscore."""

    def name(found):
        return (found[1] or "") + found[2].replace("_", "_<wbr/>")

    def formula(found):
        if not found["open"] + found["close"]:
            return found[0]
        return f'<span class="whole">{found[0]}</span>'

    body = FORMULA.sub(formula, body)
    body = ROW.sub(lambda row: NAME.sub(name, row[0], count=1), body)
    return SHORT.sub('<span class="pre whole">', body)


class Console(RegexLexer):
    """Commands, their options and comments; where a prompt stands before the commands, the other
    lines are output. Pygments's lexer of the shell takes `./learn test` for a call of test."""

    name, aliases = "Commands", ["sh", "console"]
    tokens = {
        "root": [(r"\A(?=(?s:.*?)^\$ )", Text, "session"), default("commands")],
        "session": [(r"\$ ", Generic.Prompt, ("words", "first")), (r".*\n", Generic.Output)],
        "commands": [(r"\s+", Text), (r"#.*", Comment.Single), default(("words", "first"))],
        "first": [
            (r"(\w+=)(\S*)(\s+)", bygroups(Name.Variable, Text, Text)),
            (r"[^\s#]+", Name.Function, "#pop"),
            default("#pop"),
        ],
        "words": [
            (r"\n", Text, "#pop"),
            (r"(\s)(#.*)", bygroups(Text, Comment.Single)),
            (r"(\s)(--?[\w-]+)", bygroups(Text, Name.Attribute)),
            (r"'[^']*'|\"[^\"]*\"", String),
            (r"(?:\|\|?|&&|;)[ \t]*", Text, "first"),
            (r"\\\n|[^\s\\'\"|&;]+|.", Text),
        ],
    }


# The site shows a drawing as wide as the column while its letters are no larger than the text; in
# a narrow window its narrow form, or, without one, no smaller than can be read: then it scrolls.
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
