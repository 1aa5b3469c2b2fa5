"""What a model needs for its next answer: a prompt, and how the answer is read."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unladen.chat.called import chosen
from unladen.chat.form_of_answer import AnswerForm
from unladen.chat.functions import read_tools
from unladen.chat.learning import answer_form
from unladen.chat.overflow import OnOverflow, fitting
from unladen.chat.prompt import Prompt, PromptMaker
from unladen.chat.reading import Messages, read_messages
from unladen.chat.template import ChatTemplate
from unladen.chat.values import tools_of
from unladen.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Turn:
    """A conversation that waits for an answer."""

    prompt: Prompt
    form: AnswerForm
    tools: list[Any]
    """The tools that are offered, as OpenAI's clients write them; none with the choice "none"."""
    n_truncated: int
    """Tokens of the conversation that were left out."""

    def noted(self, notes: tuple[str, ...]) -> Turn:
        """The same turn with more ``notes``."""
        return replace(self, prompt=replace(self.prompt, notes=self.prompt.notes + notes))


class ChatFormat:
    """How the conversations of a model are written and read. Threads may share it."""

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer) -> None:
        self.template = template
        self._tokenizer = tokenizer
        self._prompt = PromptMaker(template, tokenizer)

    @functools.cached_property
    def form(self) -> AnswerForm:
        """How answers are written; found out when it is first asked for, which takes some twenty
        renderings."""
        return answer_form(self.template, *(
            "" if i is None else self._tokenizer.token_bytes(i).decode(errors="replace")
            for i in (self._tokenizer.bos_id, self._tokenizer.eos_id)))

    def end_ids(self, *, has_tools: bool) -> frozenset[int]:
        """The tokens that end an answer."""
        stops = self.form.stops_beside_calls if has_tools else self.form.stops
        found = (self._tokenizer.encode(text, add_special=False) for text in stops)
        return self._tokenizer.eog_ids | {ids[0] for ids in found if len(ids) == 1}

    def turn(self, messages: Messages, tools: Sequence[Any] | None, tool_choice: Any, n_most: int,
             way: OnOverflow, *, continues: bool, documents: Sequence[Any] | None,
             variables: Mapping[str, Any]) -> Turn:
        """The turn that comes after ``messages``.

        * ``tools``, ``tool_choice``: what the model may call; with "none" the prompt has no tools.
        * ``n_most``: tokens that the prompt may have; ``way``: what happens where it has more.
        * ``continues``, ``documents``, ``variables``: as :class:`PromptMaker` takes them.

        Raises :class:`~unladen.errors.InvalidArgument`, :class:`~unladen.errors.TemplateError` and
        :class:`~unladen.errors.ContextOverflow`.
        """
        known = read_tools(tools) or []
        names, _ = chosen(tools_of(known).schemas, tool_choice)
        offered = known if names else []
        prompt, n_truncated = fitting(
            read_messages(messages), way, n_most, lambda said: self._prompt(
                said, offered or None, continues=continues, documents=documents,
                variables=variables))
        return Turn(prompt, self.form, offered, n_truncated)
