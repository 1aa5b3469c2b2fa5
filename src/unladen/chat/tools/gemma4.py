"""Gemma 4: calls in a notation of its own, with its own quotes."""

from __future__ import annotations

from unladen.chat.forms import Arguments, CallForm, Literal, Name
from unladen.chat.json_text import PYTHON, Syntax
from unladen.chat.reasoning import ReasoningMarks
from unladen.chat.tools.base import Dialect

NOTATION = Syntax(quotes=('<|"|>', '"'), escapes="", words=PYTHON.words, has_bare_keys=True,
                  comma=",", colon=":", sorts_keys=True)
"""Strings between marks, without escapes; keys without quotes, in the order of the alphabet."""


class Gemma4(Dialect):
    """``<|tool_call>call:NAME{k:<|"|>text<|"|>,n:3}<tool_call|>``."""

    name = "gemma4"
    signs = ("<|tool_call>", "<tool_call|>", '<|"|>')
    forms = (CallForm((Literal("call:"), Name(), Arguments(NOTATION)),
                      begin="<|tool_call>", end="<tool_call|>"),)
    reasoning = (ReasoningMarks("<|channel>thought\n", "\n<channel|>"),)
    stops = ("<turn|>", "<|tool_response>")
