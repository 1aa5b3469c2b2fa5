"""Apertus: a list of JSON objects whose only key is the tool's name."""

from __future__ import annotations

from unladen.chat.forms import CallForm, JsonCalls
from unladen.chat.tools.base import Dialect


class Apertus(Dialect):
    """``<|tools_prefix|>[{"NAME": {..}}]<|tools_suffix|>``."""

    name = "apertus"
    signs = ("<|tools_prefix|>", "<|tools_suffix|>")
    forms = (CallForm(
        (JsonCalls(name_is_key=True, before='{"', between='": ', opening="[", separator=", ",
                   closing="]"),),
        begin="<|tools_prefix|>", end="<|tools_suffix|>"),)
    stops = ("<|assistant_end|>",)
