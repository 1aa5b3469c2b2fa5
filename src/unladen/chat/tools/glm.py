"""GLM 4.5 to 4.7: the name, then pairs of keys and values."""

from __future__ import annotations

from unladen.chat.forms import CallForm, Literal, Name, Parameters
from unladen.chat.tools.base import Dialect


class Glm(Dialect):
    """``<tool_call>NAME<arg_key>K</arg_key><arg_value>V</arg_value>..</tool_call>``."""

    name = "glm"
    signs = ("<tool_call>", "<arg_key>", "<arg_value>")
    forms = (CallForm(
        (Name(), Literal("\n"),
         Parameters("<arg_key>", (("</arg_key>\n<arg_value>", "raw"),), ("</arg_value>\n",))),
        begin="<tool_call>", end="</tool_call>", separator="\n"),)
    stops = ("<|endoftext|>", "<|user|>", "<|observation|>")
