"""Phi-4-mini: its template writes no calls; the published texts name two ways."""

from __future__ import annotations

from unladen.chat.forms import CallForm, JsonCalls
from unladen.chat.tools.base import Dialect


class Phi4Mini(Dialect):
    """``<|tool_call|>[{..}]<|/tool_call|>`` or ``functools[..]``."""

    name = "phi4_mini"
    signs = ("<|tool|>", "<|/tool|>")
    forms = (CallForm((JsonCalls(opening="[", separator=", ", closing="]"),),
                      begin="<|tool_call|>", end="<|/tool_call|>", other_begins=("functools",)),)
    stops = ("<|end|>",)
