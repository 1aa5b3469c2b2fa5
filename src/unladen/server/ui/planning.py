"""Answers ``plan`` and ``fit``: which file a name means, and which options count."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from unladen.hub import INCLUDED
from unladen.server.core import Card, Core
from unladen.server.faults import Fault
from unladen.server.settings import Settings, plain_options
from unladen.server.supervisor.looking import is_reference
from unladen.server.ui.describing import problem
from unladen.server.ui.desk import Desk
from unladen.server.ui.shapes import Fit, Fits

LOADED = frozenset({"ready", "moving"})
"""States in which a model gives back its memory when it is placed anew."""

FITTING = 2
"""Questions of ``fit`` that the desk has at a time, so that a plan doesn't wait for all of them."""


class Planning:
    """Asks ``desk`` for plans of the models of ``core``, and of those in the stores."""

    def __init__(self, core: Core, settings: Settings, desk: Desk) -> None:
        self._core, self._settings, self._desk = core, settings, desk
        self._fitting = asyncio.Semaphore(FITTING)
        self._own = {own.name: own for own in settings.models}

    async def plan(self, ref: str, options: Mapping[str, Any], devices: Sequence[str]
                   ) -> dict[str, Any]:
        """The facts of the plan that ``ref`` would get with ``options`` beside those that it has.
        ``devices``: names of devices that a plan could use."""
        path, base, taken = self._basis(ref)
        facts: dict[str, Any] = await self._desk.ask("plan", path, {**base, **options}, taken,
                                                     list(devices))
        for name in base:  # the plan was given them, the page wasn't
            if name == "context_size" and name not in options and taken:
                facts["resolved"][name]["source"] = "auto"
        return facts

    async def fit(self, refs: Sequence[str]) -> Fits:
        """Whether each of ``refs`` fits. What can't be told of one says why."""
        return Fits(files=list(await asyncio.gather(*map(self._fit, refs))))

    async def _fit(self, ref: str) -> Fit:
        found: Fit = {"ref": ref, "fits": False, "gpu_layers": 0, "n_layers": 0,
                      "decode_tps": 0.0, "prefill_tps": 0.0, "bound": "", "context_size": 0,
                      "bytes": 0, "short_bytes": 0, "error": None}
        try:
            path, base, taken = self._basis(ref)
            async with self._fitting:
                found.update(await self._desk.ask("fit", path, base, taken))
        except Fault as fault:
            found["error"] = problem(fault)
        return found

    def _basis(self, ref: str) -> tuple[str, dict[str, Any], dict[str, int]]:
        """What the worker takes for ``ref``, the options that it has, and the bytes by device that
        it gives back. Raises a ``Fault`` for a name that is no model's."""
        for card in self._core.cards():
            if ref in (card.name, *card.aliases):
                return self._of_card(card)
        if not is_reference(ref):  # paths would tell which files there are
            raise Fault("unknown_model", f"there is no model {ref[:200]!r}", param="ref",
                        hint="take a ref of the library, or one such as org/repo:Q4_K_M")
        return ref, plain_options(self._settings.any_options), {}

    def _of_card(self, card: Card) -> tuple[str, dict[str, Any], dict[str, int]]:
        own = self._own.get(card.name)
        path = card.path or (own.ref if own is not None else card.name)
        if card.name in INCLUDED:
            path = card.name
        if card.state not in LOADED or not card.plan:
            options = own.options if own is not None else self._settings.any_options
            return path, plain_options(options), {}
        options = plain_options(card.options)
        options.setdefault("context_size", card.context_size)
        return path, options, {each["name"]: each["taken_bytes"] or 0
                               for each in card.plan["devices"]}
