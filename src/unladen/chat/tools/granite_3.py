"""Granite 3: a list of JSON objects behind a mark that only its system text names."""

from __future__ import annotations

from unladen.chat.forms import CallForm, JsonCalls
from unladen.chat.tools.base import Dialect


class Granite3(Dialect):
    """``<|tool_call|>[{"name": .., "arguments": {..}}]``; the answer may stand between tags."""

    name = "granite_3"
    signs = ("<|tool_call|>", "<|start_of_role|>")
    forms = (CallForm((JsonCalls(opening="[", separator=", ", closing="]"),),
                      begin="<|tool_call|>", other_begins=("<tool_call>",)),)
    wrappers = (("<response>", "</response>"),)
    stops = ("<|end_of_text|>",)
