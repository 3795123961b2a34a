"""Where the links of a page lead on the site: to pages, into the reference of the code, to files of
the repository."""

import pathlib
import posixpath
import re
import shutil
import urllib.parse

from docutils import nodes
from sphinx.util import logging

from docs.site import navigation

LOG = logging.getLogger(__name__)
OTHER_SITE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


def page_of(env, docname):
    """The path of a page, relative to the repository."""
    return pathlib.Path(env.doc2path(docname)).relative_to(env.srcdir).as_posix()


def from_root(page, uri):
    """A relative address on a page, seen from the repository's root."""
    path, mark, anchor = uri.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    return path + mark + anchor


def changes_file(path):
    """The page of the difference between a step and the one before."""
    return "changes/" + path.removesuffix(".cuh") + ".html"


def one_file(root, path):
    """The step `path` as one CUDA file of the site, or "" for a file that is not a step."""
    step = re.fullmatch(r"(\d\d_\w+)/kernels/(\d\d_\w+)\.cuh", path)
    if step is None or not (root / step[1] / "src" / "one_file.cu").is_file():
        return ""
    return f"one_file/{step[1]}/{step[2]}.cu"


class Links:
    """Where the links of a page lead on the site."""

    def __init__(self, app, docname):
        self.app, self.docname = app, docname
        self.root = pathlib.Path(app.srcdir)
        self.page = page_of(app.env, docname)
        self.reference = app.course_reference
        self.pages = {page_of(app.env, name): name for name in app.env.found_docs}
        self.book = app.config.course_book
        self.single = app.builder.name == "singlehtml"
        self.here = navigation.html_file(self.page)
        self.out = app.builder.name == "html"  # only the site has the reference

    def relative(self, target):
        """The address of a file of the site, seen from this page."""
        return posixpath.relpath(target, posixpath.dirname(self.here) or ".")

    def resolve(self, uri):
        """(address, kind) on the site, or None when the target is not there. The kinds are page,
        code, file and external."""
        scheme, _, rest = uri.partition(":")
        if scheme in ("reference", "changes", "step"):
            path, _, line = rest.partition("#")
            if not self.out:
                return None
            if scheme == "changes":
                return self.relative(changes_file(path)), "code"
            if scheme == "step":
                return self.relative(one_file(self.root, path)), "code"
            file = self.reference.file(path, int(line or 0))
            return file and (self.relative(f"reference/{file}"), "code")
        if OTHER_SITE.match(uri):
            return uri, "external"
        path, _, anchor = uri.partition("#")
        target = urllib.parse.unquote(path).lstrip("/")  # GithubMarkdown begins it at the root
        if (self.root / target).is_dir():
            readme = posixpath.normpath(posixpath.join(target, "README.md"))
            if readme in self.pages:
                target = readme
        if target in self.pages:
            address = self.app.builder.get_relative_uri(self.docname, self.pages[target])
            if anchor and self.book:
                anchor = f"{self.pages[target].replace('/', '-')}--{anchor}"
            if self.single:
                return "#" + (anchor or "document-" + self.pages[target]), "page"
            if target == self.page and anchor:
                return "#" + anchor, "page"
            return address + (f"#{anchor}" if anchor else ""), "page"
        if self.out:
            line = re.match(r"L(\d+)", anchor)
            file = self.reference.file(target, int(line[1]) if line else 0)
            if file:
                return self.relative(f"reference/{file}"), "code"
            if (self.root / target).is_dir():
                folder = self.reference.folder(target)
                if folder:
                    return self.relative(f"reference/{folder}"), "code"
            repository = self.app.config.html_context["repository"]
            if repository:
                return f"{repository}/blob/main/{target}", "file"
            if (self.root / target).is_file():
                copy = pathlib.Path(self.app.outdir) / "files" / target
                copy.parent.mkdir(parents=True, exist_ok=True)
                if not copy.exists() or copy.stat().st_mtime < (self.root / target).stat().st_mtime:
                    shutil.copyfile(self.root / target, copy)
                return self.relative(f"files/{target}"), "file"
        if not (self.root / target).exists():
            LOG.warning("the link %s leads to no file", uri.lstrip("/"), location=self.docname)
        return None


def resolve_links(app, doctree, docname):
    """Every link of a page, and the names with a namespace in its text."""
    links = Links(app, docname)
    for reference in list(doctree.findall(nodes.reference)):
        uri = reference.get("refuri")
        if not uri or reference.get("internal"):
            continue
        found = links.resolve(uri)
        if found is None:
            reference.replace_self(list(reference.children))
            continue
        reference["refuri"] = found[0]
        reference["internal"] = found[1] == "page"
        if found[1] == "code":
            reference["classes"].append("code-link")
    if not links.out:
        for raw in list(doctree.findall(nodes.raw)):
            if "results-filter" in raw["classes"]:
                raw.parent.remove(raw)
        for caption in doctree.findall(nodes.paragraph):
            if "listing-caption" in caption["classes"]:  # the file and its lines
                first = next((i for i, part in enumerate(caption) if part == " · "), len(caption))
                del caption[first:]
        return
    for literal in list(doctree.findall(nodes.literal)):
        if isinstance(literal.parent, nodes.reference):
            continue
        file = app.course_reference.symbol(literal.astext())
        if file:
            wrapped = nodes.reference("", "", refuri=links.relative(f"reference/{file}"))
            literal.replace_self(wrapped)
            wrapped += literal
