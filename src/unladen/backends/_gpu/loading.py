"""Loads drivers' libraries."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

PARTS = "*rtc-builtins*.dll"
"""What compilers on Windows load by its bare name, though its folder isn't searched for that."""


def load_library(names: Sequence[str], *functions: str) -> ctypes.CDLL | None:
    """The first library of these ``names`` that can be loaded and has all ``functions``."""
    for name in names:
        library = _loaded(name)
        if library is not None and all(hasattr(library, function) for function in functions):
            return library
    return None


def lacks(names: Sequence[str], *functions: str) -> str:
    """The first of ``functions`` that is missing in the first library of these ``names`` with any
    of them; "" where it has all, and where there is no such library."""
    for library in filter(None, map(_loaded, names)):
        there = [hasattr(library, function) for function in functions]
        if any(there):
            return "" if all(there) else functions[there.index(False)]
    return ""


def below(variable: str, folders: Sequence[str], pattern: str) -> list[str]:
    """Paths of libraries on Windows in ``folders`` of the folder that the environment ``variable``
    names, by the number in their names, the highest first. Python doesn't look there by itself."""
    root = os.environ.get(variable)
    if sys.platform != "win32" or not root:
        return []
    found = [path for folder in folders for path in sorted(Path(root, folder).glob(pattern))]
    return [str(path) for path in sorted(found, key=_number, reverse=True)]


def _number(path: Path) -> int:
    return max(map(int, re.findall(r"\d{3,}", path.name)), default=0)


def _loaded(name: str) -> ctypes.CDLL | None:
    try:
        if sys.platform == "win32" and Path(name).is_absolute():
            folder = Path(name).parent
            os.add_dll_directory(str(folder))
            # One that is loaded is found by its bare name.
            for part in sorted(folder.glob(PARTS)):
                if ".alt." not in part.name:
                    ctypes.CDLL(str(part))
        return ctypes.CDLL(name)
    except OSError:
        return None  # not under this name
