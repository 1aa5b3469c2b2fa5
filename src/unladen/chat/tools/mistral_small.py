"""Mistral Small 3.2: the name, an id and JSON, each behind a mark."""

from __future__ import annotations

from unladen.chat.forms import Arguments, CallForm, Id, Literal, Name
from unladen.chat.tools.base import Dialect


class MistralSmall(Dialect):
    """``[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{..}``, repeated."""

    name = "mistral_small"
    signs = ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]")
    forms = (CallForm(
        (Name(), Id("[CALL_ID]", is_optional=True), Literal("[ARGS]"), Arguments()),
        begin="[TOOL_CALLS]"),)
    id_length = 9
    stops = ("</s>",)
