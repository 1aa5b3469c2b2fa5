"""Command-R and R+: a fenced list of JSON objects behind a word."""

from __future__ import annotations

from unladen.chat.forms import CallForm, JsonCalls, Literal
from unladen.chat.tools.base import Dialect


class CommandRPlus(Dialect):
    """``Action:`` and a block of JSON with ``tool_name`` and ``parameters``."""

    name = "command_r_plus"
    signs = ("Action:", "```json", '"tool_name"')
    forms = (CallForm(
        (Literal("```json\n"),
         JsonCalls(names=("tool_name",), arguments=("parameters",), before='{"tool_name": "',
                   between='", "parameters": ', opening="[\n    ", separator=",\n    ",
                   closing="\n]")),
        begin="Action:", end="\n```"),)
    stops = ("<|END_OF_TURN_TOKEN|>",)
