"""Reasoning: its marks, and whether a prompt leaves it open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unladen.chat.marks import WHITE


@dataclass(frozen=True, slots=True)
class ReasoningMarks:
    """What stands around reasoning, as the model writes it, white space included."""

    open: str
    close: str

    @property
    def opening(self) -> str:
        """The opening mark without white space."""
        return self.open.strip(WHITE)

    @property
    def closing(self) -> str:
        """The closing mark without white space."""
        return self.close.strip(WHITE)


THINK = ReasoningMarks("<think>\n", "\n</think>\n\n")
"""What most models write. It counts at the start of an answer also where a template says nothing
of it: fine-tuned models think under templates of older ones."""
KNOWN = (
    THINK,
    ReasoningMarks("<thinking>", "</thinking>"),
    ReasoningMarks("<seed:think>", "</seed:think>\n"),
    ReasoningMarks("[THINK]", "[/THINK]"),
    ReasoningMarks("<|START_THINKING|>", "<|END_THINKING|>"),
    ReasoningMarks("<|inner_prefix|>", "<|inner_suffix|>"),
    ReasoningMarks("<|channel>thought\n", "\n<channel|>"),
)
"""Marks that count in an answer if the template's text has both."""


def named_in(text: str) -> tuple[ReasoningMarks, ...]:
    """The known marks that ``text``, that of a template, has."""
    return tuple(marks for marks in KNOWN
                 if marks.opening.partition("\n")[0] in text and marks.closing in text)


def unique(families: Iterable[ReasoningMarks]) -> tuple[ReasoningMarks, ...]:
    """Each pair of marks once, white space aside; the first counts."""
    first: dict[tuple[str, str], ReasoningMarks] = {}
    for family in families:
        first.setdefault((family.opening, family.closing), family)
    return tuple(first.values())


def left_open(tail: str, families: Sequence[ReasoningMarks]) -> ReasoningMarks | None:
    """The marks of the reasoning that ``tail``, the beginning of an answer inside a prompt, opens
    and doesn't close; None if it opens none."""
    last = max(families, key=lambda f: tail.rfind(f.opening), default=None)
    if last is None or (at := tail.rfind(last.opening)) < 0:
        return None
    return None if last.closing in tail[at + len(last.opening):] else last


def after_reasoning(tail: str, families: Sequence[ReasoningMarks]) -> str:
    """``tail`` behind the last mark of reasoning in it."""
    ends = [at + len(mark) for f in families for mark in (f.opening, f.closing)
            if (at := tail.rfind(mark)) >= 0]
    return tail[max(ends, default=0):]


def header_of(prompt_end: str, families: Sequence[ReasoningMarks]) -> str:
    """What begins an answer in a prompt that ends in ``prompt_end``, without reasoning."""
    first = min((at for f in families if (at := prompt_end.find(f.opening)) >= 0),
                default=len(prompt_end))
    return prompt_end[:first].rstrip(WHITE)
