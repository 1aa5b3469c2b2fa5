"""Functionary 3.1: JSON inside a tag with the name; Python code behind a mark."""

from __future__ import annotations

from unladen.chat.forms import Arguments, CallForm, Literal, Name, PythonTag
from unladen.chat.tools.base import Dialect


class Functionary31(Dialect):
    """``<function=NAME>{..}</function>``, repeated; ``<|python_tag|>`` and code."""

    name = "functionary_3_1"
    signs = ("<function=", "</function>", "<|python_tag|>")
    forms = (CallForm((Name(), Literal(">"), Arguments()), begin="<function=",
                      end="</function>"),
             CallForm((PythonTag("python"),), begin="<|python_tag|>"))
    stops = ("<|eot_id|>", "<|eom_id|>")
