"""What a parser tells while an answer arrives: pieces of text and of tool calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """The answer goes on with ``text``."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """The reasoning goes on with ``text``."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """Call number ``index`` begins: its ``id`` and ``name`` are complete."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The arguments of call number ``index`` go on with ``text``; together they are JSON."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallFinished:
    """The arguments of call number ``index`` are complete."""

    index: int


Delta: TypeAlias = ContentDelta | ReasoningDelta | CallBegun | CallArguments | CallFinished
"""One of the things that happen while an answer arrives."""
