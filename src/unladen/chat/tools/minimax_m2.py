"""MiniMax M2: ``invoke`` tags inside its own."""

from __future__ import annotations

from unladen.chat.forms import CallForm, Literal, Name, Parameters
from unladen.chat.tools.base import Dialect


class MiniMaxM2(Dialect):
    """``<minimax:tool_call><invoke name=".."><parameter name="..">V</parameter></invoke>..``."""

    name = "minimax_m2"
    signs = ("<minimax:tool_call>", "<invoke name=", "<parameter name=")
    forms = (CallForm(
        (Name(), Literal('">\n'),
         Parameters('<parameter name="', (('">', "raw"),), ("</parameter>\n",))),
        begin='<invoke name="', end="</invoke>\n",
        section_begin="<minimax:tool_call>\n", section_end="</minimax:tool_call>"),)
    stops = ("[e~[",)
