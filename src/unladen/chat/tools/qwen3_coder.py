"""Qwen3-Coder, Qwen 3.5, Nemotron 3, StepFun 3.5: tags with the name and each argument."""

from __future__ import annotations

from unladen.chat.forms import CallForm, Literal, Name, Parameters
from unladen.chat.tools.base import Dialect


class Qwen3Coder(Dialect):
    """``<tool_call><function=NAME><parameter=KEY> VALUE </parameter></function></tool_call>``."""

    name = "qwen3_coder"
    signs = ("<tool_call>", "<function=", "<parameter=")
    forms = (CallForm(
        (Literal("<function=", is_optional=True), Name(), Literal(">\n"),
         Parameters("<parameter=", ((">\n", "raw"),), ("\n</parameter>\n",), has_lines=True)),
        begin="<tool_call>\n", end="</function>\n</tool_call>", separator="\n",
        other_begins=("<function=",)),)
    stops = ("<|im_end|>",)
