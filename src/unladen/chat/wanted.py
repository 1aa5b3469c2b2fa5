"""The language of an answer: what tools, a form and a budget for reasoning leave it to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unladen.chat.branches import Inexpressible
from unladen.chat.called import CalledForm, ToolText, chosen
from unladen.chat.form_of_answer import AnswerForm
from unladen.chat.json_text import JSON
from unladen.chat.marks import WHITE
from unladen.chat.notation import notation_arguments
from unladen.chat.reasoning import ReasoningMarks
from unladen.chat.tagged import tagged_arguments
from unladen.chat.values import tools_of
from unladen.errors import InvalidArgument
from unladen.sample.constrain.budget import Budgeted
from unladen.sample.constrain.calls import Call, Calls
from unladen.sample.constrain.expressions import Chars, Expression, Repeat, Sequence_
from unladen.sample.constrain.language import After, Anything, Exactly, Joined, Language, OneOf
from unladen.sample.constrain.regex import Regex
from unladen.sample.constrain.relaxing import relaxed
from unladen.sample.constrain.rules import TextUpTo
from unladen.sample.constrain.schema import JsonSchema, plain
from unladen.sample.constrain.states import Spelled

BLANK = Regex(r"[ \t\r\n]{0,8}")
"""White space that may stand between the end of reasoning and an answer of a given form."""


@dataclass(frozen=True, slots=True)
class ReasoningBudget:
    """How long a model may reason: ``n_tokens``, ``seconds``; None: no limit."""

    n_tokens: int | None = None
    seconds: float | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self.n_tokens is not None or self.seconds is not None


def language_of_answer(form: AnswerForm, prompt: str, answer: Language | None,
                       tools: Sequence[Any], tool_choice: Any, budget: ReasoningBudget, *,
                       parallel: bool = True) -> tuple[Language | None, tuple[str, ...]]:
    """(the language of what a model writes after ``prompt``, None where that is any text; what
    arguments of calls aren't held to).

    * ``form``: how answers are written under the model's template.
    * ``answer``: the language that the answer's text must have; None: any text.
    * ``tools``: the tools that are offered, as OpenAI's clients write them; ``tool_choice``: which
      of them may or must be called.
    * ``budget``: how long the model may reason.
    * ``parallel``: whether an answer may have several calls.

    Raises :class:`~unladen.errors.InvalidArgument`.
    """
    body, notes = answer, list[str]()
    if tools:
        called = form.called(tools, tool_choice)
        if called is not None:
            body = _with_calls(called, answer, notes, parallel=parallel)
        else:
            allowed, is_required = chosen(tools_of(tools).schemas, tool_choice)
            if is_required:
                raise InvalidArgument(
                    f"tool_choice={tool_choice!r} can't be kept: calls in the form "
                    f"{form.dialect.name!r} can't be forced", hint='use tool_choice="auto"')
            if allowed:
                notes.append(f"calls in the form {form.dialect.name!r} aren't held to the tools")
    marks = form.open_reasoning(prompt)
    whole = None if body is None else _after_reasoning(body, marks, form)
    if not budget.is_limited and (whole is None or whole is body):
        return whole, tuple(notes)
    # A model that ends its answer inside its reasoning may, as it may where nothing is asked for.
    # An answer that must be a call or of a given form begins there.
    first = marks or form.reasoning[0]
    return Budgeted(first.closing, budget.n_tokens, budget.seconds, whole,
                    begin="" if marks else first.opening, closing=first.close,
                    may_end=body is not None and not body.must_be_whole), tuple(notes)


def _with_calls(called: CalledForm, answer: Language | None, notes: list[str], *,
                parallel: bool) -> Language:
    calls = [_call(each, notes) for each in called.calls]
    is_required = called.is_required or answer is not None
    language = Calls(calls, called.opening, called.separator, called.closing,
                     required=is_required, parallel=called.is_parallel and parallel,
                     has_text=answer is None and not called.is_required, marks=called.marks)
    return language if answer is None or called.is_required else OneOf([language, answer])


class BehindBlank(Joined):
    """A text of ``answer``, with white space before it."""

    def __init__(self, answer: Language) -> None:
        super().__init__([BLANK, answer])

    def expression(self, spelled: Spelled) -> Expression | None:
        """None where the answer itself may begin with white space: whose that is, llguidance
        decides."""
        answer = self.parts[1].expression(spelled)
        if answer is None or spelled.may_begin(answer, WHITE):
            return None
        return Sequence_((Repeat(Chars.of((ord(c), ord(c)) for c in WHITE), 0, 8), answer))


def _call(tool: ToolText, notes: list[str]) -> Call:
    """Calls of ``tool``. It takes no arguments but those in its schema, unless that says so.
    ``notes`` gets what arguments aren't held to."""
    schema = plain({"type": "object", "properties": {}, "additionalProperties": False,
                    **tool.schema})
    if tool.parameters is None and tool.syntax is JSON:
        schema, left_out = relaxed(schema)
        notes += [f"the arguments of {tool.tool[:40]!r} aren't held to all of its schema: {each}"
                  for each in left_out]
        return Call(tool.trigger, tool.before, JsonSchema(schema), tool.after)
    try:
        arguments, more = (
            notation_arguments(tool.tool, schema, tool.syntax, are_keywords=tool.are_keywords)
            if tool.parameters is None else
            tagged_arguments(tool.tool, schema, tool.parameters, tool.after))
    except Inexpressible as why:
        notes.append(f"the arguments of {tool.tool[:40]!r} aren't held to its schema: {why}")
        end = tool.after.strip(WHITE)
        return Call(tool.trigger, tool.before, TextUpTo(end, tool.after) if end else Anything())
    notes += more
    return Call(tool.trigger, tool.before, arguments, tool.after)


def _after_reasoning(body: Language, marks: ReasoningMarks | None, form: AnswerForm) -> Language:
    """``body`` behind the reasoning that the prompt opens, or behind one that the model may begin
    itself."""
    answer = BehindBlank(body)
    if marks is not None:
        return After(marks.closing, answer)
    if isinstance(body, Calls) and body.has_text:
        return body  # its free text may have the marks of reasoning
    first = form.reasoning[0]
    return OneOf([body, Joined([Exactly(first.opening), After(first.closing, answer)])])
