"""Looks at files of models in a process of its own, so that the server loads nothing for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from unladen.errors import UnladenError
from unladen.hub import INCLUDED, LocalFile, parse_ref
from unladen.hub.stores.naming import own_name
from unladen.server.faults import Fault, Kind
from unladen.server.ipc import Message
from unladen.server.settings import plain_options
from unladen.server.supervisor.process import Worker

if TYPE_CHECKING:
    from unladen.server.settings import Settings
    from unladen.server.supervisor.hosted import Hosted

LOOK_FAILED: Final[Kind] = "load_failed"
"""The kind of fault where the look itself failed: another one may succeed."""
LOOK_BEATS: Final = 120
"""Seconds that looking at a file may take; a hostile one may take for ever. They are counted one by
one: where the whole machine stood still for minutes, that was one second."""


async def inspected(models: Sequence[Hosted], memory_share: float) -> list[dict[str, Any] | Fault]:
    """What the file of each model says, and whether it would fit into the memory that is free now;
    or why it can't be read: a ``Fault``, of kind ``unknown_model`` where there is no such file
    here."""
    found: dict[int, dict[str, Any] | Fault] = {}
    is_complete = asyncio.get_running_loop().create_future()

    def handle(message: Message) -> None:
        kind, content, i = message
        found[i] = content if kind == "found" else Fault.unpack(content)
        if len(found) == len(models) and not is_complete.done():
            is_complete.set_result(None)

    wanted = [[each.own.ref, plain_options(each.options)] for each in models]
    worker = await Worker.start(["inspect", wanted, memory_share], handle)
    try:
        for _ in range(LOOK_BEATS):
            done, _ = await asyncio.wait((is_complete, worker.gone), timeout=1.0,
                                         return_when=asyncio.FIRST_COMPLETED)
            if done:
                break
    finally:
        worker.kill("nobody needs it any more")
        await worker.gone
    return [found.get(i) or Fault(LOOK_FAILED, "looking at the file took too long, or ended the "
                                  "process that looked") for i in range(len(models))]


async def look(models: Sequence[Hosted], settings: Settings) -> None:
    """Learn what the files of ``models`` say, unless a file is the same as at the last look. Where
    one can't be read, the model's error says why."""
    unknown = [each for each in models if not each.is_loaded
               and (each.stamp is None or stamp_of(each.watched) != each.stamp)]
    if not unknown:
        return
    for each, facts in zip(unknown, await inspected(unknown, settings.memory_share), strict=True):
        if isinstance(facts, Fault):
            if facts.kind != "unknown_model" and not each.is_loaded:  # else it is to be downloaded
                each.fault = facts
                if facts.kind != LOOK_FAILED:
                    each.watched = each.watched or (each.ref,)
                    each.stamp = stamp_of(each.watched)
            continue
        if not each.is_loaded:  # else its worker knows better
            each.facts, each.fault = facts, None
        each.found(facts)


def is_reference(name: str) -> bool:
    """Whether ``name`` names a model of a store, and no path."""
    try:
        return name in INCLUDED or not isinstance(parse_ref(name, aliases={}), LocalFile)
    except UnladenError:
        return own_name(name) is not None  # a store or a table may have it


Stamp: TypeAlias = tuple[tuple[int, int], ...]


def stamp_of(paths: Sequence[str]) -> Stamp | None:
    """Tells whether the files ``paths`` are still the same; None: one isn't there."""
    try:
        return tuple((status.st_mtime_ns, status.st_size) for status in map(os.stat, paths))
    except OSError:
        return None
