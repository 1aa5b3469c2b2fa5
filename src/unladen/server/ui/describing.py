"""Models as the page shows them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from unladen.server.core import Card
from unladen.server.faults import Fault
from unladen.server.ui.shapes import ChatAbilities, ModelState, Problem, Progress

PATHS: Final = frozenset({"tokenizer", "packed_cache"})
"""Options that name files of the server."""


def problem(fault: Fault) -> Problem:
    """``fault`` as the page shows it."""
    return Problem(code=fault.kind, message=fault.message, hint=fault.hint, param=fault.param)


def model_state(card: Card) -> ModelState:
    """A model's state."""
    return ModelState(
        id=card.name, aliases=list(card.aliases), ref=card.name, state=card.state,
        progress=_progress(card), error=None if card.fault is None else problem(card.fault),
        context_size=card.context_size, trained_context=card.trained_context, bytes=card.n_bytes,
        parameters=card.n_parameters, arch=card.arch, quant=card.quant, can=sorted(card.can),
        chat=ChatAbilities(thinking="reasoning" in card.can, tools="tools" in card.can, media=[]),
        options=shown_options(card.options),
        device_bytes=dict(card.device_bytes), running=card.running, waiting=card.waiting,
        expires=card.expires, arrived=card.n_arrivals)


def _progress(card: Card) -> Progress | None:
    if card.state == "moving":
        return Progress(phase="move", done=0, total=0)
    if card.state not in ("loading", "restarting"):
        return None
    return Progress(phase="weights" if card.total_bytes else "start", done=card.done_bytes,
                    total=card.total_bytes)


def shown_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` as the page may see them: it sees no folders of the server."""
    return {name: PurePath(value).name if name in PATHS and isinstance(value, str | PurePath)
            else value for name, value in options.items()}
