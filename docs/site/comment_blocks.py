"""What the comments of the sync tool become on the site, with the blocks that follow them.

<!-- listing: FILE#TAG -->       a caption: file, lines, a link into the reference of the code
<!-- diff: OLD NEW -->           a caption with links to both files
<!-- generated: COMMAND -->      tables that sort, and folded, where they come from
<!-- fact: NAME -->              grey, where the kernel has changed since the figure was measured
<!-- on the site: FILE.js -->    an explorer: HTML that names its scripts, and its picture
"""

import html
import pathlib
import posixpath
import re

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

from docs.facts.pages import FACT, age_of
from docs.site import excerpts, sync_pages, transforms
from docs.site.links import page_of

LOG = logging.getLogger(__name__)
ON_SITE = re.compile(r"<!-- on the site: (?P<file>[\w./-]+\.js) -->\s*")
ON_SITE_END, DIFF_END, GENERATED_END = (
    f"<!-- /{name} -->" for name in ("on the site", "diff", "generated")
)
ASSET = re.compile(r'\b(src|href)="([\w./-]+\.(?:js|css|json|svg|png))"')
RECORD = re.compile(r"docs/results/\w+\.json")
SORTED_FROM, MANY_COLUMNS = 5, 10  # rows, columns


def link(text, uri, **attributes):
    """A link in a caption."""
    return nodes.reference("", text, refuri=uri, internal=False, **attributes)


def explorer(folders, name, alt):
    """The HTML of an explorer: its picture until its scripts run. NAME_data.js is read if there;
    explorer.js loads the scripts "later", when a reader comes near."""
    scripts = [f"{name}_data", name]
    size = transforms.SIZE.search((folders[0] / f"{name}.svg").read_text(encoding="utf-8"))
    # With the picture's room kept free, an explorer below it is not near before it is loaded.
    room = f'width="{size[1]}" height="{size[3]}" ' if size and size[3] else ""
    return "\n".join(
        [
            '<link rel="stylesheet" href="explorer.css">',
            '<script defer src="explorer.js"></script>',
            f'<div id="{name}-explorer" class="explorer"><img class="explorer-still explorer-off" '
            f'{room}src="{name}.svg" alt="{html.escape(alt)}">',
            *(
                f'<script type="later" src="{s}.js"></script>'
                for s in scripts
                if any((folder / f"{s}.js").is_file() for folder in folders)
            ),
            "</div>",
            "",
        ]
    )


def styled(node):
    """A part of a printed block, with the classes of its kind."""
    if isinstance(node, nodes.table):
        rows = len(node.next_node(nodes.tbody))
        node["classes"].append("results")
        if rows >= SORTED_FROM:
            node["classes"].append("sortable")
        if node.next_node(nodes.tgroup)["cols"] >= MANY_COLUMNS:
            node["classes"].append("many")
        for strong in list(node.findall(nodes.strong)):  # the best figures
            strong.parent.parent["classes"].append("best")
            strong.replace_self(strong.children)
    elif isinstance(node, nodes.paragraph):
        source = node.astext().startswith("(")
        node["classes"].append("printed-source" if source else "printed-title")
    elif len(re.findall(r"\S {4,}\S", node.astext())) < 2:  # no columns: it may wrap
        node["classes"].append("wraps")
    return node


def origin(command):
    """The line below a block: its command, or the records that it read."""
    records = list(dict.fromkeys(RECORD.findall(command)))
    line = nodes.paragraph("", "", classes=["printed-origin"])
    if not records:
        line += [nodes.Text("Printed by "), nodes.literal("", command)]
        return line
    for i, record in enumerate(records):
        line += nodes.Text(", " if i else "Records: " if len(records) > 1 else "Record: ")
        line += link(record.rsplit("/", 1)[-1], "/" + record)
    return line


def folded(lines, on_site):
    """What a block comes from, folded on the site."""
    if not on_site:
        return lines
    head = '<details class="provenance"><summary>Where these figures come from</summary>'
    ends = [nodes.raw("", text, format="html") for text in (head, "</details>")]
    return [ends[0], *lines, ends[1]]


