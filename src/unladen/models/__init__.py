"""Architectures: one file per ``general.architecture``, found by scanning this folder."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from collections.abc import Mapping

from unladen.discover import PLUGIN_PATH, Found, by_class, search
from unladen.errors import UnsupportedModel
from unladen.gguf import GGUFFile, HParams
from unladen.models._parts.base import Architecture

__all__ = ["Architecture", "load_architecture", "registry"]


OTHER_FILES: Mapping[str, str] = {
    "mmproj": "a projector for images or sounds (mmproj)", "adapter": "an adapter (LoRA)",
    "imatrix": "an importance matrix"}
"""Kinds of GGUF files that aren't models, by their ``general.type``, for the error that refuses
them."""


@functools.cache
def found() -> Found[type[Architecture]]:
    """Every implemented architecture by ``general.architecture``."""
    return search("unladen.models", "models",
                  by_class(Architecture, lambda c: (str(c.arch),)))


@functools.cache
def registry() -> Mapping[str, type[Architecture]]:
    """Every implemented architecture by ``general.architecture``."""
    return found().named()


def named(arch: str) -> type[Architecture] | None:
    """The architecture ``arch``; None where there is none. Without plug-in folders only the file of
    that name is imported. With plug-in folders the whole registry is searched, because it reports
    a plug-in that has the same name."""
    name = arch.replace("-", "_")
    if (not name.isidentifier() or name.startswith("_") or os.environ.get(PLUGIN_PATH)
            or importlib.util.find_spec(f"{__name__}.{name}") is None):
        return None
    found = vars(importlib.import_module(f"{__name__}.{name}")).values()
    return next((c for c in found if isinstance(c, type) and issubclass(c, Architecture)
                 and c.__module__ == f"{__name__}.{name}" and c.arch == arch), None)


def load_architecture(file: GGUFFile) -> Architecture:
    """The architecture of ``file``. Its constructor checks the file. Raises
    :class:`UnsupportedModel`."""
    hparams = HParams(file.metadata, path=str(file.path))
    kind = file.metadata.get("general.type")
    if what := OTHER_FILES.get(kind if isinstance(kind, str) else "") or (
            OTHER_FILES["mmproj"] if hparams.arch == "clip" else ""):
        raise UnsupportedModel(f"{file.path} is {what}, not a language model", arch=hparams.arch,
                               hint="give the file of the model that it belongs to")
    architecture = named(hparams.arch)
    if architecture is not None:
        return architecture(file, hparams)
    known = registry()
    if hparams.arch not in known:
        raise UnsupportedModel(f"{file.path}: the architecture {hparams.arch!r} isn't implemented",
                               arch=hparams.arch, hint="known: " + ", ".join(sorted(known)))
    return known[hparams.arch](file, hparams)
