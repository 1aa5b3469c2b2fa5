"""Apriel 1.5 and 1.6: a list of JSON objects between tags; the answer ends in a mark."""

from __future__ import annotations

from unladen.chat.forms import CallForm, JsonCalls
from unladen.chat.reasoning import ReasoningMarks
from unladen.chat.tools.base import Dialect


class Apriel(Dialect):
    """``<tool_calls>[{"name": .., "arguments": {..}}]</tool_calls>``."""

    name = "apriel"
    signs = ("<tool_calls>", "[BEGIN FINAL RESPONSE]")
    forms = (CallForm((JsonCalls(opening="[", separator=", ", closing="]"),),
                      begin="<tool_calls>", end="</tool_calls>"),)
    reasoning = (ReasoningMarks("Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n"),)
    wrappers = (("[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"),)
    stops = ("<|end|>",)
