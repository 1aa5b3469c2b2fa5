"""Extensions are found by looking: in the package, in plug-in folders, at entry points."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType

import pytest

from unladen import discover
from unladen.errors import InvalidArgument
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


def test_a_missing_plugin_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                             ) -> None:
    monkeypatch.setenv("UNLADEN_PLUGIN_PATH", str(tmp_path / "nowhere"))
    with pytest.raises(InvalidArgument, match="nowhere"):
        names()


def test_only_what_a_module_defines_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin(tmp_path, "three", "from unladen.quants.q8_0 import Q8_0\n"
           "from unladen.quants.base import Quant\n"
           "class _Base(Quant): name = 'HIDDEN'\nclass Three(_Base): name = 'THREE'\nx = 1\n")
    before = names()
    monkeypatch.setenv("UNLADEN_PLUGIN_PATH", str(tmp_path))
    assert names() == [*before, "THREE"]


def test_a_broken_plugin_is_broken_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                              ) -> None:
    plugin(tmp_path, "broken", PLUGIN.format(name="HALF") + "1 / 0\n")
    monkeypatch.setenv("UNLADEN_PLUGIN_PATH", str(tmp_path))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            names()


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
