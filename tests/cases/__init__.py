"""Nodes to try every backend with: one file per op, found by scanning this folder."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from cases.base import Case

Cases = Callable[[np.random.Generator], Iterator[Case]]


@functools.cache
def registry() -> Mapping[str, Cases]:
    """The function ``cases`` of each file, by the op that the file is named after."""
    return {info.name: importlib.import_module(f"cases.{info.name}").cases
            for info in pkgutil.iter_modules(__path__)
            if info.name not in ("base", "libggml", "running")}
