"""Mistral Nemo and older: a list of JSON objects; ids have nine characters."""

from __future__ import annotations

from unladen.chat.forms import ID_HERE, CallForm, JsonCalls
from unladen.chat.tools.base import Dialect


class MistralNemo(Dialect):
    """``[TOOL_CALLS][{"name": .., "arguments": {..}, "id": ".."}, ..]``."""

    name = "mistral_nemo"
    signs = ("[TOOL_CALLS]",)
    forms = (CallForm((JsonCalls(id_comes_last=True, after=f', "id": "{ID_HERE}"}}', opening="[",
                                 separator=", ", closing="]"),), begin="[TOOL_CALLS]"),)
    id_length = 9
    stops = ("</s>",)
