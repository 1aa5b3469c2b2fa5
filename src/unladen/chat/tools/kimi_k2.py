"""Kimi K2: the id holds the name and the number of the call."""

from __future__ import annotations

from unladen.chat.forms import Arguments, CallForm, IdWithName, Literal
from unladen.chat.tools.base import Dialect


class KimiK2(Dialect):
    """``<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{..}<|tool_call_end|>``."""

    name = "kimi_k2"
    signs = ("<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>")
    forms = (CallForm(
        (IdWithName(), Literal("<|tool_call_argument_begin|>"), Arguments()),
        begin="<|tool_call_begin|>", end="<|tool_call_end|>",
        section_begin="<|tool_calls_section_begin|>", section_end="<|tool_calls_section_end|>"),)
    stops = ("<|im_end|>",)
