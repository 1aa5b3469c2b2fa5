"""Command-R7B and Cohere2: a list of JSON objects; the answer stands between marks, too."""

from __future__ import annotations

from unladen.chat.forms import CallForm, JsonCalls
from unladen.chat.tools.base import Dialect


class CommandR7b(Dialect):
    """``<|START_ACTION|>[{"tool_call_id": "0", "tool_name": .., "parameters": {..}}]..``."""

    name = "command_r7b"
    signs = ("<|START_ACTION|>", "<|END_ACTION|>")
    forms = (CallForm(
        (JsonCalls(names=("tool_name",), arguments=("parameters",), ids=("tool_call_id",),
                   before='{"tool_call_id": "0", "tool_name": "', between='", "parameters": ',
                   opening="[\n    ", separator=",\n    ", closing="\n]"),),
        begin="<|START_ACTION|>", end="<|END_ACTION|>"),)
    wrappers = (("<|START_RESPONSE|>", "<|END_RESPONSE|>"),)
    stops = ("<|END_OF_TURN_TOKEN|>",)
