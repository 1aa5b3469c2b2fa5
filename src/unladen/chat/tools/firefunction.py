"""FireFunction v2: a list of JSON objects behind a word."""

from __future__ import annotations

from unladen.chat.forms import CallForm, JsonCalls
from unladen.chat.tools.base import Dialect


class FireFunction(Dialect):
    """`` functools[{"name": .., "arguments": {..}}, ..]``."""

    name = "firefunction"
    signs = ("functools[",)
    forms = (CallForm((JsonCalls(opening="[", separator=", ", closing="]"),),
                      begin=" functools"),)
    stops = ("<|eot_id|>",)
