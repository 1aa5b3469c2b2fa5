"""Checks the pages that zensical built: every link leads to a page and an anchor that are there.

    python tools/check_site.py build/site

zensical checks links between Markdown files. This program checks the built pages as a browser sees
them: links, anchors, pictures, scripts and styles. Anything that a page loads from another host is
a fault, too: the site must work without other hosts. Links that a reader follows to another host
aren't checked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("source", "src"), ("iframe", "src"),
          ("object", "data")}
"""Tags and attributes whose targets a browser loads by itself."""
FOLLOWED = {("a", "href")}
"""Tags and attributes whose targets a reader follows."""


class Page(HTMLParser):
    """The anchors of one page, and what it links to as (tag, attribute, target)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag, name) == ("a", "name"):
                self.anchors.add(value)
            elif (tag, name) in LOADED | FOLLOWED:
                self.links.append((tag, name, value))


def faults(site: Path) -> Iterator[str]:
    """The faults of the site, one line each; raises :class:`FileNotFoundError` where there is no
    page."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8"))
             for path in sorted(site.rglob("*.html"))}
    if not pages:
        raise FileNotFoundError(f"{site} has no pages")
    for path, page in pages.items():
        for tag, name, target in page.links:
            wrong = _fault(path, target, site.resolve(), pages, is_loaded=(tag, name) in LOADED)
            if wrong:
                yield f"{path.relative_to(site.resolve())}: {target}: {wrong}"


def _fault(page: Path, target: str, site: Path, pages: Mapping[Path, Page], *, is_loaded: bool
           ) -> str:
    """The fault of one link of ``page``; "" if it has none."""
    parts = urlsplit(target)
    if parts.scheme == "data" or (parts.scheme and not is_loaded):
        return ""
    if parts.scheme or parts.netloc:
        return "is loaded from another host"
    # 404.html may be shown for any address, so its links begin at the root.
    base = site if parts.path.startswith("/") else page.parent
    path = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else page
    if path.is_dir():
        path /= "index.html"
    if not path.is_relative_to(site):
        return "leads out of the site"
    if not path.exists():
        return "leads nowhere"
    anchor = unquote(parts.fragment)
    # "#" and "#top" mean the beginning of a page and need no anchor.
    if anchor in ("", "top", "__search") or path not in pages:
        return ""
    return "" if anchor in pages[path].anchors else "has no such anchor"


def main(folder: str) -> int:
    found = list(faults(Path(folder)))
    for fault in found:
        print(f"error: {fault}", file=sys.stderr)
    n_pages = len(list(Path(folder).rglob("*.html")))
    print(f"{n_pages} pages, {len(found)} broken links", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
