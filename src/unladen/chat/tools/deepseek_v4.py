"""DeepSeek V4: as V3.2, with another mark around the calls."""

from __future__ import annotations

from dataclasses import replace

from unladen.chat.tools.deepseek_v3_2 import DeepSeekV32


class DeepSeekV4(DeepSeekV32):
    """``<｜DSML｜invoke name=".."><｜DSML｜parameter name=".." string="true">..`` between marks."""

    name = "deepseek_v4"
    signs = ("｜DSML｜", "tool_calls")
    forms = (replace(DeepSeekV32.forms[0], section_begin="<｜DSML｜tool_calls>\n",
                     section_end="</｜DSML｜tool_calls>"),)
