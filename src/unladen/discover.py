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
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from unladen.errors import InvalidArgument

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLUGIN_PATH = "UNLADEN_PLUGIN_PATH"

_T = TypeVar("_T")


def modules(package: str, kind: str, only: str | None = None) -> Iterator[ModuleType]:
    """Import and yield every extension module of ``kind``.

    ``package`` is the built-in home (``"unladen.quants"``), ``kind`` the folder name in plug-in
    folders and the last part of the entry-point group (``"quants"``). Names that start with an
    underscore and the module ``base`` are parts, not extensions. ``only``: of those in the package,
    the one of this name.
    """
    home = importlib.import_module(package)
    for info in pkgutil.iter_modules(home.__path__):
        if (not info.name.startswith("_") and info.name != "base"
                and only in (None, info.name)):
            yield importlib.import_module(f"{package}.{info.name}")
    for root in os.environ.get(PLUGIN_PATH, "").split(os.pathsep):
        if root:
            yield from _plugin_folder(Path(root), kind)
    for entry in _installed(tuple(sys.path)):
        loaded = entry.load() if entry.group == f"unladen.{kind}" else None
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
def _installed(path: tuple[str, ...]) -> Sequence[EntryPoint]:
    """Our groups' entry points on ``path``, each once."""
    if not any(map(_may_have_ours, path)) and not _others_find():
        return ()
    from importlib.metadata import distributions
    found = (entry for installed in distributions(path=list(path))
             for entry in installed.entry_points if entry.group.startswith("unladen."))
    return tuple(dict.fromkeys(found))


def _may_have_ours(folder: str) -> bool:
    """Whether what is installed in ``folder`` may have entry points for us. importlib.metadata
    knows, but takes 10 ms to begin with, and most have none."""
    root = Path(folder)
    if not root.is_dir() or root.suffix == ".egg":
        return root.exists()
    return any(b"[unladen." in file.read_bytes()
               for kind in ("dist", "egg") for file in root.glob(f"*.{kind}-info/entry_points.txt"))


def _others_find() -> bool:
    """Whether somebody has added a finder of installed packages that aren't in folders."""
    return any(hasattr(finder, "find_distributions") for finder in sys.meta_path
               if not getattr(finder, "__module__", "").startswith("_frozen_importlib"))


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
