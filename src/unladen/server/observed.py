"""The models as one request sees them: what it asks is bounded, and what it gets is counted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from unladen.server.asked import Asked, Chat, Embed, Rank, Text
from unladen.server.core import PLAIN, Card, Core, Told, Wish
from unladen.server.events import Begun, Ended, Event, Prompt, Result, Scores, Vectors, Waiting
from unladen.server.faults import Fault
from unladen.server.metrics import Metrics
from unladen.server.settings import Settings
from unladen.server.visit import Visit


class Observed:
    """``core`` for the request ``visit``. Implements :class:`~unladen.server.core.Core`."""

    def __init__(self, core: Core, visit: Visit, metrics: Metrics, settings: Settings) -> None:
        self._core, self._visit, self._metrics = core, visit, metrics
        self._settings = settings

    def cards(self) -> Sequence[Card]:
        """See :class:`~unladen.server.core.Core`."""
        return self._core.cards()

    async def card(self, name: str) -> Card:
        """See :class:`~unladen.server.core.Core`."""
        return await self._core.card(name)

    @asynccontextmanager
    async def answer(self, name: str, asked: Chat | Text, wish: Wish = PLAIN
                     ) -> AsyncIterator[AsyncIterator[Event]]:
        """See :class:`~unladen.server.core.Core`. All answers of a request count together."""
        most = self._settings.max_answers
        self._visit.n_answers += max(asked.n, 1)
        if self._visit.n_answers > most:
            raise Fault("bad_request", f"a request may have {most} answers, got "
                                       f"{self._visit.n_answers}", param="n",
                        hint="make several requests; the operator can raise max_answers")
        async with self._core.answer(name, asked, wish) as events:
            self._visit.model = model = self._metrics.label(name)
            yield _Watched(events, self._visit, self._metrics, model)

    async def result(self, name: str, asked: Asked, wish: Wish = PLAIN) -> Result:
        """See :class:`~unladen.server.core.Core`."""
        most = self._settings.max_inputs
        n = (len(asked.inputs) if isinstance(asked, Embed) else
             len(asked.documents) if isinstance(asked, Rank) else 0)
        if n > most:
            raise Fault("bad_request", f"a request may have {most} texts, got {n}",
                        param="input" if isinstance(asked, Embed) else "documents",
                        hint="make several requests; the operator can raise max_inputs")
        found = await self._core.result(name, asked, wish)
        self._visit.model = model = self._metrics.label(name)
        n_tokens = (sum(found.n_tokens) if isinstance(found, Vectors) else
                    found.n_tokens if isinstance(found, Scores | Prompt) else 0)
        self._visit.n_prompt += n_tokens
        if not isinstance(found, Prompt):
            self._metrics.computed(model, n_tokens)
        return found

    async def load(self, name: str, wish: Wish = PLAIN) -> Card:
        """See :class:`~unladen.server.core.Core`."""
        card = await self._core.load(name, wish)
        self._visit.model = card.name
        return card

    async def begin(self, name: str, wish: Wish = PLAIN) -> Card:
        """See :class:`~unladen.server.core.Core`."""
        card = await self._core.begin(name, wish)
        self._visit.model = card.name
        return card

    async def place(self, name: str, changes: Mapping[str, Any]) -> Card:
        """See :class:`~unladen.server.core.Core`."""
        card = await self._core.place(name, changes)
        self._visit.model = card.name
        return card

    async def unload(self, name: str) -> Card:
        """See :class:`~unladen.server.core.Core`."""
        card = await self._core.unload(name)
        self._visit.model = card.name
        return card

    async def change(self, what: str, given: Mapping[str, str], told: Told = lambda n, total: None
                     ) -> None:
        """See :class:`~unladen.server.core.Core`."""
        await self._core.change(what, given, told)


class _Watched:
    """``events``, counted as they pass."""

    __slots__ = ("_events", "_has_begun", "_metrics", "_model", "_visit")

    def __init__(self, events: AsyncIterator[Event], visit: Visit, metrics: Metrics, model: str
                 ) -> None:
        self._events, self._visit, self._metrics, self._model = events, visit, metrics, model
        self._has_begun = False

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Event:
        event = await anext(self._events)
        if isinstance(event, Begun):
            self._visit.n_truncated += event.n_truncated
            self._visit.notes = [*dict.fromkeys((*self._visit.notes, *event.notes))]
        elif isinstance(event, Ended):
            self._end(event)
        elif not self._has_begun and not isinstance(event, Waiting):
            self._has_begun = True
            seconds = self._visit.seconds
            self._metrics.first(self._model, seconds)
            if self._visit.first_s is None:
                self._visit.first_s = seconds
        return event

    def _end(self, event: Ended) -> None:
        visit = self._visit
        self._metrics.ended(self._model, event)
        # The answers of one request share their prompt, which the audit shows once.
        visit.n_prompt = max(visit.n_prompt, event.n_prompt)
        visit.n_cached = max(visit.n_cached, event.n_cached)
        visit.n_completion += event.n_completion
        for name in ("wait_s", "load_s", "prompt_s", "completion_s"):
            setattr(visit, name, max(getattr(visit, name), getattr(event, name)))
