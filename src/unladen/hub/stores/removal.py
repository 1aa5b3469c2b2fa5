"""Removes models from stores."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from unladen.errors import InvalidArgument, UnladenError
from unladen.hub.stores._disk import printable, size_of
from unladen.hub.stores.base import Look, StoredModel
from unladen.hub.stores.created import N_NAME_FOLDERS, PROGRAM, made_of
from unladen.hub.stores.finding import every_called, not_stored, stores

_N_FOLDERS: Final = 8
"""Folders within one another that a removed file may leave empty."""


@dataclass(frozen=True, slots=True)
class Removed:
    """The files that were removed, and how many bytes of the disk that freed."""

    files: tuple[Path, ...]
    n_bytes: int


def remove(name: str, look: Look | None = None, *, from_other: bool = False) -> Removed:
    """Remove the model that ``name`` stands for, also one that can't be used.

    * ``look``: as in :func:`~unladen.hub.stores.find`.
    * ``from_other``: remove it even from the store of another program.

    Raises :class:`ModelNotFound` where there is none, :class:`InvalidArgument` where the name has
    several or its store belongs to another program, :class:`UnladenError` where that fails.
    """
    model = _only(name, look)
    store = stores()[model.store]
    if not store.is_ours and not from_other:
        raise InvalidArgument(
            f"{name} belongs to {model.store}: {printable(os.fspath(model.path))}",
            hint=f"remove it with {model.store}, or from its store with --from-store")
    paths = store.removed_with(model)
    if others := _needed_for(paths):
        raise InvalidArgument(f"{name} has the weights of {', '.join(others)}",
                              hint=f"remove first: unladen rm {others[0]}")
    n_bytes = sum(size_of(path) for path in paths if not path.is_symlink())
    for path in paths:
        try:
            path.unlink()
        except OSError as error:
            raise UnladenError(f"{printable(os.fspath(path))} can't be removed: {error.strerror}",
                               hint="check its folder's permissions") from error
    if model.store == PROGRAM:
        _drop_empty(paths[0].parent, N_NAME_FOLDERS)
    else:
        for folder in {path.parent for path in model.files} if store.is_ours else ():
            _drop_empty(folder, _N_FOLDERS)
    return Removed(tuple(paths), n_bytes)


def _needed_for(paths: list[Path]) -> list[str]:
    """The created models that are made of ``paths``."""
    places = {os.path.realpath(path) for path in paths}
    return sorted({name for place in places for name in made_of(place)})


def _only(name: str, look: Look | None) -> StoredModel:
    found = every_called(name, look)
    made = [m for m in found if m.store == PROGRAM]
    ours = made or [m for m in found if stores()[m.store].is_ours]
    places = {m.place: m for m in ours or found}
    if not places:
        raise not_stored(name)
    if len(places) > 1:
        raise InvalidArgument(f"{name} may be {' or '.join(m.name for m in places.values())}",
                              hint="give a longer name")
    return next(iter(places.values()))


def _drop_empty(folder: Path, n_most: int) -> None:
    """Remove ``folder`` and those around it that are empty, ``n_most`` in all."""
    with contextlib.suppress(OSError):  # one that isn't empty ends it
        for each in (folder, *folder.parents)[:n_most]:
            each.rmdir()
