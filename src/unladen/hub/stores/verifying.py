"""Checks the files of a stored model against the checksums that its store knows."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from unladen.errors import ModelNotFound, UnladenError
from unladen.hub.stores._disk import printable
from unladen.hub.stores.base import StoredModel
from unladen.hub.stores.finding import listed


def stored_at(path: str | os.PathLike[str]) -> StoredModel:
    """The stored model whose file is at ``path``. Raises :class:`ModelNotFound`."""
    place = os.path.realpath(path)
    here = [m for m in listed() if place in {os.path.realpath(f) for f in m.files}]
    found = next((m for m in here if m.digests), next(iter(here), None))
    if found is None:
        raise ModelNotFound(f"no store on this machine has {printable(os.fspath(path))}",
                            hint="only stores know checksums; unladen list shows what they hold")
    return found


def verify(model: StoredModel) -> tuple[Path, ...]:
    """Read the files of ``model`` whose SHA-256 its store knows; returns them.

    Raises :class:`UnladenError` where one has another SHA-256, can't be read, or none is known.
    """
    if not model.digests:
        raise UnladenError(f"{model.store} keeps no checksum of {model.name}",
                           hint="get the model again to be sure")
    for path, digest in model.digests.items():
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise UnladenError(f"{printable(os.fspath(path))} can't be read: {error.strerror}",
                               hint="check its permissions and the disk") from error
        if found != digest:
            raise UnladenError(
                f"{printable(os.fspath(path))} is damaged: its SHA-256 is {found}, and "
                f"{model.store} says {digest}",
                hint=f"remove {model.name} and get it again")
    return tuple(model.digests)
