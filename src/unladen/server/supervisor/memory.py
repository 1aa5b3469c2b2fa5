"""Decides which models are in memory together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from unladen.server.faults import Fault
from unladen.server.supervisor.looking import inspected

if TYPE_CHECKING:
    from unladen.server.settings import Settings
    from unladen.server.supervisor.hosted import Hosted

log = logging.getLogger("unladen.server")

ENOUGH_CONTEXT: Final = 8192
"""Tokens of context with which a model may load beside others, though alone it would have more: a
few long documents."""


class Memory:
    """Makes room for models. ``loaded()`` gives those that are in memory or about to be."""

    def __init__(self, settings: Settings, loaded: Callable[[], list[Hosted]]) -> None:
        self._settings, self._loaded = settings, loaded
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def room(self, hosted: Hosted) -> AsyncIterator[None]:
        """While the context is entered, ``hosted`` can be loaded, and no other model is. Models
        that weren't used for the longest time are unloaded for it, once their requests have ended.
        Raises the ``Fault`` that its file can't be loaded."""
        async with self._turn:
            while others := self._others(hosted):
                most = self._settings.max_loaded
                if (most is None or len(others) < most) and await self._fits(hosted):
                    break
                oldest = min(others, key=lambda each: (bool(each.queue), each.used))
                log.info("%s makes room for %s", oldest.own.name, hosted.own.name)
                oldest.n_evictions += 1
                await oldest.retire(f"{hosted.own.name} needs the memory")
            yield

    def _others(self, hosted: Hosted) -> list[Hosted]:
        """Models that hold memory, without those that wait for their turn here."""
        return [each for each in self._loaded() if each is not hosted and each.worker is not None]

    async def _fits(self, hosted: Hosted) -> bool:
        facts, = await inspected([hosted], self._settings.memory_share)
        if isinstance(facts, Fault):
            if facts.kind == "unknown_model":
                return True  # it is downloaded first; nothing is known of its size
            raise facts
        return bool(facts["fits"]) and _has_context(hosted.options, facts)


def _has_context(options: dict[str, Any], facts: dict[str, Any]) -> bool:
    """Whether the plan leaves a context that is worth loading the model for beside others."""
    if options.get("context_size") is not None:
        return True
    has: int = facts["context_size"]
    trained: int = facts["trained_context"]
    return has >= min(trained, ENOUGH_CONTEXT)
