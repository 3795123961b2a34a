"""Doxygen's input filter for the pages: GitHub Markdown in, Doxygen's Markdown out.

Doxygen runs `gfm2dox.py --site FILE PAGE` and reads what is printed. FILE lists what the site has:

    root DIR        the repository
    html DIR        where the site is written; images are copied to its folder images/
    page PATH       a page, relative to root; the first one is the front page
    sources PATH    a directory whose C++ and CUDA files are on the site

Line n of the output is line n of the page, so that Doxygen's warnings name the right line. Doxygen
ignores the exit status of a filter. Whatever goes wrong therefore also becomes a reference that
cannot be resolved, which does fail the build.

What only a site can have, a page takes from a file of HTML beside it. GitHub shows what is between
the two comments, the site has the file in its place:

    <!-- on the site: stepper.html -->
    ![one step](step.svg)
    <!-- /on the site -->
"""

import argparse
import html
import os
import pathlib
import re
import shutil
import sys

from docs.site import chapters, gfm

SOURCE_SUFFIXES = (".h", ".hpp", ".cpp", ".cuh", ".cu")
NOT_ON_SITE = {"tests", "exercises", "data"}  # as EXCLUDE_PATTERNS in Doxyfile.in
# Doxygen picks the colours by file extension; what is not listed is shown without colours.
LANGUAGES = {"cpp": "cpp", "c++": "cpp", "cuda": "cpp", "c": "c", "python": "py", "py": "py"}
ALERTS = {
    "NOTE": r"\note \parblock",
    "TIP": r"\fatip",
    "IMPORTANT": r"\attention \parblock",
    "WARNING": r"\warning \parblock",
    "CAUTION": r"\warning \parblock",
}
KEPT_TAGS = set(
    "a b blockquote br center code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i ins kbd li ol p pre "
    "s small span strike strong sub sup table tbody td th thead tr tt u ul".split()
)
ON_THE_SITE = re.compile(r"^[ \t]*<!--\s*/?\s*on the site\b", re.IGNORECASE)
SITE_BEGIN = re.compile(r"^<!-- on the site: (?P<file>[A-Za-z0-9_-]+\.html) -->[ \t]*$")
SITE_END = re.compile(r"^<!-- /on the site -->[ \t]*$")
RAW_TAGS = {"details"}  # Doxygen before 1.10 does not know them


class Site:
    """What is on the site; see the file format above."""

    def __init__(self, file):
        self.root = self.html = None
        self.pages, self.sources = [], []
        for line in gfm.read_lines(file):
            key, _, value = line.partition(" ")
            if key in ("root", "html"):
                setattr(self, key, pathlib.Path(value))
            elif key == "page":
                self.pages.append(value)
            elif key == "sources":
                self.sources.append(value)
            elif line.strip():
                raise ValueError(f"{file}: '{key}' is not one of root, html, page and sources")
        if not self.root or not self.html:
            raise ValueError(f"{file}: root or html is missing")

    def page_id(self, page):
        """The name of a page on the site: page_01_x for 01_x/README.md."""
        name = re.sub(r"(^|/)README\.md$|\.md$", "", page)
        return "page_" + (re.sub(r"\W", "_", name, flags=re.ASCII) or "front")

    def page_file(self, page):
        """The HTML file of a page."""
        return "index.html" if page == self.pages[0] else self.page_id(page) + ".html"

    def has_source(self, path):
        """Is this file shown on the site?"""
        parts = pathlib.PurePosixPath(path).parts
        return (
            path.endswith(SOURCE_SUFFIXES)
            and not NOT_ON_SITE.intersection(parts)
            and any(path.startswith(f"{directory}/") for directory in self.sources)
        )


def section_id(page_id, anchor):
    """The label of a heading: unique on the site, and of characters that Doxygen allows."""
    return (
        page_id
        + "__"
        + "".join(c if re.match(r"[\w-]", c, re.ASCII) else f"_u{ord(c):x}" for c in anchor)
    )


def text_only(text, quote=False):
    """Plain text for headings and, with quotes escaped, for \\ref: no Markdown is read there. The
    space behind a number in front does not break: otherwise Doxygen would begin a list."""
    plain = html.escape(gfm.plain(" ".join(text.split())), quote)
    return re.sub(r"^(\d+\.) ", "\\1\u00a0", plain)


