"""Finds extensions by scanning: a folder of the package, plug-in folders, entry points.

There is no list to edit: a file in ``quants/``, ``graph/ops/``, ``models/``, ``sample/``,
``chat/tools/``, ``chat/formats/``, ``hub/stores/`` or ``backends/`` is found by scanning. Two more
places are scanned for plug-ins: every folder named in ``UNLADEN_PLUGIN_PATH`` (``os.pathsep``
between them), which may have folders ``quants/``, ``ops/``, ``models/``, ``sample/``,
``backends/``, ``dialects/`` (how models write tool calls), ``formats/`` (chat formats by name),
``stores/`` (models that other programs keep) and ``lowering/`` (an op's dispatches on GPUs; their
kernel texts are in ``wgsl/`` and ``c/``); and the entry-point groups ``unladen.quants`` and so on.

A plug-in that can't be used is left out, with one warning that names it and says why; the others
are used. A fault in the package's own modules is an error.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
import logging
import os
import pkgutil
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLUGIN_PATH = "UNLADEN_PLUGIN_PATH"
"""The environment variable that names the plug-in folders."""
PLUGIN_PREFIX = "unladen_plugin_"
"""The name of a plug-in's module begins with this, followed by its kind and the file's name."""

_PACKAGE = "__init__.py"
"""A folder with this file is one plug-in."""

log = logging.getLogger("unladen")

_T = TypeVar("_T")


class LeftOut(NamedTuple):
    """A plug-in that isn't used: ``where`` it was found, and ``why`` it was left out."""

    where: str
    why: str


@dataclass(slots=True)
class Found(Generic[_T]):
    """The extensions of one kind: ``entries`` by name, and the plug-ins that were left out."""

    entries: dict[Hashable, _T] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    def leave_out(self, where: str, why: str) -> None:
        """Report a plug-in that isn't used."""
        self.left_out.append(LeftOut(where, why))
        log.warning("plug-in left out: %s: %s (hint: correct or remove it; unladen doctor lists "
                    "what is left out)", where, why)

    def add(self, module: ModuleType, entries: Callable[[ModuleType], Iterable[tuple[Hashable, _T]]]
            ) -> None:
        """Add the extensions that ``entries`` finds in ``module``. A plug-in that fails or has a
        name that is taken is left out as a whole; an error in the package's own module is raised.
        """
        if not is_plugin(module):
            self.entries.update(entries(module))
            return
        try:
            with contextlib.redirect_stdout(sys.stderr):
                new = dict(entries(module))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plug-in may raise anything
            self.leave_out(place_of(module), reason(error))
            return
        taken = [str(name) for name in new if name in self.entries]
        if taken:
            self.leave_out(place_of(module), f"the name {', '.join(taken)} is taken already")
        elif not new:
            self.leave_out(place_of(module), "it defines nothing that can be used")
        else:
            self.entries.update(new)

    def named(self) -> Mapping[str, _T]:
        """The entries that have a string as their name."""
        return {name: entry for name, entry in self.entries.items() if isinstance(name, str)}


def search(package: str, kind: str, entries: Callable[[ModuleType], Iterable[tuple[Hashable, _T]]],
           ) -> Found[_T]:
    """Every extension of ``kind`` by name. ``entries`` finds the extensions in a module. A plug-in
    can't replace a name of the package."""
    found: Found[_T] = Found()
    for module in modules(package, kind, report=found.leave_out):
        found.add(module, entries)
    return found


def by_class(base: type[_T], names: Callable[[type[_T]], Iterable[Hashable]]
             ) -> Callable[[ModuleType], Iterator[tuple[Hashable, type[_T]]]]:
    """An ``entries`` for :func:`search`: the concrete subclasses of ``base`` that a module defines,
    each under all of its ``names``."""
    def entries(module: ModuleType) -> Iterator[tuple[Hashable, type[_T]]]:
        for cls in classes_in(module, base):
            if inspect.isabstract(cls):
                missing = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
                raise TypeError(f"{cls.__name__} has no {missing}")
            yield from ((name, cls) for name in names(cls))
    return entries


def modules(package: str, kind: str, only: str | None = None, *,
            report: Callable[[str, str], None] | None = None) -> Iterator[ModuleType]:
    """Import and yield every extension module of ``kind``.

    ``package`` is the package's own folder (``"unladen.quants"``), ``kind`` the folder name in
    plug-in folders and the last part of the entry-point group (``"quants"``). Modules whose name
    starts with an underscore, and the module ``base``, aren't extensions. ``only``: import only the
    module of this name from the package. ``report`` is called with the place of a plug-in that
    can't be imported, and the reason; None logs a warning.
    """
    report = Found[ModuleType]().leave_out if report is None else report
    home = importlib.import_module(package)
    for info in pkgutil.iter_modules(home.__path__):
        if (not info.name.startswith("_") and info.name != "base"
                and only in (None, info.name)):
            yield importlib.import_module(f"{package}.{info.name}")
    for root in os.environ.get(PLUGIN_PATH, "").split(os.pathsep):
        if root and not os.path.isdir(root):
            report(root, f"{PLUGIN_PATH} names it, and it isn't a folder")
    for folder in plugin_folders(kind):
        for path in sorted([*folder.glob("*.py"), *folder.glob(f"*/{_PACKAGE}")]):
            if not _stem(path).startswith("_"):
                yield from _imported(functools.partial(_from_file, path, kind), str(path), report)
    for entry in _installed(tuple(sys.path)):
        if entry.group == f"unladen.{kind}":
            yield from _imported(entry.load, f"entry point {entry.group}: {entry.value}", report)


