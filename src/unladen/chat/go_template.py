"""Chat templates in Go's language, which models in Ollama's store and Modelfiles have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unladen.chat.functions import read_tools
from unladen.chat.reading import REASONING, Messages, read_messages
from unladen.chat.template import ChatTemplate, join_parts
from unladen.errors import InvalidArgument
from unladen.hub.gotemplate import BrokenOff, GoTemplate
from unladen.hub.gotemplate.telling import is_go


def template_of(source: str) -> ChatTemplate:
    """The template with this text, which is in Jinja or in Go's language. Raises
    :class:`~unladen.errors.TemplateError` where it is malformed."""
    is_text = isinstance(source, str)
    return GoChatTemplate(source) if is_text and is_go(source) else ChatTemplate(source)


class GoChatTemplate(ChatTemplate):
    """A chat template in Go's language, parsed once. Threads may share it.

    Such a template doesn't ask whether an answer begins: it ends with what begins one where the
    last message isn't an assistant's, and goes on with that one otherwise. ``source`` is its text.
    Raises :class:`~unladen.errors.TemplateError` if it is malformed.
    """

    def __init__(self, source: str) -> None:
        self._go = GoTemplate(source)
        self.source = source

    def render(self, messages: Messages, tools: Sequence[Any] | None = None, *,
               bos_token: str = "", eos_token: str = "", add_generation_prompt: bool = True,
               documents: Sequence[Any] | None = None, **variables: Any) -> str:
        """See :meth:`ChatTemplate.render`. Only ``variables`` about reasoning count: Go's
        templates have no others, and write no BOS. Raises
        :class:`~unladen.errors.InvalidArgument` for ``documents`` and pictures, too."""
        if documents:
            raise InvalidArgument("documents can't be given: the model's template is in Go's "
                                  "language, which has no place for them",
                                  hint="write them into a message")
        said = [_spoken(message) for message in join_parts(read_messages(messages))]
        think = _think(variables)
        if think is None and said and said[-1]["role"] == "assistant" and said[-1]["thinking"]:
            think = True  # an answer that has begun to reason
        return self._go.render(messages=said, tools=read_tools(tools) or None, think=think)

    @property
    def takes_tools(self) -> bool:
        """See :attr:`ChatTemplate.takes_tools`."""
        return "tools" in self._go.fields


def _think(variables: Mapping[str, Any]) -> bool | str | None:
    """Whether the variables of a template ask the model to think, or how hard; None: they don't
    say."""
    asked = next((variables[name] for name in ("enable_thinking", "thinking")
                  if variables.get(name) is not None), None)
    effort = variables.get("reasoning_effort")
    if isinstance(effort, str) and asked is not False:
        return effort
    return None if asked is None else bool(asked)


def _spoken(message: Mapping[str, Any]) -> dict[str, Any]:
    """``message`` for a Go template. Arguments that a model broke off stay as they are: a
    conversation must be able to go on behind them."""
    thought = next((message[key] for key in REASONING if isinstance(message.get(key), str)), "")
    spoken = {**message, "thinking": thought}
    if calls := message.get("tool_calls"):
        spoken["tool_calls"] = [_whole(call) for call in calls]
    return spoken


def _whole(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call.get("function")
    if not isinstance(function, Mapping):
        return _whole({"function": call})
    arguments = function.get("arguments")
    if not isinstance(arguments, str) or not arguments.strip():
        return call
    return {**call, "function": {**function, "arguments": BrokenOff(arguments)}}
