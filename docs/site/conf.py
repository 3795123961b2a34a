"""Configuration of Sphinx for the pages. The sources are the repository's own Markdown files. It
runs in the repository's root, where Python finds the modules; Site.cmake has the commands."""

import os
import pathlib

import yaml

from docs.site import navigation

ROOT = pathlib.Path(__file__).resolve().parents[2]
_citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))

project = _citation["title"]
author = _citation["authors"][0]["name"]
version = release = str(_citation["version"])
copyright = f"{str(_citation['date-released'])[:4]}, {author}"  # pylint: disable=redefined-builtin
language = "en"

extensions = ["myst_parser", "sphinx_copybutton", "sphinx_llms_txt", "docs.site.course"]
root_doc = "README"
include_patterns = navigation.pages(ROOT)
exclude_patterns = ["build*", ".*", "**/kernels", "my_exercises"]
myst_all_links_external = True  # docs.site.links resolves them
myst_enable_extensions = ["tasklist"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 6
suppress_warnings = ["myst.header"]  # the order of a page's headings
smartquotes_action = "qe"  # "--section" keeps its hyphens
html_math_renderer = "mathml"

html_theme = "furo"
html_title = project
html_static_path = ["theme/static"]
templates_path = ["theme/templates"]
html_css_files = ["course.css"]
html_js_files = ["page.js", "memory.js"]
html_search_scorer = "docs/site/theme/search.js"
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_favicon = "theme/static/icon.svg"
html_additional_pages = {"404": "404.html"}
html_show_sourcelink = False
html_show_sphinx = False
html_use_index = False
html_permalinks_icon = "#"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "lightbulb"
copybutton_exclude = ".linenos, .gp, .gd, .go"
# Where the repository is, for links to it: a workflow on GitHub knows.
repository = os.environ.get("COURSE_REPOSITORY", "")
if not repository and os.environ.get("GITHUB_REPOSITORY"):
    repository = f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"
html_context = {"repository": repository}
# The workflow puts the book beside the site, and knows where the site is.
html_context["book"] = bool(os.environ.get("GITHUB_REPOSITORY"))
if name := os.environ.get("GITHUB_REPOSITORY"):
    html_baseurl = "https://{}.github.io/{}/".format(*name.split("/"))

# llms.txt lists the pages, each as Markdown in _sources.
llms_txt_full_file = False
llms_txt_summary = _citation["abstract"]
llms_txt_uri_template = "{base_url}_sources/{docname}{suffix}{sourcelink_suffix}"

# ./learn docs --links
linkcheck_anchors = False  # many sites make theirs by script
linkcheck_timeout = 30
linkcheck_retries = 2

# ./learn docs --epub, and --pdf
epub_basename = "flash-attention"
epub_title = project
epub_author = epub_publisher = author
epub_description = _citation["abstract"]
epub_identifier = epub_uid = f"{epub_basename}-{version}"  # EPUB wants the same in both places
epub_cover = ()
epub_css_files = ["ebook.css"]
epub_show_urls = "no"
epub_tocscope = "includehidden"
_of_the_site = ("book.css", "course.css", "page.js", "memory.js", "copybutton.js")
epub_exclude_files = ["404.xhtml", *(f"_static/{name}" for name in _of_the_site)]
