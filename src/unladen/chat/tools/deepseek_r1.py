"""DeepSeek R1, V3 and the distilled models: a type, the name, and a fenced block of JSON."""

from __future__ import annotations

from unladen.chat.forms import Arguments, CallForm, Literal, Name, Skip
from unladen.chat.tools.base import Dialect


class DeepSeekR1(Dialect):
    """``<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME`` and a block of JSON, between marks."""

    name = "deepseek_r1"
    signs = ("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>", "```json")
    forms = (CallForm(
        (Skip("function"), Literal("<｜tool▁sep｜>"), Name(), Literal("\n```json\n"),
         Arguments(), Literal("\n```", is_optional=True)),
        begin="<｜tool▁call▁begin｜>", end="<｜tool▁call▁end｜>", separator="\n",
        section_begin="<｜tool▁calls▁begin｜>", section_end="<｜tool▁calls▁end｜>"),)
    stops = ("<｜end▁of▁sentence｜>",)
