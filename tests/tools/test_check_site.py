"""The check of the built site finds links and files that a browser wouldn't find."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
SOUND = ('<h1 id="top-one">A</h1><a href="b/index.html#there">b</a> <a href="b/">b</a> '
         '<a href="#top-one">up</a> <a href="#">up</a> <a href="https://example.org/x">out</a> '
         '<img src="p%20q.svg"> <img src="data:image/png;base64,AA=="> '
         '<script src="s.js"></script>')


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module("check_site")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    (folder / "b").mkdir(parents=True)
    (folder / "index.html").write_text(SOUND, encoding="utf-8")
    (folder / "b/index.html").write_text('<p id="there"><a href="../index.html">a</a>',
                                         encoding="utf-8")
    (folder / "p q.svg").write_text("<svg/>", encoding="utf-8")
    (folder / "s.js").write_text("", encoding="utf-8")
    (tmp_path / "beside.html").write_text("", encoding="utf-8")
    return folder


def test_a_sound_site(check: ModuleType, site: Path) -> None:
    assert check.main(str(site)) == 0


@pytest.mark.parametrize(("tag", "what"), [
    ('<a href="c.html">', "leads nowhere"),
    ('<a href="b/c">', "leads nowhere"),
    ('<a href="../beside.html">', "leads out"),
    ('<a href="#here">', "no such anchor"),
    ('<a href="b/index.html#here">', "no such anchor"),
    ('<a href="b/#here">', "no such anchor"),
    ('<img src="none.png">', "leads nowhere"),
    ('<link rel="stylesheet" href="https://fonts.example.org/x.css">', "another host"),
    ('<script src="//cdn.example.org/x.js">', "another host"),
])
def test_a_fault_is_found(check: ModuleType, site: Path, tag: str, what: str) -> None:
    with (site / "index.html").open("a", encoding="utf-8") as page:
        page.write(tag)
    (found,) = check.faults(site)
    assert found.startswith("index.html: ")
    assert what in found
    assert check.main(str(site)) == 1


def test_no_site(check: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no pages"):
        check.main(str(tmp_path / "nothing"))
