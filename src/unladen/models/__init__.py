"""Architectures: one file per ``general.architecture``, found by scanning this folder."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from unladen.discover import classes
from unladen.errors import UnsupportedModel
from unladen.gguf import GGUFFile, HParams
from unladen.models._parts.base import Architecture

__all__ = ["Architecture", "load_architecture", "registry"]


@functools.cache
def registry() -> Mapping[str, type[Architecture]]:
    """Every implemented architecture by ``general.architecture``."""
    return {c.arch: c for c in classes("unladen.models", "models", Architecture)}


def load_architecture(file: GGUFFile) -> Architecture:
    """The architecture of ``file``, checked; raises :class:`UnsupportedModel`."""
    hparams = HParams(file.metadata, path=str(file.path))
    known = registry()
    if hparams.arch not in known:
        raise UnsupportedModel(f"{file.path}: the architecture {hparams.arch!r} isn't implemented",
                               arch=hparams.arch, hint="known: " + ", ".join(sorted(known)))
    return known[hparams.arch](file, hparams)
