"""A message of an assistant: its answer, its reasoning and the tools that it calls."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model calls."""

    name: str
    arguments: str
    """The arguments as the JSON text of an object. Where ``is_complete`` is False it breaks off."""
    id: str = ""
    """The id that the model wrote or that :mod:`unladen.chat` made; "" where there is none."""
    is_complete: bool = True

    def values(self) -> dict[str, Any]:
        """The arguments by name. Raises :class:`ValueError` where the text breaks off."""
        values: dict[str, Any] = json.loads(self.arguments)
        return values


@dataclass(frozen=True, slots=True)
class Message:
    """What a model wrote, in its parts."""

    content: str = ""
    """The answer."""
    reasoning: str = ""
    """What the model wrote for itself before the answer, without its marks."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Calls in the order in which the model wrote them."""
    not_understood: tuple[str, ...] = ()
    """Why text that looks like a call stayed in ``content``: a sentence for each such piece."""
    role: str = "assistant"
