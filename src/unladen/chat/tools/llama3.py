"""Llama 3.1 to 3.3: the whole answer is a JSON object; built-in tools are called in Python."""

from __future__ import annotations

from unladen.chat.forms import CallForm, JsonCalls, PythonTag
from unladen.chat.tools.base import Dialect


class Llama3(Dialect):
    """``{"name": .., "parameters": {..}}`` or ``<|python_tag|>NAME.call(key="v")``."""

    name = "llama3"
    signs = ('"parameters": ', "<|eot_id|>", "ipython")
    forms = (CallForm((JsonCalls(between='", "parameters": '),), separator=";",
                      needs_offered=True),
             CallForm((PythonTag(),), begin="<|python_tag|>"))
    stops = ("<|eot_id|>", "<|eom_id|>")
