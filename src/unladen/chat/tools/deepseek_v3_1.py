"""DeepSeek V3.1: the name and JSON between marks."""

from __future__ import annotations

from unladen.chat.forms import Arguments, CallForm, Literal, Name
from unladen.chat.tools.base import Dialect


class DeepSeekV31(Dialect):
    """``<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{..}<｜tool▁call▁end｜>`` between marks."""

    name = "deepseek_v3_1"
    signs = ("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>")
    forms = (CallForm(
        (Name(), Literal("<｜tool▁sep｜>"), Arguments()),
        begin="<｜tool▁call▁begin｜>", end="<｜tool▁call▁end｜>",
        section_begin="<｜tool▁calls▁begin｜>", section_end="<｜tool▁calls▁end｜>"),)
    stops = ("<｜end▁of▁sentence｜>",)
