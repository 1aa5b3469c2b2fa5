"""MiniCPM5: ``function`` tags; values with markup stand in CDATA."""

from __future__ import annotations

from unladen.chat.forms import CallForm, Literal, Name, Parameters
from unladen.chat.tools.base import Dialect


class MiniCpm5(Dialect):
    """``<function name=".."><param name=".."><![CDATA[..]]></param></function>``."""

    name = "minicpm5"
    signs = ('<function name="', '<param name="', "<![CDATA[")
    forms = (CallForm(
        (Name(), Literal('">'),
         Parameters('<param name="', (('">', "raw"),), ("</param>",), has_cdata=True,
                    has_reprs=True)),
        begin='<function name="', end="</function>", separator="\n"),)
    stops = ("<|im_end|>",)
