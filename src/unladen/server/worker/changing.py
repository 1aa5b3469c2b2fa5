"""Changes what the stores have: copies, makes, removes and downloads models for the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unladen.errors import ModelNotFound, UnladenError
from unladen.server.faults import Fault
from unladen.server.worker.arrival import TOLD_SECONDS, Arrival
from unladen.server.worker.wrong import fault_of

if TYPE_CHECKING:
    from unladen.server.worker.link import Link


def change(link: Link, what: str, given: Mapping[str, Any]) -> None:
    """Do ``what``, a key of :data:`CHANGES`, with ``given``, and send that it is done, or the
    fault."""
    link.listen(lambda message: None)  # so that this process ends with its server
    try:
        CHANGES[what](link, given)
    except ModelNotFound as error:
        link.send([["failed", Fault("unknown_model", error.message, hint=error.hint).pack()]])
    except BaseException as error:  # noqa: BLE001  # the server tells its client why
        link.send([["failed", fault_of(error).pack()]])
    else:
        link.send([["done"]])
    link.wait()


def _copy(link: Link, given: Mapping[str, Any]) -> None:
    from unladen.api.model import look
    from unladen.hub.creating import copy
    copy(given["source"], given["name"], _here, look)


def _create(link: Link, given: Mapping[str, Any]) -> None:
    from unladen.api.model import look
    from unladen.hub.creating import create
    from unladen.hub.modelfile import parse
    create(given["name"], parse(given["modelfile"]), None, _here, look)


def _remove(link: Link, given: Mapping[str, Any]) -> None:
    from unladen.api.model import look
    from unladen.hub.stores.removal import remove
    remove(given["name"], look)


def _pull(link: Link, given: Mapping[str, Any]) -> None:
    from unladen.hub import LocalFile, parse_ref
    from unladen.hub.fetch import fetch
    from unladen.hub.short_names import meaning
    ref = parse_ref(meaning(given["name"]), aliases={})
    if isinstance(ref, LocalFile):
        raise Fault("unknown_model", f"{given['name']!r} names no model on Hugging Face",
                    hint="for example org/repo:Q4_K_M")
    fetch(ref, refresh=True, progress=_shown(link))


CHANGES: Final[Mapping[str, Callable[[Link, Mapping[str, Any]], None]]] = {
    "copy": _copy, "create": _create, "remove": _remove, "pull": _pull}
"""What can be done, by the name that it has in messages."""


def _here(text: str) -> Path:
    """The file of the model ``text``, which must be on this machine and named, not a path."""
    from unladen.hub import INCLUDED, LocalFile, parse_ref, resolve_model
    from unladen.hub.stores.naming import own_name
    try:
        is_path = text not in INCLUDED and isinstance(parse_ref(text, aliases={}), LocalFile)
    except UnladenError:  # a short name is no reference, and no path either
        is_path = own_name(text) is None
    if is_path:
        raise Fault("unknown_model", f"there is no model {text!r}",
                    hint="name a model of a store; the command unladen create takes files, too")
    return resolve_model(text, aliases=INCLUDED, offline=True)


def _shown(link: Link) -> type:
    """A class in place of tqdm that tells how far a download is."""
    class Shown(Arrival):
        """One file."""

        def update(self, n: float | None = 1) -> None:
            """``n`` more bytes have arrived."""
            self.n += n or 0
            now = time.monotonic()
            if now - getattr(self, "last", 0.0) >= TOLD_SECONDS:
                self.last = now
                link.send([["bytes", self.n, self.total or 0]])
    return Shown
