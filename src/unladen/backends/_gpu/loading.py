"""Loads drivers' libraries."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence


def load_library(names: Sequence[str], *functions: str) -> ctypes.CDLL | None:
    """The first library of these ``names`` that can be loaded and has all ``functions``."""
    for name in names:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue  # not under this name
        if all(hasattr(library, function) for function in functions):
            return library
    return None
