"""Checks an EPUB by the rules that this book has broken before: one identifier, a cover, every file
in the list and no other, pages that are XML, nothing that a page or a style sheet names and the
book lacks, and no style of pages that reading programs refuse. Where the program epubcheck is
installed, it checks the rest.
"""

import posixpath
import re
import shutil
import subprocess
import urllib.parse
import xml.etree.ElementTree
import zipfile

OPF, NCX = "content.opf", "toc.ncx"
SPECIAL = {"mimetype", OPF, "META-INF/container.xml"}


def package_faults(names, opf, ncx):
    """Yields what is wrong with the list of files."""
    uid = re.search(r'unique-identifier="([^"]*)"', opf)
    said = uid and re.search(rf'<dc:identifier[^>]*id="{re.escape(uid[1])}"[^>]*>([^<]+)<', opf)
    if not said:
        yield "the book has no identifier."
    elif f'name="dtb:uid" content="{said[1]}"' not in ncx:
        yield f"{NCX} has another identifier than {OPF}, {said[1]}."
    if 'properties="cover-image"' not in opf:
        yield "no file of the list is the cover."
    ids = set(re.findall(r'<item [^>]*\bid="([^"]*)"', opf))
    for reference in re.findall(r'<itemref [^>]*idref="([^"]*)"', opf):
        if reference not in ids:
            yield f"{OPF}: the order names {reference}, which the list has not."
    listed = {urllib.parse.unquote(name) for name in re.findall(r'<item [^>]*href="([^"]*)"', opf)}
    for name in sorted(listed - names):
        yield f"{OPF}: there is no file {name}."
    for name in sorted(names - listed - SPECIAL):
        yield f"{OPF}: {name} is not in the list."


def page_faults(texts, names):
    """Yields pages that are no XML, and what they name and the book lacks."""
    pages = {}
    for name, text in texts.items():
        try:
            pages[name] = xml.etree.ElementTree.fromstring(text)
        except xml.etree.ElementTree.ParseError as error:
            yield f"{name} is no XML: {error}."
    ids = {name: {element.get("id") for element in page.iter()} for name, page in pages.items()}
    for name, page in pages.items():
        for element in page.iter():
            url = element.get("href") or element.get("src") or element.get("srcset") or ""
            if not url or re.match(r"[a-z][a-z+.-]*:", url):
                continue
            path, _, anchor = urllib.parse.unquote(url).partition("#")
            folder = posixpath.dirname(name)
            path = posixpath.normpath(posixpath.join(folder, path)) if path else name
            if path not in names:
                yield f"{name}: there is no {path}."
            elif anchor and path in ids and anchor not in ids[path]:
                yield f"{name}: {path} has no place {anchor}."


def style_faults(name, text, names):
    """Yields what is wrong with a style sheet."""
    for url in re.findall(r"""url\(\s*["']?(?![a-z]+:|#)([^"')?#]+)""", text):
        if posixpath.normpath(posixpath.join(posixpath.dirname(name), url)) not in names:
            yield f"{name}: there is no {url}."
    if re.search(r"@(?:top|bottom|left|right)-\w+", text):
        yield f"{name}: boxes in the margin of a page are for paper."


def faults(epub):
    """Checks an EPUB."""
    try:
        with zipfile.ZipFile(epub) as book:
            texts = {
                name: book.read(name).decode("utf-8")
                for name in book.namelist()
                if name.endswith((".css", ".opf", ".ncx", ".xhtml"))
            }
            names = {name for name in book.namelist() if not name.endswith("/")}
    except zipfile.BadZipFile as error:
        raise ValueError(f"{epub} is not an EPUB") from error
    yield from package_faults(names, texts.get(OPF, ""), texts.get(NCX, ""))
    pages = {name: text for name, text in texts.items() if name.endswith(".xhtml")}
    yield from page_faults(pages, names)
    for name, text in texts.items():
        if name.endswith(".css"):
            yield from style_faults(name, text, names)
    checked = "epubcheck is not installed"
    if program := shutil.which("epubcheck"):
        done = subprocess.run([program, "--quiet", epub], capture_output=True, text=True)
        checked = "also by epubcheck"
        yield from (
            line for line in done.stderr.splitlines() if line.startswith(("ERROR", "FATAL"))
        )
    return f"{epub}: {len(names)} files ({checked})"
