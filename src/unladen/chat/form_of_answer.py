"""What a template says about answers: compiled once, used by every parser."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from unladen.chat.answer import without_blank
from unladen.chat.called import CalledForm, chosen
from unladen.chat.marks import WHITE
from unladen.chat.reasoning import ReasoningMarks, after_reasoning, left_open
from unladen.chat.tools.base import Dialect
from unladen.chat.values import tools_of


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """How answers under one template are written.

    dialect: how calls are. reasoning: marks of reasoning, those that the template writes first.
    stops: texts of tokens that end a turn, beside the file's own; a caller takes those that its
    vocabulary has as control tokens. header: what begins an answer in a prompt, without marks of
    reasoning; "" where it isn't known. prompt_end: how a prompt ends if nothing else is asked for.
    """

    dialect: Dialect
    reasoning: tuple[ReasoningMarks, ...]
    stops: tuple[str, ...] = ()
    header: str = ""
    prompt_end: str = ""

    @property
    def stops_beside_calls(self) -> tuple[str, ...]:
        """The stops for an answer that may have calls: no call begins with one of them."""
        begins = [mark for form in self.dialect.forms for mark in form.marks]
        return tuple(s for s in self.stops if not any(m.startswith(s) for m in begins))

    def open_reasoning(self, prompt: str) -> ReasoningMarks | None:
        """The marks of the reasoning that ``prompt`` leaves open; None if it opens none."""
        return left_open(self._answer_in(prompt), self.reasoning)

    def is_begun(self, prompt: str) -> bool:
        """Whether ``prompt`` ends inside an answer, which the model continues."""
        start = without_blank(after_reasoning(self._answer_in(prompt), self.reasoning))
        usual = without_blank(after_reasoning(self._answer_in(self.prompt_end), self.reasoning))
        return bool(start.strip(WHITE)) and start.strip(WHITE) != usual.strip(WHITE)

    def called(self, tools: Iterable[Any] | None, tool_choice: Any = "auto") -> CalledForm | None:
        """How a constraint makes the model write calls. None where no tool may be called, or where
        a constraint can't write this dialect.

        tools, tool_choice: as OpenAI's or Anthropic's clients write them. Raises
        :class:`~unladen.errors.InvalidArgument` for a choice that isn't one.
        """
        allowed, is_required = chosen(tools_of(tools).schemas, tool_choice)
        return self.dialect.called(allowed, is_required, self._marks) if allowed else None

    @property
    def _marks(self) -> tuple[str, ...]:
        """Marks that an answer may have outside of calls."""
        marks = [mark for f in self.reasoning for mark in (f.opening, f.closing)]
        return (*marks, *(m.strip(WHITE) for pair in self.dialect.wrappers for m in pair if m))

    def _answer_in(self, prompt: str) -> str:
        """The answer that ``prompt`` begins."""
        if self.header and (at := prompt.rfind(self.header)) >= 0:
            return prompt[at + len(self.header):]
        stripped = prompt.rstrip(WHITE)
        for family in self.reasoning:
            if stripped.endswith(family.opening):
                return family.opening
        return ""
