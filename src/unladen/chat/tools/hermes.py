"""Hermes 2 and 3, Qwen 2.5 and 3, QwQ, MiMo, Granite 4, Bielik, SmolLM3: JSON between tags."""

from __future__ import annotations

from unladen.chat.forms import CallForm, JsonCalls
from unladen.chat.tools.base import Dialect


class Hermes(Dialect):
    """``<tool_call> {"name": .., "arguments": {..}} </tool_call>``, repeated."""

    name = "hermes"
    signs = ("<tool_call>",)
    forms = (CallForm((JsonCalls(),), begin="<tool_call>\n", end="\n</tool_call>",
                      separator="\n"),)
    stops = ("<|im_end|>",)
