"""Extensions are found in the package, in plug-in folders and at entry points."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType

import pytest

from unladen import discover
from unladen.quants.base import Quant

PLUGIN = "class Mine(__import__('unladen.quants.base').quants.base.Quant):\n    name = {name!r}\n"


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("unladen_plugin_"):
            del sys.modules[name]


def plugin(root: Path, stem: str, text: str) -> None:
    (root / "quants").mkdir(parents=True, exist_ok=True)
    (root / "quants" / f"{stem}.py").write_text(text)


def names() -> list[str]:
    return [c.name for c in discover.classes("unladen.quants", "quants", Quant)]


def test_the_package_itself() -> None:
    found = names()
    assert len(found) == len(set(found)) > 30
    assert {"F32", "Q4_K", "IQ2_XXS"} <= set(found)
    assert not any(m.__name__.endswith(".base") or "._" in m.__name__
                   for m in discover.modules("unladen.quants", "quants"))


def test_plugin_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    plugin(a, "one", PLUGIN.format(name="ONE"))
    plugin(a, "_part", "raise RuntimeError('a part is not imported')")
    plugin(b, "two", PLUGIN.format(name="TWO"))
    (b / "quants" / "notes.txt").write_text("no module")
    before = names()
    monkeypatch.setenv("UNLADEN_PLUGIN_PATH", os.pathsep.join([str(a), "", str(b)]))
    assert names() == [*before, "ONE", "TWO"]
    assert names() == [*before, "ONE", "TWO"], "looking twice finds the same"


def search() -> discover.Found[type[Quant]]:
    return discover.search("unladen.quants", "quants",
                           discover.by_class(Quant, lambda c: (c.name, c.type_id)))


def test_a_missing_plugin_folder_is_named_and_left_out(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    whole = search().entries
    monkeypatch.setenv("UNLADEN_PLUGIN_PATH", str(tmp_path / "nowhere"))
    found = search()
    assert found.entries == whole
    assert [left.where for left in found.left_out] == [str(tmp_path / "nowhere")]
    (record,) = caplog.records
    assert "nowhere" in record.getMessage() and "isn't a folder" in record.getMessage()


def test_only_what_a_module_defines_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin(tmp_path, "three", "from unladen.quants.q8_0 import Q8_0\n"
           "from unladen.quants.base import Quant\n"
           "class _Base(Quant): name = 'HIDDEN'\nclass Three(_Base): name = 'THREE'\nx = 1\n")
    before = names()
    monkeypatch.setenv("UNLADEN_PLUGIN_PATH", str(tmp_path))
    assert names() == [*before, "THREE"]


BROKEN = {
    "syntax": ("def (:", "SyntaxError in line 1"), "import": ("import no.such.module", "ModuleNot"),
    "value": ("1 / 0", "ZeroDivisionError: division by zero"),
    "exit": ("import sys; sys.exit(3)", "SystemExit: 3"), "empty": ("", "defines nothing"),
    "recursion": ("def f(): f()\nf()", "RecursionError"),
    "bytes": (b"\xff\xfe\x00", "SyntaxError"),
    "class": ("class Mine:\n    name = 'MINE'", "defines nothing"),
    "half": (PLUGIN.format(name="HALF") + "1 / 0\n", "ZeroDivisionError"),
    "unnamed": ("from unladen.quants.base import Quant\nclass Mine(Quant): pass", "AttributeError"),
    "taken": ("from unladen.quants.q8_0 import Q8_0\nclass Mine(Q8_0): pass", "Q8_0, 8 is taken"),
    "silent": ("class Own(Exception):\n    def __str__(self): raise ValueError\nraise Own",
               "Own: its text isn't available (ValueError)"),
    "own": ("raise type('Own', (Exception,), {'__str__': lambda self: 'a\\nb'})", "Own: a b")}


@pytest.mark.parametrize(("text", "why"), BROKEN.values(), ids=BROKEN)
def test_a_broken_plugin_is_named_and_left_out(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
        text: str | bytes, why: str) -> None:
    whole = search().entries
    path = tmp_path / "quants" / "broken.py"
    path.parent.mkdir()
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    good = PLUGIN.format(name="GOOD") + "    type_id = 7777\n"
    plugin(tmp_path, "good", good)
    monkeypatch.setenv("UNLADEN_PLUGIN_PATH", str(tmp_path))
    for _ in range(2):
        caplog.clear()
        found = search()
        assert set(found.entries) == {*whole, "GOOD", 7777}, "the others are there"
        assert {name: found.entries[name] for name in whole} == whole, "none was replaced"
        (left,) = found.left_out
        assert left.where == str(path) and why in left.why
        (record,) = caplog.records
        assert all(word in record.getMessage() for word in (str(path), left.why, "hint: "))
        assert "\n" not in record.getMessage()


def test_an_interrupt_is_no_fault_of_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                              ) -> None:
    plugin(tmp_path, "interrupted", "raise KeyboardInterrupt")
    monkeypatch.setenv("UNLADEN_PLUGIN_PATH", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        search()


def test_what_a_plugin_prints_is_talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    plugin(tmp_path, "loud", "print('here I am')\n" + PLUGIN.format(name="LOUD")
           + "    type_id = 7778\n")
    monkeypatch.setenv("UNLADEN_PLUGIN_PATH", str(tmp_path))
    assert "LOUD" in search().entries
    out, err = capsys.readouterr()
    assert (out, err) == ("", "here I am\n")


@pytest.mark.parametrize("value", ["no.such.module", "os:nothing", "os:sep"])
def test_a_broken_entry_point(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
                              value: str) -> None:
    whole = search().entries
    there = EntryPoints([EntryPoint("far", value, "unladen.quants")])
    monkeypatch.setattr(discover, "_installed", lambda path: there)
    found = search()
    assert found.entries == whole
    assert [left.where for left in found.left_out] == [f"entry point unladen.quants: {value}"]


def test_two_plugins_of_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for stem, number in (("one", 7001), ("two", 7002)):
        plugin(tmp_path, stem, PLUGIN.format(name="SAME") + f"    type_id = {number}\n")
    monkeypatch.setenv("UNLADEN_PLUGIN_PATH", str(tmp_path))
    found = search()
    assert found.entries[7001] is found.entries["SAME"] and 7002 not in found.entries
    assert [left.where for left in found.left_out] == [str(tmp_path / "quants" / "two.py")]


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("somebodys_quants")
    exec(PLUGIN.format(name="FAR"), vars(module))
    monkeypatch.setitem(sys.modules, "somebodys_quants", module)

    there = EntryPoints([EntryPoint("far", "somebodys_quants", "unladen.quants"),
                         EntryPoint("other", "no.such.module", "unladen.models")])
    before = names()
    monkeypatch.setattr(discover, "_installed", lambda path: there)
    assert names() == [*before, "FAR"]


def test_one_module_of_the_package_and_all_of_others(tmp_path: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    plugin(tmp_path, "four", "")
    monkeypatch.setenv("UNLADEN_PLUGIN_PATH", str(tmp_path))
    found = [m.__name__ for m in discover.modules("unladen.quants", "quants", "q4_k")]
    assert found == ["unladen.quants.q4_k", "unladen_plugin_quants_four"]
    assert [m.__name__ for m in discover.modules("unladen.quants", "quants", "base")] == found[1:]


@pytest.mark.parametrize("kind", ["dist", "egg"])
def test_entry_points_of_what_is_installed(tmp_path: Path, kind: str) -> None:
    for name, group in (("other", "console_scripts"), ("plug", "unladen.quants")):
        info = tmp_path / f"{name}-1.0.{kind}-info"
        info.mkdir()
        (info / ("METADATA" if kind == "dist" else "PKG-INFO")).write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\nmine = {name}_module\n")
    (found,) = discover._installed((str(tmp_path), str(tmp_path / "nowhere")))
    assert (found.group, found.value) == ("unladen.quants", "plug_module")
    (tmp_path / f"plug-1.0.{kind}-info" / "entry_points.txt").unlink()
    assert discover._installed((str(tmp_path), "")) == ()
    assert not discover._may_have_ours(str(tmp_path))
    archive = tmp_path / "some.zip"
    archive.write_bytes(b"")
    assert discover._may_have_ours(str(archive)), "what is in it, importlib.metadata knows"


@pytest.mark.parametrize("text", [b"[unladen.quants]\nmine", b"\xff\xfe[unladen.quants]\n", b"[x"])
def test_broken_metadata_of_others(tmp_path: Path, caplog: pytest.LogCaptureFixture, text: bytes
                                   ) -> None:
    """A package with unreadable metadata doesn't stop the search."""
    for name, content in (("bad", text), ("good", b"[unladen.quants]\nmine = good_module\n")):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_bytes(content)
    found = discover._installed((str(tmp_path),))
    assert "good_module" in [entry.value for entry in found]
    assert all("entry_points.txt" in record.getMessage() for record in caplog.records)


def test_a_folder_is_found_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the files in it, of which none is found by itself."""
    home = tmp_path / "quants" / "wide"
    home.mkdir(parents=True)
    (home / "__init__.py").write_text("from .inner import SIZE\n" + PLUGIN.format(name="WIDE")
                                      + "    type_id = SIZE\n")
    (home / "inner.py").write_text("SIZE = 7654\n")
    for hidden in ("_hidden", "no_package"):
        (tmp_path / "quants" / hidden).mkdir()
        (tmp_path / "quants" / hidden / "inner.py").write_text("1 / 0")
    (tmp_path / "quants" / "_hidden" / "__init__.py").write_text("1 / 0")
    monkeypatch.setenv("UNLADEN_PLUGIN_PATH", str(tmp_path))
    found = search()
    assert not found.left_out and found.entries[7654] is found.entries["WIDE"]
    assert discover.name_of(sys.modules["unladen_plugin_quants_wide"]) == "wide"
