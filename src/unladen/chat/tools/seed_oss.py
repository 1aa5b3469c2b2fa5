"""Seed-OSS: the tags of Qwen3-Coder inside its own, without line breaks around values."""

from __future__ import annotations

from unladen.chat.forms import CallForm, Literal, Name, Parameters
from unladen.chat.tools.base import Dialect


class SeedOss(Dialect):
    """``<seed:tool_call><function=NAME><parameter=KEY>VALUE</parameter></function>..``."""

    name = "seed_oss"
    signs = ("<seed:tool_call>", "<function=", "<parameter=")
    forms = (CallForm(
        (Literal("<function=", is_optional=True), Name(), Literal(">\n"),
         Parameters("<parameter=", ((">", "raw"),), ("</parameter>\n",),
                    has_reprs=True)),
        begin="<seed:tool_call>\n", end="</function>\n</seed:tool_call>", separator="\n",
        other_begins=("<function=",)),)
    stops = ("<seed:eos>",)
