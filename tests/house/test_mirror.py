"""Tests mirror the package: the place of a file gives the place of its tests."""

from __future__ import annotations

import re

from house.tree import PACKAGE, ROOT, package_sources

TESTS = ROOT / "tests"
BESIDE = {"clients", "emulator", "examples", "fuzz", "house", "tools", "parity", "stub_driver"}
"""Test folders that don't belong to a folder of the package."""
SCANNED = {"unladen.graph.ops", "unladen.graph.passes", "unladen.tokenizer.kinds",
           "unladen.models._parts"}
"""Packages without tests of their own: the tests of the package around them run everything that is
found in them."""


def test_every_part_is_tested() -> None:
    """A package has tests in the folder of the same name or in test_NAME.py in its parent's test
    folder. A module outside packages has tests in test_NAME.py or in tests that import it."""
    everything = "\n".join(p.read_text(encoding="utf-8") for p in sorted(TESTS.rglob("*.py"))
                           if p.parent.name != "house")
    missing = []
    for source in package_sources():
        if source.module in SCANNED or source.part in ("_native", "__main__", "__init__"):
            continue
        if source.path.endswith("/__init__.py"):
            folder = TESTS / source.module.removeprefix("unladen").replace(".", "/").strip("/")
            beside = folder.with_name(f"test_{folder.name}.py")
            if not list(folder.rglob("test_*.py")) and not beside.exists():
                missing.append(f"{source.path}: no tests in {folder.relative_to(ROOT)}")
        elif source.module.count(".") == 1 and source.part != "api":
            name = re.escape(source.module)
            if (not (TESTS / f"test_{source.part}.py").exists()
                    and not re.search(rf"^\s*(from|import) {name}\b", everything, re.M)):
                missing.append(f"{source.path}: no tests/test_{source.part}.py, and no import")
    assert not missing, "\n".join(missing)


def test_every_test_folder_has_something_to_test() -> None:
    folders = {p.parent.relative_to(TESTS) for p in TESTS.rglob("test_*.py")}
    strange = [str(f) for f in folders
               if f.parts and f.parts[0] not in BESIDE and not (PACKAGE / f).is_dir()]
    assert not strange, f"no folder of the package is called like {strange}"
