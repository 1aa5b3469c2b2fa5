"""Formats tables and docstrings as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell(c) for c in line)} |\n" for line in lines)


def cell(text: str) -> str:
    """``text`` on one line, with escaped bars, which would end the cell."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def prose(text: str) -> str:
    """A docstring's text with its marks for code and references turned into Markdown's."""
    text = re.sub(r":(?:\w+:)?\w+:`([^`<]+?)\s*<[^`>]*>`", r"\1", text)
    text = re.sub(r":(?:\w+:)?\w+:`~?(?:[\w.]*\.)?([^`.]+)`", r"`\1`", text)
    return text.replace("``", "`").replace("<", "&lt;") if "<" in _outside_code(text) else (
        text.replace("``", "`"))


def _outside_code(text: str) -> str:
    return re.sub(r"`+[^`]*`+", "", text)
