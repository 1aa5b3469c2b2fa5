"""From a conversation to the tokens of a prompt."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from unladen.chat.control_marks import Marks, shown
from unladen.chat.functions import read_tools
from unladen.chat.reading import REASONING, Messages, read_messages, require_text
from unladen.chat.roles import forms, with_known_roles
from unladen.chat.template import ChatTemplate, join_parts
from unladen.errors import InvalidArgument, TemplateError
from unladen.tokenizer import Tokenizer

END: Final = "\U0010ffff"
"""A character that nobody uses: it stands behind the beginning of an answer that is continued."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation as a model reads it."""

    text: str
    """What the template made. It begins with BOS only if the template writes it."""
    ids: list[int]
    """The tokens, BOS included."""
    plain: tuple[tuple[int, int], ...] = ()
    """Ranges of ``text`` in which a control token's name is text, as (begin, end)."""
    notes: tuple[str, ...] = ()
    """What was changed in the messages because the template lacks a role: a sentence each."""


class PromptMaker:
    """Makes the prompts of one model. Threads may share it.

    * ``template``: the model's template.
    * ``tokenizer``: the model's tokenizer.
    """

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer) -> None:
        self.template = template
        self._tokenizer = tokenizer
        self._marks = Marks(tokenizer.control_texts)
        self._bos, self._eos = (_text(tokenizer, token_id) for token_id in
                                (tokenizer.bos_id, tokenizer.eos_id))

    def __call__(self, messages: Messages, tools: Sequence[Any] | None = None, *,
                 continues: bool = False, documents: Sequence[Any] | None = None,
                 variables: Mapping[str, Any] | None = None) -> Prompt:
        """The prompt of a conversation, up to where the assistant's answer begins.

        * ``messages``, ``tools``, ``documents``: as in :meth:`ChatTemplate.render`.
        * ``continues``: the last message is the beginning of the assistant's answer, and the prompt
          ends behind it.
        * ``variables``: more variables of the template, such as ``enable_thinking``.

        A control token's name in messages, tools or documents is text. Only the template writes
        control tokens. Raises :class:`~unladen.errors.TemplateError` and
        :class:`~unladen.errors.InvalidArgument`.
        """
        read, offered = read_messages(messages), read_tools(tools)
        require_text(read)
        if not read:
            raise InvalidArgument("messages is empty",
                                  hint='pass [{"role": "user", "content": "..."}]')
        if not self.template.takes_parts:
            read = join_parts(read)
        if continues:
            read[-1] = _with_end(read[-1], len(read) - 1)
        read, notes = with_known_roles(read, self.template.source)
        every = {**(variables or {}), "add_generation_prompt": not continues}
        (said, hidden), more = self._accepted(read, offered, documents, every)
        if continues:
            said = _up_to_end(said)
        text, plain = shown(said, hidden)
        return Prompt(text, self._ids(text, plain), tuple(plain), notes + more)

    def _accepted(self, messages: list[dict[str, Any]], *rest: Any
                  ) -> tuple[tuple[str, Mapping[int, str]], tuple[str, ...]]:
        """What the template makes of the first form of ``messages`` that it doesn't refuse, and
        what differs in that form."""
        first: TemplateError | None = None
        for form, notes in forms(messages):
            try:
                return self._rendered(form, *rest), notes
            except TemplateError as error:
                first = first or error
                if not error.refused:
                    break
        assert first is not None
        raise first

    def _rendered(self, messages: list[dict[str, Any]], tools: list[Any] | None,
                  documents: Sequence[Any] | None, variables: dict[str, Any]
                  ) -> tuple[str, Mapping[int, str]]:
        """What the template makes, with control tokens' names in the caller's texts hidden."""
        given = messages, tools, documents
        (said, offered, sources), hidden = self._marks.hide(given, self.template.source)
        def render(said: Sequence[dict[str, Any]], offered: Any, sources: Any) -> str:
            named = [{**other, "role": message["role"]}  # templates make marks of roles
                     for message, other in zip(messages, said, strict=True)]
            return self.template.render(named, offered, documents=sources, bos_token=self._bos,
                                        eos_token=self._eos, **variables)

        marked = render(said, offered, sources)
        if not hidden:
            return marked, hidden
        with contextlib.suppress(TemplateError):  # the template may fail on marks that it finds
            bare = render(*given)
            if shown(marked, hidden)[0] != bare:
                # The template looks for a mark in what the assistant said, such as the end of its
                # reasoning. There it finds it; everywhere else marks stay hidden.
                own = [message if message["role"] == "assistant" else other
                       for message, other in zip(messages, said, strict=True)]
                again = render(own, offered, sources)
                if shown(again, hidden)[0] == bare:
                    return again, hidden
        return marked, hidden

    def _ids(self, text: str, plain: Sequence[tuple[int, int]]) -> list[int]:
        """The tokens of a prompt. BOS comes once, if the template or the file asks for it."""
        ids = self._tokenizer.encode(text, add_special=False, plain=plain)
        bos = self._tokenizer.bos_id
        if self._tokenizer.add_bos and bos is not None and ids[:1] != [bos]:
            ids.insert(0, bos)
        return ids


def _text(tokenizer: Tokenizer, token_id: int | None) -> str:
    return "" if token_id is None else tokenizer.token_bytes(token_id).decode(errors="replace")


def _with_end(message: dict[str, Any], i: int) -> dict[str, Any]:
    """``message``, the ``i``-th, with :data:`END` behind what the assistant said so far."""
    if message["role"] != "assistant" or message.get("tool_calls"):
        raise InvalidArgument(f"messages[{i}] can't be continued: it must be an assistant's text",
                              hint="end the messages with the beginning of the answer")
    content = message.get("content")
    thought = {key: message[key] + END for key in REASONING
               if isinstance(message.get(key), str) and message[key]}
    if thought and not content:
        return {**message, "content": "", **thought}
    if isinstance(content, list) and content:
        last = content[-1]
        return {**message, "content": [*content[:-1], {**last, "text": last["text"] + END}]}
    return {**message, "content": (content or "") + END}


def _up_to_end(text: str) -> str:
    """``text`` up to the last :data:`END`, without any."""
    before, found, _ = text.rpartition(END)
    if not found:
        raise TemplateError("it doesn't write the last message, so the answer can't be continued",
                            hint="end the messages with a user's message")
    return before.replace(END, "")
