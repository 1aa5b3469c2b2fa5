"""Tests the built page as it is in the package. ``make web`` compares it with its sources."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

import unladen

FOLDER = Path(unladen.__file__).parent / "ui"
MOST_BYTES = 300_000
"""The most bytes, packed, that a browser loads before it shows the page."""
TEXTS = {".js", ".css", ".html", ".svg", ".txt"}
"""The endings of files that have a packed one beside them."""


def files() -> list[Path]:
    """Every file of the page that isn't packed."""
    return sorted(p for p in FOLDER.rglob("*") if p.is_file() and p.suffix != ".gz")


def named(text: str) -> list[str]:
    """The files that the page names, which a browser loads at once."""
    return re.findall(r'(?:src|href)="\./([^"]+)"', text)


def test_first_paint_is_small() -> None:
    index = FOLDER / "index.html"
    names = ["index.html", *named(index.read_text(encoding="utf-8"))]
    assert {Path(name).suffix for name in names} >= {".html", ".js", ".css"}
    total = sum(len(gzip.compress((FOLDER / name).read_bytes(), 9)) for name in names)
    assert total <= MOST_BYTES, f"{total} bytes for {', '.join(names)}"


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_packed_file_is_the_file(path: Path) -> None:
    packed = path.with_name(f"{path.name}.gz")
    assert packed.exists() == (path.suffix in TEXTS)
    if packed.exists():
        data = packed.read_bytes()
        assert gzip.decompress(data) == path.read_bytes()
        assert data[4:8] == bytes(4), "the time would make each build another"


def test_nothing_else_is_there() -> None:
    plain = {path.relative_to(FOLDER).as_posix() for path in files()}
    packed = {path.relative_to(FOLDER).as_posix().removesuffix(".gz")
              for path in FOLDER.rglob("*.gz")}
    assert packed <= plain
    # The server sends no others.
    assert {name for name in plain if "/" not in name} == {"index.html"}
    assert not [name for name in plain if name.endswith(".map")]


def test_all_files_that_the_page_names_are_there() -> None:
    for path in files():
        if path.suffix == ".html":
            for name in named(path.read_text(encoding="utf-8")):
                assert (FOLDER / name).is_file(), name
        if path.suffix == ".js":
            for name in re.findall(r'"\./([\w.-]+\.(?:js|css))"', path.read_text(encoding="utf-8")):
                assert (path.parent / name).is_file(), f"{path.name}: {name}"


def test_policy_can_be_kept() -> None:
    """No script and no style stands in the page, and no code writes HTML."""
    index = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=", index)
    sources = FOLDER.parents[2] / "web" / "src"
    if not sources.is_dir():
        pytest.skip("an installed package has no sources of the page")
    for path in sources.rglob("*.ts*"):
        found = re.search(r"dangerouslySetInnerHTML|innerHTML|insertAdjacentHTML|\beval\(|"
                          r"renderToString", path.read_text(encoding="utf-8"))
        assert found is None, f"{path.name}: {found}"


def test_licences_of_what_ships_are_there() -> None:
    text = (FOLDER / "assets" / "notices.txt").read_text(encoding="utf-8")
    for name in ("react ", "react-dom ", "@base-ui/react ", "temml ", "highlight.js ", "zustand "):
        assert re.search(rf"^{re.escape(name)}[\d.]+ \(", text, re.M), name
