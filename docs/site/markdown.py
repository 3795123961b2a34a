"""Headings, links and anchors of GitHub's Markdown, as markdown-it reads it; that comes with
Sphinx's MyST.
"""

import html.parser
import unicodedata

from markdown_it import MarkdownIt

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
BREAKS = ("softbreak", "hardbreak")
ADDRESSES = ("href", "src", "srcset")


class Heading:
    """A heading: number of its line from 0, level 1 to 6, its Markdown, its anchor on GitHub."""

    def __init__(self, line, level, text, anchor):
        self.line, self.level, self.text, self.anchor = line, level, text, anchor


class Tags(html.parser.HTMLParser):
    """The attributes of HTML tags: [(line, name, value)]."""

    def __init__(self, text, line):
        super().__init__()
        self.first, self.found = line, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        line = self.first + self.getpos()[0] - 1
        self.found += [(line, name, value) for name, value in attrs if value]

    handle_startendtag = handle_starttag


def slug(text):
    """GitHub's anchor for a heading: lower case, punctuation dropped, spaces become hyphens."""
    kept = [
        c
        for c in text.strip().lower()
        if c in "-_ "
        or unicodedata.category(c)[0] in "LM"
        or unicodedata.category(c) in ("Nd", "Pc")
    ]
    return "".join(kept).replace(" ", "-")


class Page:
    """A page: its tokens, headings, links and anchors."""

    def __init__(self, text):
        defined = {}
        self.tokens = READER.parse(text, defined)
        self.headings = []  # with anchors made unique as GitHub does (-1, -2, ...)
        self.links = [  # (line, target), images and HTML tags included
            (of["map"][0], of["href"]) for of in defined.get("references", {}).values()
        ]
        self.anchors = set()  # of headings, and <a id=...> or <a name=...>
        seen, line = {}, 0
        for i, token in enumerate(self.tokens):
            line = token.map[0] if token.map else line
            if token.type == "heading_open":
                inline = self.tokens[i + 1]
                plain = (t.content for t in inline.children if t.type in ("text", "code_inline"))
                name = slug("".join(plain))
                seen[name] = count = seen.get(name, -1) + 1
                anchor = f"{name}-{count}" if count else name
                self.headings.append(Heading(line, int(token.tag[1]), inline.content, anchor))
                self.anchors.add(anchor)
            elif token.type == "html_block":
                self.tags(token.content, line)
            elif token.type == "inline":
                self.inline(token.children, line)

    def tags(self, text, line):
        """Takes the links and anchors of HTML."""
        found = Tags(text, line).found
        self.links += [(at, value) for at, name, value in found if name in ADDRESSES]
        self.anchors.update(value for _, name, value in found if name in ("id", "name"))

    def inline(self, tokens, line):
        """Takes the links and anchors of a piece of text that begins in this line."""
        for token in tokens:
            if token.type in BREAKS:
                line += 1
            elif token.type == "html_inline":
                self.tags(token.content, line)
            elif token.type in ("link_open", "image"):
                name = "href" if token.type == "link_open" else "src"
                self.links.append((line, token.attrGet(name)))
