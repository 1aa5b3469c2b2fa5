"""csrc/README.md of the CPU backend is the map of its kernels: complete, and true."""

from __future__ import annotations

import re

from house.tree import ROOT

CSRC = ROOT / "src/unladen/backends/cpu/csrc"
MAP = (CSRC / "README.md").read_text(encoding="utf-8")
FILE = re.compile(r"[\w/]+\.(?:h\.in|h|cc)\b")


def named() -> set[str]:
    """Paths below isa/ of the map's files: shelves' lists name them without their shelf."""
    found = set()
    table, shelves = MAP.split("## The shelves of `isa/`")
    for name in re.findall(r"`([^`]+)`", table):
        if FILE.fullmatch(name) and (CSRC / "isa" / name.split("/")[0]).is_dir():
            found.add(name)
    for shelf, text in re.findall(r"^\* `(\w+)/`(.*?)(?=^\* |^## )", shelves, re.M | re.S):
        found |= {f"{shelf}/{name}" for name in re.findall(r"`([^`]+)`", text)
                  if FILE.fullmatch(name) and "/" not in name}
    return found


def files() -> set[str]:
    """Those of isa/ but for the headers of single formats, which the build finds by scanning."""
    paths = [p for p in (CSRC / "isa").rglob("*") if p.is_file()]
    return {p.relative_to(CSRC / "isa").as_posix() for p in paths
            if not re.search(r"^struct [A-Z0-9_]+ [:{]", p.read_text(encoding="utf-8"), re.M)}


def test_every_kernel_file_is_on_the_map() -> None:
    assert not files() - named()


def test_the_map_names_files_that_exist() -> None:
    assert not named() - files()


def test_every_level_is_in_the_table() -> None:
    table = MAP[MAP.index("## Which file multiplies"):MAP.index("## The shelves")]
    levels = re.findall(r"unladen_isa\((\w+)", (ROOT / "CMakeLists.txt").read_text("utf-8"))
    assert {"portable", "vbmi", "i8mm"} < set(levels)
    first_cells = ", ".join(re.findall(r"^\| ([^|]*) \|", table, re.M))
    assert set(levels) - {"LEVEL"} <= set(first_cells.split(", "))