def _stem(path: Path) -> str:
    """The name of a plug-in's file without its suffix, or that of the folder for a package."""
    return path.parent.name if path.name == _PACKAGE else path.stem


def plugin_folders(kind: str) -> list[Path]:
    """The folders called ``kind`` in plug-in folders."""
    roots = [Path(root) for root in os.environ.get(PLUGIN_PATH, "").split(os.pathsep) if root]
    return [root / kind for root in roots if (root / kind).is_dir()]


def is_plugin(module: ModuleType) -> bool:
    """Whether ``module`` is a plug-in."""
    return module.__name__.partition(".")[0] != "unladen"


def name_of(module: ModuleType) -> str:
    """The module's own name, without the prefix that makes a plug-in's name unique."""
    name = module.__name__.rpartition(".")[2]
    if name.startswith(PLUGIN_PREFIX):
        return name.removeprefix(PLUGIN_PREFIX).partition("_")[2]
    return name


def place_of(module: ModuleType) -> str:
    """Where ``module`` is, for messages."""
    return getattr(module, "__file__", None) or module.__name__


def reason(error: BaseException) -> str:
    """``error`` in one line."""
    if isinstance(error, SyntaxError):
        where = f" in line {error.lineno}" if error.lineno else ""
        return f"{type(error).__name__}{where}: {error.msg}"
    try:
        text = " ".join(str(error).split())[:200]
    except Exception as worse:  # noqa: BLE001 - a plug-in's exception may have no message
        text = f"its text isn't available ({type(worse).__name__})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def classes(package: str, kind: str, base: type[_T]) -> Iterator[type[_T]]:
    """Yield the concrete subclasses of ``base`` defined in the modules of ``kind``."""
    for module in modules(package, kind):
        yield from classes_in(module, base)


def classes_in(module: ModuleType, base: type[_T]) -> Iterator[type[_T]]:
    """The subclasses of ``base`` that ``module`` itself defines under a public name."""
    for value in vars(module).values():
        if (isinstance(value, type) and issubclass(value, base) and value is not base
                and value.__module__ == module.__name__
                and not value.__name__.startswith("_")):
            yield value


@functools.cache
def _installed(path: tuple[str, ...]) -> Sequence[EntryPoint]:
    """The entry points in groups of this package on ``path``, each once."""
    if not any(map(_may_have_ours, path)) and not _others_find():
        return ()
    from importlib.metadata import distributions
    found: dict[EntryPoint, None] = {}
    for installed in distributions(path=list(path)):
        try:
            found |= dict.fromkeys(entry for entry in installed.entry_points
                                   if entry.group.startswith("unladen."))
        except Exception as error:  # noqa: BLE001 - any package may have written the file
            Found[None]().leave_out(f"entry_points.txt of {installed.locate_file('')}",
                                    reason(error))
    return tuple(found)


def _may_have_ours(folder: str) -> bool:
    """Whether packages installed in ``folder`` may have entry points for this package. Few do, and
    importing importlib.metadata for an exact answer takes 10 ms."""
    root = Path(folder)
    if not root.is_dir() or root.suffix == ".egg":
        return root.exists()
    return any(b"[unladen." in _bytes_of(file)
               for kind in ("dist", "egg") for file in root.glob(f"*.{kind}-info/entry_points.txt"))


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""  # a file that can't be read can't name an entry point


def _others_find() -> bool:
    """Whether an import hook is registered that may find installed packages outside folders."""
    return any(hasattr(finder, "find_distributions") for finder in sys.meta_path
               if not getattr(finder, "__module__", "").startswith("_frozen_importlib"))


def _imported(load: Callable[[], object], where: str, report: Callable[[str, str], None]
              ) -> Iterator[ModuleType]:
    """Yield the plug-in module that ``load`` imports, or nothing where that fails. Its output
    during the import goes to stderr."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            loaded = load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plug-in may raise anything
        report(where, reason(error))
        return
    if isinstance(loaded, ModuleType):
        yield loaded
    else:
        report(where, f"it is a {type(loaded).__name__}, not a module")


def _from_file(path: Path, kind: str) -> ModuleType:
    name = f"{PLUGIN_PREFIX}{kind}_{_stem(path)}"
    module = sys.modules.get(name)
    if module is not None and module.__file__ == str(path):
        return module
    inside = [str(path.parent)] if path.name == _PACKAGE else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=inside)
    if spec is None or spec.loader is None:
        raise ImportError("Python can't import a file of this type")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
