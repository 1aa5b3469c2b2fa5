"""LFM2 and 2.5: calls in Python between marks that some of the templates don't name."""

from __future__ import annotations

from unladen.chat.forms import CallForm, PythonCalls
from unladen.chat.tools.base import Dialect


class Lfm2(Dialect):
    """``<|tool_call_start|>[f(a="x", b=[1]), g()]<|tool_call_end|>``."""

    name = "lfm2"
    signs = ("List of tools: ", "<|im_start|>")
    forms = (CallForm((PythonCalls(),), begin="<|tool_call_start|>", end="<|tool_call_end|>"),)
    stops = ("<|im_end|>",)


class Lfm2Named(Lfm2):
    """The same, under a template that names the marks."""

    name = "lfm2_named"
    signs = ("<|tool_call_start|>", "<|tool_call_end|>")
