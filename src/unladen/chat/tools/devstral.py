"""Devstral and Ministral 3: the name and JSON behind marks."""

from __future__ import annotations

from unladen.chat.forms import Arguments, CallForm, Id, Literal, Name
from unladen.chat.tools.base import Dialect


class Devstral(Dialect):
    """``[TOOL_CALLS]NAME[ARGS]{..}``, repeated."""

    name = "devstral"
    signs = ("[TOOL_CALLS]", "[ARGS]")
    forms = (CallForm(
        (Name(), Id("[CALL_ID]", is_optional=True), Literal("[ARGS]"), Arguments()),
        begin="[TOOL_CALLS]"),)
    id_length = 9
    stops = ("</s>",)
