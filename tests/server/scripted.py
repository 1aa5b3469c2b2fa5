"""Models whose answers are written in the test: a core for the tests of dialects."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from unladen.server.asked import Asked, Chat, Count, Detokenize, Embed, Rank, Text, Tokenize
from unladen.server.core import PLAIN, Card, Told, Wish
from unladen.server.events import (
    Begun,
    Ended,
    Event,
    Piece,
    Prompt,
    Reason,
    Result,
    Scores,
    Tokens,
    Vectors,
)
from unladen.server.faults import Fault

CARD = Card(
    name="tiny-chat", aliases=("small",), path="/models/chat.gguf", state="ready",
    context_size=1024, trained_context=1024, n_embd=128, n_vocab=2048, n_bytes=2_600_000,
    n_parameters=2_500_000, arch="llama", quant="Q8_0", digest="0" * 64,
    can=frozenset({"chat", "complete", "embed", "rank", "tools", "reasoning"}),
    template="{{ messages }}", metadata={"general.architecture": "llama",
                                         "llama.context_length": 1024}, created=1_700_000_000)
Step = Event | Fault | float
"""An event, a fault that is raised, or seconds to wait."""


def ended(reason: Reason = "end", choice: int = 0, **more: Any) -> Ended:
    """The end of an answer of five tokens to a prompt of eleven, three of them cached."""
    whole = Ended(choice, reason, "", 11, 3, 5, 0, 0.0, 0.001, 0.01, 0.05)
    return replace(whole, **more)


def answer(*texts: str) -> list[Step]:
    """The steps of a plain answer."""
    return [Begun(11), *(Piece(0, text) for text in texts), ended()]


class ScriptedCore:
    """A core whose answers are ``script``: steps, or a function of what is asked that returns
    them. :attr:`asked` has what was asked, :attr:`n_cancelled` counts answers that were left,
    :attr:`changes` has the changes of stores, for which a number of the script is a second."""

    def __init__(self, script: Iterable[Step] | Callable[[Chat | Text], Iterable[Step]] = (),
                 cards: Sequence[Card] = (CARD,)) -> None:
        self.script = script
        self._cards = {card.name: card for card in cards}
        self.asked: list[tuple[str, Asked, Wish]] = []
        self.n_cancelled = 0
        self.changes: list[tuple[str, dict[str, str]]] = []

    def cards(self) -> Sequence[Card]:
        return [*self._cards.values()]

    async def card(self, name: str) -> Card:
        for card in self._cards.values():
            if name in ("", card.name, *card.aliases):
                return card
        raise Fault("unknown_model", f"there is no model {name!r}",
                    hint=f"there are {', '.join(self._cards)}")

    @asynccontextmanager
    async def answer(self, name: str, asked: Chat | Text, wish: Wish = PLAIN
                     ) -> AsyncIterator[AsyncIterator[Event]]:
        await self.card(name)
        self.asked.append((name, asked, wish))
        steps = [*(self.script(asked) if callable(self.script) else self.script)]
        if steps and isinstance(steps[0], Fault):
            raise steps[0]
        is_done = False

        async def events() -> AsyncIterator[Event]:
            nonlocal is_done
            for step in steps:
                if isinstance(step, Fault):
                    raise step
                if isinstance(step, float):
                    await asyncio.sleep(step)
                    continue
                yield step
            is_done = True

        try:
            yield events()
        finally:
            self.n_cancelled += not is_done

    async def result(self, name: str, asked: Asked, wish: Wish = PLAIN) -> Result:
        card = await self.card(name)
        self.asked.append((name, asked, wish))
        if isinstance(asked, Embed):
            width = asked.dimensions or card.n_embd
            rows = np.random.default_rng(0).normal(size=(len(asked.inputs), width))
            return Vectors([base64.b64encode(row.astype("<f4").tobytes()).decode()
                            for row in rows], [len(each) for each in asked.inputs])
        if isinstance(asked, Rank):
            return Scores([float(len(each)) for each in asked.documents], 7)
        if isinstance(asked, Count):
            text = "".join(f"<{m['role']}>{m.get('content') or ''}" for m in asked.chat.messages)
            return Prompt(text, len(text))
        if isinstance(asked, Tokenize):
            return Tokens([*asked.text.encode()], [*asked.text.encode().decode("latin-1")],
                          asked.text)
        assert isinstance(asked, Detokenize)
        text = bytes(asked.ids).decode(errors="replace")
        return Tokens(asked.ids, [chr(i) for i in asked.ids], text)

    async def load(self, name: str, wish: Wish = PLAIN) -> Card:
        return await self._with(name, state="ready")

    async def begin(self, name: str, wish: Wish = PLAIN) -> Card:
        return await self._with(name, state="ready", options=dict(wish.options))

    async def place(self, name: str, changes: Mapping[str, Any]) -> Card:
        return await self._with(name, options=dict(changes))

    async def unload(self, name: str) -> Card:
        return await self._with(name, state="unloaded")

    async def change(self, what: str, given: Mapping[str, str], told: Told = lambda n, total: None
                     ) -> None:
        self.changes.append((what, dict(given)))
        for step in self.script if not callable(self.script) else ():
            if isinstance(step, Fault):
                raise step
            if isinstance(step, float):
                told(step * 1000, 1000.0)
                await asyncio.sleep(step)

    async def _with(self, name: str, **changes: Any) -> Card:
        card = replace(await self.card(name), **changes)
        self._cards[card.name] = card
        return card