class Filter:
    """Translates one page."""

    def __init__(self, site, page):
        self.site, self.page = site, page
        self.id = site.page_id(page)
        self.failed = False
        self.lines = gfm.read_lines(site.root / page)
        self.lines = [line.rstrip("\r") for line in self.lines]
        self.raw = {}  # line -> Doxygen text that stands there instead of the page's
        self.line = 0  # where the construct at hand begins, for messages
        self.has_html = False
        self.below = {  # the chapters of this map that no link has put below it yet
            chapter
            for chapter in site.pages
            if page != chapter
            and os.path.basename(page) == "README.md"
            and os.path.dirname(chapter) == os.path.dirname(page)
            and chapters.is_chapter(chapter)
        }
        self.take_html()
        self.open_alerts()
        self.kinds, self.fences = gfm.scan(self.lines)
        self.headings = gfm.headings(self.lines, self.kinds)
        self.definitions = gfm.definitions(self.lines, self.kinds)

    def fail(self, sentence, line=None):
        """Reports a fault and returns a reference that no Doxygen can resolve."""
        self.failed = True
        line = self.line if line is None else line
        print(f"{self.page}:{line + 1}: {sentence}", file=sys.stderr)
        return r"\ref " + re.sub(r"\W+", "_", f"error: {sentence}", flags=re.ASCII).strip("_")

    def take_html(self):
        """Replaces what stands between the comments `on the site` by the file that they name."""
        kinds, _ = gfm.scan(self.lines)
        first = None  # where the region at hand begins
        for i, kind in enumerate(kinds):
            line = self.lines[i]
            if kind != "comment" or not ON_THE_SITE.match(line):
                continue
            begin = SITE_BEGIN.match(line)
            if begin and first is None:
                first, self.has_html = i, True
                file = (self.site.root / self.page).parent / begin["file"]
                if file.is_file():
                    text = " ".join(gfm.read_lines(file))
                    self.raw[i] = rf"\htmlonly[block]{text}\endhtmlonly"
                else:
                    self.raw[i] = self.fail(f"there is no file {begin['file']}.", i)
            elif SITE_END.match(line) and first is not None:
                self.lines[first : i + 1] = [""] * (i + 1 - first)
                first = None
            else:
                self.raw[i] = self.fail(
                    "the comments are <!-- on the site: FILE.html --> and <!-- /on the site -->, "
                    "in turn.",
                    i,
                )
        if first is not None:
            self.raw[first] = self.fail("<!-- /on the site --> is missing.", first)

    def open_alerts(self):
        """`> [!NOTE]` and its quotation become Doxygen's \\note with everything that was quoted."""
        kinds, _ = gfm.scan(self.lines)
        i = 0
        while i < len(kinds):
            match = (
                re.match(r"^ {0,3}> ?\[!(\w+)\][ \t]*$", self.lines[i])
                if kinds[i] == "text"
                else None
            )
            if not match:
                i += 1
                continue
            first, kind = i, match[1].upper()
            self.lines[first] = ""
            i += 1
            while i < len(self.lines) and self.lines[i].lstrip().startswith(">"):
                self.lines[i] = re.sub(r"^ {0,3}> ?", "", self.lines[i])
                i += 1
            if i == len(self.lines):
                self.lines.append("")
            if kind not in ALERTS:
                self.raw[first] = self.fail(
                    f"[!{match[1]}] is no kind of note; allowed are {', '.join(ALERTS)}.", first
                )
            elif self.lines[i].strip():
                self.raw[first] = self.fail("an empty line must follow the note.", first)
            else:
                self.raw[first], self.raw[i] = ALERTS[kind], r"\endparblock"

    def translate(self):
        """The whole page as a list of lines."""
        out = ["" if kind == "comment" else line for kind, line in zip(self.kinds, self.lines)]
        for first, last in gfm.units(self.lines, self.kinds):
            self.line = first
            if first == last and gfm.DEFINITION.match(self.lines[first]):
                out[first] = ""
            elif self.is_rule(first, last):
                # Doxygen wants three dashes in each column of a table, GitHub one.
                out[first] = re.sub(r"-+", lambda m: m[0].ljust(3, "-"), self.lines[first])
            else:
                out[first : last + 1] = self.unit(self.lines[first : last + 1])
        for fence in self.fences:
            self.fence(fence, out)
        self.title(out)
        for heading in self.headings[1:]:
            self.line = heading.line
            if "$" in heading.text:
                out[heading.line] += self.fail(
                    "a heading cannot hold a formula; write it in words."
                )
                continue
            label = f" {{#{section_id(self.id, heading.anchor)}}}"
            marks = "" if heading.underlined else "#" * heading.level + " "
            out[heading.line] = marks + text_only(heading.text) + label
            if heading.underlined:
                out[heading.line + 1] = self.lines[heading.line + 1]
        for line, text in self.raw.items():
            out[line] = text
        return out

    def is_rule(self, first, last):
        line = self.lines[first]
        return first == last and "|" in line and bool(gfm.TABLE_RULE.match(line))

    def title(self, out):
        """The first heading becomes the page's title and gets its name on the site."""
        self.line = 0
        top = [h for h in self.headings if h.level == 1]
        if not self.headings or self.headings[0].level != 1:
            out[0] += self.fail("the page must begin with a title, # and its text.")
            return
        heading = self.headings[0]
        self.line = heading.line
        if any(line.strip() for line in out[: heading.line]):
            out[heading.line] += self.fail("there is text before the page's title.")
            return
        if len(top) > 1:
            self.raw[top[1].line] = self.fail(
                "the page has a second title; use ## for its sections.", top[1].line
            )
        if heading.underlined:
            out[heading.line + 1] = ""
        out[heading.line] = f"# {text_only(heading.text)} {{#{self.id}}}"
        after = heading.line + (2 if heading.underlined else 1)
        if (
            not self.has_html  # which needs the width
            and sum(h.level == 2 for h in self.headings) >= 2
            and after < len(out)
            and not out[after].strip()
        ):
            out[after] = "[TOC]"

    def fence(self, fence, out):
        """A fenced block: a formula, or code in a language that Doxygen colours, or plain text."""
        self.line = fence.first
        if fence.last is None:
            out[fence.first] = self.fail("the fenced block is never closed.")
            for i in range(fence.first + 1, len(out)):
                out[i] = ""
            return
        language = fence.info.split()[0].lower() if fence.info else ""
        if language == "math":
            out[fence.first], out[fence.last] = fence.prefix + r"\f[", fence.prefix + r"\f]"
        elif language == "mermaid":
            out[fence.first] = fence.prefix + self.fail(
                "Mermaid drawings are not on the site; commit an SVG."
            )
            for i in range(fence.first + 1, fence.last + 1):
                out[i] = ""
        else:
            shown = LANGUAGES.get(language, "unparsed")
            out[fence.first] = f"{fence.prefix}{fence.mark}{{.{shown}}}"

    def unit(self, lines):
        """A paragraph, list item, quotation or table row: its inline markup."""
        quoted = [re.match(r"^[ \t]*(?:>[ \t]?)*", line)[0] for line in lines]
        if ">" not in quoted[0]:
            quoted = [""] * len(lines)
        text = "\n".join(line[len(mark) :] for line, mark in zip(lines, quoted))
        start = re.match(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])?[ \t]*", text)[0]
        task = re.match(r"\[([ xX])\](?=\s)", text[len(start) :])
        if start.strip() and task:
            box = "\u2610" if task[1] == " " else "\u2611"
            result = start + box + self.inline(text[len(start) + 3 :])
        else:
            result = start + self.inline(text[len(start) :])
        result = result.split("\n")
        assert len(result) == len(lines), f"{len(lines)} lines became {len(result)}"
        return [mark + line for mark, line in zip(quoted, result)]

    def inline(self, text):
        """Inline markup. Keeps the number of line ends."""
        first_line, pieces, end = self.line, [], 0
        held = (
            ""  # line ends inside a construct: it goes on one line, they follow at the next space
        )
        for match in gfm.INLINE.finditer(text):
            held = self.add(pieces, self.prose(text[end : match.start()]), held)
            self.line = first_line + text.count("\n", 0, match.start())
            made = self.construct(match)
            if match["hard_break"]:
                pieces.append(made)
            else:
                pieces.append(re.sub(r"[ \t]*\n[ \t]*", " ", made))
                held += "".join(re.findall(r"\n[ \t]*", match[0]))
            end = match.end()
        held = self.add(pieces, self.prose(text[end:]), held)
        self.line = first_line
        return "".join(pieces) + held

    @staticmethod
    def add(pieces, text, held):
        """Appends text with the held line ends at its first space; returns what is still held."""
        space = re.search(r"[ \t]+|(?=\n)", text) if held else None
        if not space:
            pieces.append(text)
            return held
        pieces.append(text[: space.start()] + held + text[space.end() :])
        return ""

    def construct(self, match):
        """What one piece of inline markup becomes."""
        if match["math"] or match["dollar"]:
            return rf"\f${match['tex'] or match['dollar_tex']}\f$"
        if match["display"]:
            return rf"\f[{match['display_tex']}\f]"
        if match["escape"]:
            special = {"<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;"}
            char = match["escaped"]
            return special.get(char) or ("\\" + char if char in "\\@#$%*_`[]|" else char)
        if match["hard_break"]:
            return "<br>\n"
        if match["code"]:
            # In a code span, Doxygen drops % before a word, looks for ::name and keeps \|;
            # in <code> all of them can be escaped.
            if re.search(r"%\w|(?<!\w)::\w|\\\|", match["code_text"]):
                text = re.sub(r"\\?--", r"\\--", self.prose(match["code_text"].replace("\\|", "|")))
                return f"<code>{re.sub(r'[*_`~|]', lambda m: chr(92) + m[0], text)}</code>"
            # With one backtick, Doxygen takes a ' inside for the end of a `quoted' word.
            ticks = (
                match["ticks"]
                if "'" not in match["code_text"]
                else max(match["ticks"], "``", key=len)
            )
            return ticks + match["code_text"] + ticks
        if match["comment"]:
            return ""
        if match["autolink"] or match["url"]:
            url = match["url"] or match["autolink"][1:-1]
            return f'<a href="{html.escape(url)}">{self.prose(url)}</a>'
        if match["anchor"]:
            given = gfm.attributes(match["anchor"])
            anchor = given.get("id") or given.get("name") or "unnamed"
            return rf"\anchor {section_id(self.id, anchor)} "
        if match["summary"]:
            return rf"\htmlonly[block]{match['summary']}\endhtmlonly"
        if match["tag"]:
            return self.tag(match["tag"])
        if match["image"]:
            return self.image(
                {"src": match["image_dest"].strip("<>"), "alt": gfm.plain(match["alt"])}
            )
        if match["footnote"]:
            return self.fail(
                f"footnotes are not on the site ({match['footnote']}); write it into the text."
            )
        if match["link"]:
            return self.link(match["link_dest"].strip("<>"), match["link_text"])
        if match["reference"]:
            text = match["reference_text"]
            label = match["reference_label"] or text
            if label.lower() in self.definitions:
                return self.link(self.definitions[label.lower()][0], text)
            if match["reference_label"]:
                return self.fail(f"[{label}] is defined nowhere on the page.")
            return "\\[" + self.inline(text) + "\\]"  # brackets in prose
        raise AssertionError(f"no rule for {match[0]}")

    @staticmethod
    def prose(text):
        """Plain prose: characters that Doxygen would read as commands are escaped."""
        text = re.sub(
            r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);",
            lambda m: html.unescape(m[0]),
            text,
        )
        text = text.replace("\u00a0", "\0")
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
        text = text.replace("\\", "\\\\").replace("@", "\\@")
        text = re.sub(r"%(?=\w)", r"\\%", text)
        text = re.sub(r"#(?=\w)", r"\\#", text)
        text = re.sub(r"(?<!\w)::(?=\w)", r"\\::", text)
        text = re.sub(r"(?<![-\w])--(?=[A-Za-z])", r"\\--", text)
        return text.replace("\0", "&nbsp;")

    def tag(self, tag):
        """An HTML tag."""
        name = re.match(r"</?([A-Za-z][\w-]*)", tag)[1].lower()
        closing = tag.startswith("</")
        if name in RAW_TAGS:
            return rf"\htmlonly[block]{tag}\endhtmlonly"
        if name == "img":
            return self.image(gfm.attributes(tag))
        if name == "a" and not closing:
            given = gfm.attributes(tag)
            return self.href(given.get("href", ""), lambda url: f'<a href="{html.escape(url)}">')
        if name == "p":  # Doxygen forgets how a <p> is aligned
            return re.sub("^(</?)[pP]", r"\1div", tag)
        if name not in KEPT_TAGS:
            return self.fail(
                f"the HTML tag {tag.split()[0].rstrip('>')}> is not on the site; for a plain < "
                "write &lt; or use backticks."
            )
        return tag

    def image(self, given):
        """An image: copied to the site; site.css puts it on a light panel."""
        source = given.get("src", "")
        if re.match(r"https?:", source):
            return self.fail(f"the image {source} is on another site; commit it.")
        file = self.resolve(source)
        if file is None or not (self.site.root / file).is_file():
            return self.fail(f"there is no image {source}.")
        copy = "images/" + re.sub(r"[^\w.-]", "_", file.replace("/", "-"), flags=re.ASCII)
        target = self.site.html / copy
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.site.root / file, target)
        alt = html.escape(" ".join(given.get("alt", "").split()))
        sizes = "".join(
            f' {k}="{html.escape(given[k])}"' for k in ("width", "height") if k in given
        )
        return rf'\htmlonly<img class="fa-image" src="{copy}" alt="{alt}"{sizes}>\endhtmlonly'

    def resolve(self, path):
        """A target on this page as a path relative to the repository; None when outside it."""
        path = html.unescape(path)
        base = "" if path.startswith("/") else os.path.dirname(self.page)
        full = os.path.normpath(os.path.join(base, path.lstrip("/")))
        return None if full.startswith("..") else full.replace(os.sep, "/")

    def link(self, dest, text):
        """A link with Markdown text."""
        simple = not re.search(r"[`*_~$<!\\&]", text)

        def made(url):
            return f'<a class="el" href="{html.escape(url)}">{self.inline(text)}</a>'

        return self.href(dest, made, text=text, simple=simple)

    def href(self, dest, made, text=None, simple=False):
        """Calls made(url) for what `dest` is on the site; a file not on the site is plain text."""
        if re.match(r"(?:https?|mailto):", dest):
            return (
                f"[{text_only(text, True)}]({dest})" if text is not None and simple else made(dest)
            )
        path, _, anchor = dest.partition("#")
        target = self.page if not path else self.resolve(path)
        if target is None:
            return self.fail(f"the link {dest} leaves the repository.")
        full = self.site.root / target
        if full.is_dir():
            readme = "README.md" if target == "." else f"{target}/README.md"
            target = (
                readme
                if readme in self.site.pages or (self.site.root / readme).is_file()
                else target
            )
        if not (self.site.root / target).exists():
            return self.fail(f"the link {dest} leads to no file.")
        if target in self.site.pages:
            identifier = self.site.page_id(target)
            if text is not None and not anchor and target in self.below:
                # The first link to a chapter makes it a page below its lesson, in the navigation.
                self.below.remove(target)
                return f'\\subpage {identifier} "{text_only(text, True)}"'
            if anchor:
                lines = (
                    self.lines if target == self.page else gfm.read_lines(self.site.root / target)
                )
                if anchor not in gfm.anchors(lines):
                    return self.fail(
                        f"the link {dest} leads to no heading; {target} has none with that anchor."
                    )
                identifier = section_id(identifier, anchor)
            if text is not None and simple:
                return f"[{text_only(text, True)}](\\ref {identifier})"
            return made(self.site.page_file(target) + (f"#{identifier}" if anchor else ""))
        if self.site.has_source(target):
            if text is not None:
                return f"[{text_only(text, True)}](\\ref {target})"
            return self.fail(f"write the link to {target} in Markdown, not as an HTML tag.")
        if text is not None:
            return self.inline(text)  # a file that the site does not show, for example LICENSE
        return self.fail(f"write the link to {target} in Markdown, not as an HTML tag.")


def main(arguments=None):
    """Prints the translated page; returns the exit status."""
    parser = argparse.ArgumentParser(description="GitHub Markdown to Doxygen's Markdown.")
    parser.add_argument(
        "--site", required=True, type=pathlib.Path, help="file that lists what is on the site"
    )
    parser.add_argument("page", type=pathlib.Path)
    options = parser.parse_args(arguments)
    sys.stdout.reconfigure(encoding="utf-8")
    try:
        site = Site(options.site)
        page = options.page.resolve().relative_to(site.root.resolve()).as_posix()
        if page not in site.pages:
            raise ValueError(f"{page} is not among the pages of {options.site}")
        translation = Filter(site, page)
        out = "\n".join(translation.translate())
    except Exception as error:  # pylint: disable=broad-except  # an empty page must not pass for a good one
        print(f"{options.page}: gfm2dox.py cannot translate the page: {error}", file=sys.stderr)
        print(r"\ref error_gfm2dox_could_not_translate_this_page")
        return 2
    sys.stdout.write(out)
    return 1 if translation.failed else 0


if __name__ == "__main__":
    sys.exit(main())
