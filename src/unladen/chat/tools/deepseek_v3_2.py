"""DeepSeek V3.2: DSML tags; an attribute says whether a value is a string."""

from __future__ import annotations

from unladen.chat.forms import CallForm, Literal, Name, Parameters
from unladen.chat.tools.base import Dialect


class DeepSeekV32(Dialect):
    """``<｜DSML｜invoke name=".."><｜DSML｜parameter name=".." string="true">..`` between marks."""

    name = "deepseek_v3_2"
    signs = ("｜DSML｜", "function_calls")
    forms = (CallForm(
        (Name(), Literal('">\n'),
         Parameters('<｜DSML｜parameter name="',
                    (('" string="true">', "string"), ('" string="false">', "json"),
                     ('">', "raw")), ("</｜DSML｜parameter>\n",))),
        begin='<｜DSML｜invoke name="', end="</｜DSML｜invoke>\n",
        section_begin="<｜DSML｜function_calls>\n", section_end="</｜DSML｜function_calls>"),)
    stops = ("<｜end▁of▁sentence｜>",)