class CommentBlocks(SphinxTransform):
    """The comments of the sync tool, with the blocks that follow them."""

    default_priority = 300

    def apply(self, **_):
        self.page = page_of(self.env, self.env.docname)
        self.root = pathlib.Path(self.env.srcdir)
        for raw in list(self.document.findall(nodes.raw)):
            text = raw.rawsource or raw.astext()
            if raw not in raw.parent.children or not text.lstrip().startswith("<!--"):
                continue
            self.comment(raw, text.strip())

    def comment(self, raw, text):
        if match := ON_SITE.fullmatch(text):
            self.on_site(raw, match["file"])
        elif match := sync_pages.LISTING.match(text):
            self.listing(raw, match["path"], match["tag"])
        elif match := sync_pages.DIFF.match(text):
            self.diff(raw, match["old"], match["new"])
        elif match := sync_pages.GENERATED.match(text):
            self.printed(raw, match["command"])
        elif match := FACT.fullmatch(text):
            self.figure(raw, match["name"])
        raw.parent.remove(raw)

    def figure(self, raw, fact):
        """A figure that was measured before its kernel changed is grey, and its title says so."""
        at = raw.parent.index(raw)
        end = [node.astext() for node in raw.parent[at + 2 : at + 3]]
        if end == ["<!-- /fact -->"] and (why := age_of(fact)):
            mark = f'<span class="old" title="{html.escape(why)}">'
            raw.parent.insert(at + 2, nodes.raw("", "</span>", format="html"))
            raw.parent.insert(at, nodes.raw("", mark, format="html"))

    def after(self, raw, kind):
        """The node after a comment, when it is of this kind."""
        node = raw.next_node(descend=False, siblings=True)
        return node if isinstance(node, kind) else None

    def until(self, raw, end):
        """The nodes between a comment and the one that ends its block, taken from the page. Behind
        </details> a comment is one piece of HTML with it."""
        found, node = [], raw.next_node(descend=False, siblings=True)
        while node is not None and not (isinstance(node, nodes.raw) and end in node.astext()):
            found.append(node)
            node = node.next_node(descend=False, siblings=True)
        if node is None:
            LOG.warning("%s is missing", end, location=raw)
            return []
        for taken in [*found, node]:
            taken.parent.remove(taken)
        return found

    def note(self, key, word):
        """Adds a word to what is known of the page."""
        known = self.env.metadata[self.env.docname]
        known[key] = known.get(key, "") + word + " "

    def listing(self, raw, path, tag):
        block = self.after(raw, nodes.literal_block)
        if block is None:
            return
        lines = excerpts.read_lines(self.root / path)
        numbers = excerpts.region(lines, path, tag)
        while numbers and not lines[numbers[0]].strip():
            numbers = numbers[1:]
        first, last = numbers[0] + 1, numbers[-1] + 1
        parts = [link(path, f"/{path}#L{first}"), nodes.Text(f", lines {first} to {last}")]
        self.captioned(block, parts)

    def diff(self, raw, old, new):
        old, new = old.partition("#")[0], new.partition("#")[0]
        if "/" not in new:
            new = posixpath.join(posixpath.dirname(old), new)
        name = posixpath.basename(old)
        parts = [nodes.Text("What "), link(new, f"/{new}")]
        if old != new:
            parts += [nodes.Text(" changes in "), link(name, f"/{old}")]
        # The folded link to the whole file is for GitHub.
        block = next(
            (n for n in self.until(raw, DIFF_END) if isinstance(n, nodes.literal_block)), None
        )
        if block is not None:
            raw.parent.insert(raw.parent.index(raw), block)
            self.captioned(block, parts)

    @staticmethod
    def captioned(block, parts):
        wrapper = nodes.container("", classes=["listing"])
        block.replace_self(wrapper)
        wrapper += [nodes.paragraph("", "", *parts, classes=["listing-caption"]), block]

    def printed(self, raw, command):
        found = self.until(raw, GENERATED_END)
        index = raw.parent.index(raw)
        if found and all(node.next_node(nodes.image) for node in found):  # a drawing
            raw.parent[index:index] = found
            return
        box = nodes.container("", classes=["printed"])
        sources = []
        for node in found:
            is_source = "printed-source" in styled(node).get("classes", ())
            (sources if is_source else box).append(node)
        box += folded([*sources, origin(command)], self.app.builder.name == "html")
        raw.parent.insert(index, box)

    def on_site(self, raw, name):
        if self.app.builder.name != "html":
            return  # a book has the picture
        replaced = self.until(raw, ON_SITE_END)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(self.page), name))
        file = self.root / path
        if not file.is_file():
            LOG.warning("there is no %s beside the page", name, location=raw)
            return
        self.env.note_dependency(str(file))

        def named(match):
            path = posixpath.join(posixpath.dirname(name), match[2])
            self.note("assets", path)
            return f'{match[1]}="{path}"'

        made = pathlib.Path(self.app.config.course_made, path).parent
        picture = next(image for node in replaced for image in node.findall(nodes.image))
        text = explorer((file.parent, made), file.stem, picture["alt"])
        text = ASSET.sub(named, text)
        raw.parent.insert(raw.parent.index(raw), nodes.raw("", text, format="html"))
