"""Nemotron Nano v2: a list of JSON objects between tags."""

from __future__ import annotations

from unladen.chat.forms import CallForm, JsonCalls
from unladen.chat.tools.base import Dialect


class NemotronNanoV2(Dialect):
    """``<TOOLCALL>[{..}]</TOOLCALL>``."""

    name = "nemotron_nano_v2"
    signs = ("<TOOLCALL>",)
    forms = (CallForm((JsonCalls(opening="[", separator=", ", closing="]"),),
                      begin="<TOOLCALL>", end="</TOOLCALL>"),)
    stops = ("<SPECIAL_12>",)
