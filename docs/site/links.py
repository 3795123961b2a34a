"""Where the links of a page lead on the site: to pages, into Doxygen's reference of the code, to
files of the repository."""

import pathlib
import posixpath
import re
import shutil
import urllib.parse
import xml.etree.ElementTree as tree

from docutils import nodes
from sphinx.util import logging

LOG = logging.getLogger(__name__)
OTHER_SITE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
REFERENCE = "reference"  # the folder of Doxygen's pages on the site


def page_of(env, docname):
    """The path of a page, relative to the repository."""
    return pathlib.Path(env.doc2path(docname)).relative_to(env.srcdir).as_posix()


class Reference:
    """The pages of Doxygen: {file of the repository: page of its source}, by their titles, and
    {name with its namespace: page and anchor}, by its tag file. Without Doxygen both are empty."""

    def __init__(self, tags, pages):
        self.sources, self.names = {}, {}
        for page in pages.glob("*_source.html"):
            head = page.read_text(encoding="utf-8").partition("</title>")[0]
            self.sources[head.rpartition(": ")[2].removesuffix(" Source File")] = page.name
        for compound in tree.parse(tags).getroot() if pathlib.Path(tags).is_file() else ():
            name, page = compound.findtext("name"), compound.findtext("filename")
            if compound.get("kind") in ("class", "struct", "union", "namespace"):
                self.names[name] = page
                for member in compound.iter("member"):
                    place = f"{member.findtext('anchorfile')}#{member.findtext('anchor')}"
                    self.names.setdefault(f"{name}::{member.findtext('name')}", place)

    def source(self, path, line=0):
        """The page of a source and a line of it, from the site's root; None when it has none."""
        page = self.sources.get(path)
        return page and f"{REFERENCE}/{page}" + (f"#l{line:05d}" if line else "")

    def code_names(self):
        """{last part of a name, in lower case: [[name, page, anchor], ...]} for the search, of what
        looks like code: it has _ or a capital inside."""
        found = {}
        for name, place in self.names.items():
            last, (page, _, anchor) = name.rpartition("::")[2], place.partition(".html")
            if re.search(r"[a-z\d][A-Z]|\w_\w", last) and not name.endswith(f"{last}::{last}"):
                found.setdefault(last.lower(), []).append([name, f"{REFERENCE}/{page}", anchor])
        return found

    def symbol(self, text):
        """The description of a name that is written as fa::name or fa::name()."""
        page = self.names.get(text.removesuffix("()")) if text.startswith("fa::") else None
        return page and f"{REFERENCE}/{page}"


class Links:
    """Where the links of one page lead."""

    def __init__(self, app, docname):
        self.app, self.docname, self.root = app, docname, pathlib.Path(app.srcdir)
        self.page = page_of(app.env, docname)
        self.pages = {page_of(app.env, name): name for name in app.env.found_docs}
        self.on_site = app.builder.name == "html"  # a book has no reference and no other files

    def relative(self, target):
        """The address of a file of the site, seen from this page."""
        return posixpath.relpath(target, posixpath.dirname(self.page) or ".")

    def resolve(self, uri):
        """The address on the site; None where the link has to go."""
        if OTHER_SITE.match(uri):
            return uri
        path, _, anchor = uri.partition("#")
        target = urllib.parse.unquote(path).lstrip("/")  # transforms.py begins it at the root
        if (self.root / target).is_dir():
            readme = posixpath.normpath(posixpath.join(target, "README.md"))
            target = readme if readme in self.pages else target
        if target in self.pages:
            if anchor and self.app.builder.name == "singlehtml":
                return f"#{self.pages[target]}--{anchor}"
            to = "" if target == self.page and anchor else self.address(target)
            return to + (f"#{anchor}" if anchor else "")
        if not (self.root / target).exists():
            LOG.warning("the link %s leads to no file", target, location=self.docname)
            return None
        return self.other(target, re.match(r"L(\d+)", anchor)) if self.on_site else None

    def address(self, page):
        """Another page, seen from this one."""
        return self.app.builder.get_relative_uri(self.docname, self.pages[page])

    def other(self, target, line):
        """A source, or another file or folder of the repository."""
        if page := self.app.course_reference.source(target, int(line[1]) if line else 0):
            return self.relative(page)
        if repository := self.app.config.html_context["repository"]:
            return f"{repository}/blob/main/{target}"
        if (self.root / target).is_dir():
            return self.relative(f"{REFERENCE}/files.html")
        copy = pathlib.Path(self.app.outdir, "files", target)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.root / target, copy)
        return self.relative(f"files/{target}")


def resolve_links(app, doctree, docname):
    """Every link of a page, and the names with a namespace in its text."""
    links = Links(app, docname)
    for reference in list(doctree.findall(nodes.reference)):
        uri = reference.get("refuri")
        if not uri or reference.get("internal"):
            continue
        if address := links.resolve(uri):
            reference["refuri"] = address
            reference["internal"] = not OTHER_SITE.match(address)
        else:
            reference.replace_self(list(reference.children))
    for literal in list(doctree.findall(nodes.literal)) if links.on_site else ():
        page = app.course_reference.symbol(literal.astext())
        if page and not isinstance(literal.parent, nodes.reference):
            wrapped = nodes.reference("", "", refuri=links.relative(page), internal=True)
            literal.replace_self(wrapped)
            wrapped += literal
