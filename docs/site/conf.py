"""Configuration of Sphinx for the pages. The sources are the repository's own Markdown files. It
runs in the repository's root, where Python finds the modules; Site.cmake has the commands."""

import os
import pathlib
import re

from docs.site import book, navigation

ROOT = pathlib.Path(__file__).resolve().parents[2]
_citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def _cited(key):
    return re.search(rf"^{key}: (.*)$", _citation, re.MULTILINE)[1]


project = _cited("title")
author = _cited("  - name")
version = release = _cited("version")
copyright = f"{_cited('date-released')[:4]}, {author}"  # pylint: disable=redefined-builtin
language = "en"

extensions = ["myst_parser", "sphinx_copybutton", "docs.site.course"]
course_book = os.environ.get("COURSE_BOOK", "")  # course or teaching; the site has neither
root_doc = navigation.docname(book.front(course_book))
include_patterns = book.pages(ROOT, course_book) if course_book else navigation.pages(ROOT)
exclude_patterns = ["build*", ".*", "**/kernels", "my_exercises"]
myst_all_links_external = True  # docs.site.links resolves them
myst_enable_extensions = ["tasklist"]
myst_heading_anchors = 6
myst_heading_slug_func = "docs.site.markdown.slug"
suppress_warnings = ["myst.header"]  # the order of a page's headings: docs.site.check_pages
smartquotes_action = "qe"  # "--section" keeps its hyphens
numfig = False
html_math_renderer = "mathml"

_title = {"teaching": f"{project}: for teachers and contributors"}.get(course_book, project)
html_theme = "furo"
html_title = _title
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_static_path = ["theme/static"]
templates_path = ["theme/templates"]
html_css_files = ["course.css"]
html_js_files = ["page.js"]
html_copy_source = False
html_show_sphinx = False
html_domain_indices = False
html_use_index = False
html_permalinks_icon = "#"
html_last_updated_fmt = None
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "lightbulb"
copybutton_exclude = ".linenos, .gp, .gd, .go"
# Where the repository is, for the clone line and links to it: a workflow on GitHub knows.
repository = os.environ.get("COURSE_REPOSITORY", "")
if not repository and os.environ.get("GITHUB_REPOSITORY"):
    repository = f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"
html_context = {"repository": repository}

# ./learn docs --links
linkcheck_anchors = False  # many sites make theirs by script
linkcheck_timeout = 30
linkcheck_retries = 2

epub_basename = f"flash-attention-{course_book}"
epub_title = _title
epub_author, epub_publisher = author, author
epub_description = " ".join(re.search(r"abstract: >-\n((?:  .*\n)+)", _citation)[1].split())
epub_identifier = epub_uid = f"{epub_basename}-{version}"  # EPUB wants the same in both places
epub_cover = ("_static/cover.svg", "")
epub_css_files = ["ebook.css"]
epub_show_urls = "no"
epub_exclude_files = [
    f"_static/{name}"
    for name in ("course.css", "slides.css", "book.css", "page.js", "search.js", "copybutton.js")
]
