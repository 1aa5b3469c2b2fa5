"""Finds extensions by looking: a folder of the package, plug-in folders, entry points.

There is no list to edit: a file dropped into ``quants/``, ``graph/ops/``, ``models/``,
``sample/`` or ``backends/`` is found by scanning. Two more places are scanned for strangers' code:
every folder named in ``UNLADEN_PLUGIN_PATH`` (``os.pathsep`` between them), which may hold
``quants/``, ``ops/``, ``models/``, ``sample/`` and ``backends/``; and the entry-point groups
``unladen.quants`` and so on.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoints, distributions
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from unladen.errors import InvalidArgument

PLUGIN_PATH = "UNLADEN_PLUGIN_PATH"

_T = TypeVar("_T")


def modules(package: str, kind: str) -> Iterator[ModuleType]:
    """Import and yield every extension module of ``kind``.

    ``package`` is the built-in home (``"unladen.quants"``), ``kind`` the folder name in plug-in
    folders and the last part of the entry-point group (``"quants"``). Names that start with an
    underscore and the module ``base`` are parts, not extensions.
    """
    home = importlib.import_module(package)
    for info in pkgutil.iter_modules(home.__path__):
        if not info.name.startswith("_") and info.name != "base":
            yield importlib.import_module(f"{package}.{info.name}")
    for root in os.environ.get(PLUGIN_PATH, "").split(os.pathsep):
        if root:
            yield from _plugin_folder(Path(root), kind)
    for entry in _installed(tuple(sys.path)).select(group=f"unladen.{kind}"):
        loaded = entry.load()
        if isinstance(loaded, ModuleType):
            yield loaded


def classes(package: str, kind: str, base: type[_T]) -> Iterator[type[_T]]:
    """Yield the concrete subclasses of ``base`` defined in the modules of ``kind``."""
    for module in modules(package, kind):
        for value in vars(module).values():
            if (isinstance(value, type) and issubclass(value, base) and value is not base
                    and value.__module__ == module.__name__
                    and not value.__name__.startswith("_")):
                yield value


@functools.cache
def _installed(path: tuple[str, ...]) -> EntryPoints:
    """Our groups' entry points on ``path``, each once: looking takes several milliseconds."""
    found = (entry for installed in distributions(path=list(path))
             for entry in installed.entry_points if entry.group.startswith("unladen."))
    return EntryPoints(dict.fromkeys(found))


def _plugin_folder(root: Path, kind: str) -> Iterator[ModuleType]:
    if not root.is_dir():
        raise InvalidArgument(f"{PLUGIN_PATH} names {root}, which is no folder",
                              hint="correct the path or unset the variable")
    for path in sorted((root / kind).glob("*.py")):
        if path.stem.startswith("_"):
            continue
        name = f"unladen_plugin_{kind}_{path.stem}"
        module = sys.modules.get(name)
        if module is None or module.__file__ != str(path):
            spec = importlib.util.spec_from_file_location(name, path)
            if spec is None or spec.loader is None:
                continue
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise
        yield module
