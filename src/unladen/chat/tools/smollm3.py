"""SmolLM3: its template leaves the description of calls to the caller's system message."""

from __future__ import annotations

from unladen.chat.forms import CallForm, JsonCalls
from unladen.chat.tools.base import Dialect


class SmolLM3(Dialect):
    """``<tool_call>{"name": .., "arguments": {..}}</tool_call>``, without line breaks."""

    name = "smollm3"
    signs = ("SmolLM", "/no_think")
    forms = (CallForm((JsonCalls(),), begin="<tool_call>", end="</tool_call>",
                      separator="\n"),)
    stops = ("<|im_end|>",)
