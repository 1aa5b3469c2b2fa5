"""Chat templates: a conversation as the prompt that a model was trained on."""

from __future__ import annotations

import datetime
import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final

from unladen.chat.functions import read_tools
from unladen.chat.reading import Messages, read_messages
from unladen.chat.sandbox import Budget, Compiled, LimitExceeded, Refused, compiled, size_of
from unladen.chat.sandbox.environment import FILENAME
from unladen.errors import InvalidArgument, TemplateError

MAX_TIME_FORMAT: Final = 200
"""Characters of a format of time that a template may ask for."""

Conversation = tuple[list[dict[str, Any]], "list[Any] | None"]
"""Messages and tools."""


def render(template: str, messages: Messages, tools: Sequence[Any] | None = None,
           bos_token: str = "", eos_token: str = "", add_generation_prompt: bool = True,
           **variables: Any) -> str:
    """The prompt that ``template`` makes of a conversation, as transformers renders it.

    * ``template``: Jinja text, as in a file's ``tokenizer.chat_template``.
    * ``messages``: dicts with ``role`` and ``content``; they aren't changed.
    * ``tools``: functions, or dicts as OpenAI's clients send them.
    * ``bos_token``, ``eos_token``: the texts of the model's tokens; many templates write them.
    * ``add_generation_prompt``: end with what begins the assistant's answer.
    * ``variables``: more variables of the template, such as ``enable_thinking``; ``strftime_now``,
      a function of a format, sets the clock.

    Raises :class:`~unladen.errors.TemplateError` for a malformed template, for one that fails on
    this conversation or refuses it, and for one that takes too much time or memory;
    :class:`~unladen.errors.InvalidArgument` for messages and tools that aren't any.
    """
    return ChatTemplate(template).render(
        messages, tools, bos_token=bos_token, eos_token=eos_token,
        add_generation_prompt=add_generation_prompt, **variables)


class ChatTemplate:
    """A chat template, compiled once. Threads may share it.

    ``source`` is its Jinja text. Raises :class:`~unladen.errors.TemplateError` if it is malformed.
    """

    def __init__(self, source: str) -> None:
        if not isinstance(source, str):
            raise InvalidArgument(f"template must be a text, got {type(source).__name__}",
                                  hint="pass Jinja text")
        self.source = source
        try:
            self._compiled: Compiled = compiled(source)
        except Exception as error:  # a stranger's text makes a compiler raise anything
            raise _error(error, None) from error

    def render(self, messages: Messages, tools: Sequence[Any] | None = None, *,
               bos_token: str = "", eos_token: str = "", add_generation_prompt: bool = True,
               documents: Sequence[Any] | None = None, **variables: Any) -> str:
        """The prompt of a conversation; parameters and errors as in :func:`render`.

        ``documents`` are for templates that answer from documents. Where the template fails on
        lists of text parts, on messages without content, on arguments as objects or without a list
        of tools, it gets these in the other usual form.
        """
        read, offered = read_messages(messages), read_tools(tools)
        budget = Budget(size_of([read, offered, documents, variables]))
        first: TemplateError | None = None
        for said, given in _forms(read, offered):
            every = {"strftime_now": _now, **variables, "messages": said, "tools": given,
                     "documents": documents, "add_generation_prompt": add_generation_prompt,
                     "bos_token": bos_token, "eos_token": eos_token}
            try:
                return self._compiled.render(budget, every)
            except Exception as error:  # a stranger's template raises anything
                first = first or _error(error, self._compiled)
                if _is_final(error):
                    raise first from error
        assert first is not None
        raise first

    @property
    def takes_tools(self) -> bool:
        """Whether the template reads the tools of a conversation."""
        return "tools" in self.source

    @functools.cached_property
    def takes_parts(self) -> bool:
        """Whether the template writes the text of a list of parts, and not the list itself."""
        text = "What is it?"
        try:
            return self.render([{"role": "user", "content": [{"type": "text", "text": text}]}]
                               ) == self.render([{"role": "user", "content": text}])
        except TemplateError:
            return False


