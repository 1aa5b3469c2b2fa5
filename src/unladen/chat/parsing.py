"""Parses what a model writes, as it arrives: content, reasoning and tool calls."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from unladen.chat.answer import Answer, new_id
from unladen.chat.deltas import Delta
from unladen.chat.form_of_answer import AnswerForm
from unladen.chat.messages import Message
from unladen.chat.reader import Reader
from unladen.chat.template import ChatTemplate
from unladen.chat.values import tools_of


class Parser:
    """Parses one answer, fed in pieces. Nothing that it gives out is ever taken back, and no text
    makes it fail: what it doesn't understand stays in the content.

    form: how answers are written, from :func:`unladen.chat.learning.answer_form`.
    tools: the tools that were offered, as OpenAI's or Anthropic's clients write them.
    prompt: the prompt, or at least its end: it says whether the answer begins inside reasoning.
    "" stands for the prompt that the template writes if nothing else is asked for.
    allows_calls: False leaves calls in the text (tool_choice "none").
    whole_calls: give out a call only when it is complete.
    """

    def __init__(self, form: AnswerForm, tools: Iterable[Any] | None = None, prompt: str = "", *,
                 allows_calls: bool = True, whole_calls: bool = False) -> None:
        prompt = prompt or form.prompt_end
        length = form.dialect.id_length
        self._answer = Answer(keeps_start=form.is_begun(prompt), whole_calls=whole_calls,
                              make_id=new_id if length is None else lambda: new_id(length, ""))
        self._reader = Reader(self._answer, tools_of(tools), prompt, allows_calls)
        self._steps = form.dialect.read(self._reader, form.reasoning, form.open_reasoning(prompt))
        self._is_done = False

    def feed(self, text: str) -> list[Delta]:
        """What ``text``, which comes next, tells."""
        self._reader.tape.feed(text)
        self._advance()
        return self._answer.drain()

    def finish(self, is_cut: bool = False, text: str = "") -> tuple[list[Delta], Message]:
        """The text ends here: what its end tells, and the whole message.

        is_cut: generation was cut off, so a call that isn't complete is reported as far as it came;
        without it such a call is text, unless it was given out. text: the last piece.
        """
        self._reader.tape.feed(text)
        self._reader.is_cut = is_cut
        self._reader.tape.ended = True
        self._advance()
        self._answer.content.finish()
        return self._answer.drain(), self._answer.message()

    @property
    def n_waiting(self) -> int:
        """Characters that wait until more text decides what they are: few, whatever arrives."""
        return self._reader.tape.n_waiting

    def message(self) -> Message:
        """The message so far. Text that could begin a mark isn't part of it."""
        return self._answer.message()

    def _advance(self) -> None:
        if not self._is_done and next(self._steps, self) is self:
            self._is_done = True


def parse(text: str, template: str, tools: Iterable[Any] | None = None, partial: bool = False,
          prompt: str = "") -> Message:
    """The message in ``text``, which a model wrote under ``template``.

    * ``template``: Jinja text, as in a file's ``tokenizer.chat_template``.
    * ``tools``: the tools that were offered, as OpenAI's or Anthropic's clients write them. Their
      schemas give types to arguments that the model writes as raw text.
    * ``partial``: more text may follow. What could begin a mark isn't part of the message then.
    * ``prompt``: the prompt, or its end: it says whether the text begins inside reasoning. Without
      it that is as in the prompt that the template writes if nothing else is asked for.

    No text makes it fail: what isn't understood stays in the content. Raises
    :class:`~unladen.errors.TemplateError` for a malformed template. For text that arrives, use
    :func:`answer_form` once and a :class:`Parser` for each answer.
    """
    return parse_answer(text, _form_under(template), tools, partial, prompt)


@functools.lru_cache(maxsize=8)
def _form_under(template: str) -> AnswerForm:
    """What the template with the text ``template`` says; learning it takes far longer than most
    texts take."""
    from unladen.chat.learning import answer_form  # it uses this module to try dialects
    return answer_form(ChatTemplate(template))


def parse_answer(text: str, form: AnswerForm, tools: Iterable[Any] | None = None,
                 partial: bool = False, prompt: str = "") -> Message:
    """The message in ``text``, as :class:`Parser` reads it. ``partial``: more may follow."""
    parser = Parser(form, tools, prompt)
    if not partial:
        return parser.finish(text=text)[1]
    parser.feed(text)
    return parser.message()
