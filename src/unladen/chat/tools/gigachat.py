"""GigaChat 3 and 3.1: one call, as a message of its own."""

from __future__ import annotations

from unladen.chat.forms import CallForm, JsonCalls
from unladen.chat.tools.base import Dialect


class GigaChat(Dialect):
    """``<|message_sep|> function call<|role_sep|> {..}`` or ``<|function_call|>{..}``."""

    name = "gigachat"
    signs = ("<|message_sep|>", "function call", "<|role_sep|>")
    forms = (CallForm((JsonCalls(),), begin="<|message_sep|>\n\nfunction call<|role_sep|>\n",
                      other_begins=("function call<|role_sep|>", "<|function_call|>")),)
    stops = ("<|message_sep|>",)


class GigaChat31(Dialect):
    """``<|function_call|>{..}``."""

    name = "gigachat_3_1"
    signs = ("<|function_call|>", "<|role_sep|>")
    forms = (CallForm((JsonCalls(),), begin="<|function_call|>"),)
    stops = ("<|message_sep|>",)