def _now(form: str) -> str:
    """The time now as ``form`` says."""
    if not isinstance(form, str) or len(form) > MAX_TIME_FORMAT:
        raise LimitExceeded("asks for a time in a long form", f"up to {MAX_TIME_FORMAT} characters")
    return datetime.datetime.now().strftime(form)


def _forms(messages: list[dict[str, Any]], tools: list[Any] | None) -> Iterator[Conversation]:
    """The conversation as it is, and then in the other forms that some templates need."""
    yield messages, tools
    changes = [change for change in (_no_tools, _joined, _with_content, _arguments_as_text)
               if change(messages, tools) != (messages, tools)]
    for n in range(1, len(changes) + 1):
        for chosen in itertools.combinations(changes, n):
            form = messages, tools
            for change in chosen:
                form = change(*form)
            yield form


def _no_tools(messages: list[dict[str, Any]], tools: list[Any] | None) -> Conversation:
    """An empty list where there are no tools."""
    return messages, tools or []


def _joined(messages: list[dict[str, Any]], tools: list[Any] | None) -> Conversation:
    """Text parts joined with line breaks."""
    return join_parts(messages), tools


def join_parts(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``messages``, whose contents are texts where they were lists of text parts."""
    return [{**m, "content": "\n".join(p["text"] for p in m["content"])}
            if isinstance(m.get("content"), list)
            and all(p["type"] == "text" for p in m["content"]) else m for m in messages]


def _with_content(messages: list[dict[str, Any]], tools: list[Any] | None) -> Conversation:
    """An empty content where there is none."""
    return [m if "content" in m else {**m, "content": ""} for m in messages], tools


def _arguments_as_text(messages: list[dict[str, Any]], tools: list[Any] | None) -> Conversation:
    """The arguments of calls as JSON texts."""
    return [{**m, "tool_calls": [_call_with_text(call) for call in m["tool_calls"]]}
            if "tool_calls" in m else m for m in messages], tools


def _call_with_text(call: dict[str, Any]) -> dict[str, Any]:
    if isinstance(call.get("function"), dict):
        return {**call, "function": _call_with_text(call["function"])}
    if isinstance(call.get("arguments"), dict):
        return {**call, "arguments": json.dumps(call["arguments"], ensure_ascii=False)}
    return call


def _is_final(error: Exception) -> bool:
    """Whether another form of the conversation would change nothing about ``error``."""
    from jinja2.exceptions import SecurityError
    return isinstance(error, Refused | LimitExceeded | SecurityError | RecursionError | MemoryError)


def _error(error: Exception, template: Compiled | None) -> TemplateError:
    """``error``, which a template raised, as ours: what, where, and what to try."""
    from jinja2.exceptions import SecurityError, TemplateSyntaxError
    line = _line_of(error.__traceback__, template.line_of) if template else 0
    match error:
        case Refused():
            return TemplateError(f"it refuses the conversation: {error}", line=line, refused=True,
                                 hint="change the roles or the order of the messages")
        case LimitExceeded():
            return TemplateError(f"it {error.what} ({error.why})", line=line,
                                 hint="pass another template")
        case TemplateSyntaxError():
            return TemplateError(error.message or "malformed", line=error.lineno,
                                 hint="the template is malformed: pass another one")
        case RecursionError() | MemoryError():
            return TemplateError("it nests too deeply or becomes too large", line=line,
                                 hint="pass another template")
        case SecurityError():
            return TemplateError(f"it does what templates may not do: {error}", line=line,
                                 hint="pass another template")
    return TemplateError(f"it fails on the conversation: {_text(error)}", line=line,
                         hint="another template may take messages of this form")


def _text(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def _line_of(frames: TracebackType | None, line_of: Callable[[int], int]) -> int:
    """The line of the template in the innermost of its ``frames``; 0 if there is none."""
    line = 0
    while frames is not None:
        if frames.tb_frame.f_code.co_filename == FILENAME:
            line = line_of(frames.tb_lineno)
        frames = frames.tb_next
    return line
