"""The caller's messages in one form: dicts as OpenAI's clients send and templates read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from unladen.chat.functions import is_listed
from unladen.chat.messages import Message, ToolCall
from unladen.errors import InvalidArgument

REASONING: Final = ("reasoning_content", "thinking", "reasoning")
"""The keys under which clients give what a model thought. Templates read one of the first two."""
TEXT_PARTS: Final = frozenset({"text", "input_text", "output_text"})
"""The kinds of parts that are text."""

Messages = Iterable[Mapping[str, Any] | Message]
"""A conversation: dicts with a ``role`` and a ``content``, or messages that a model wrote. Objects
with a ``model_dump()``, as OpenAI's client returns them, are taken as well."""


def read_messages(messages: Messages) -> list[dict[str, Any]]:
    """``messages`` as new dicts; what is nested in them may still be the caller's.

    * keys that are None are left out
    * arguments of tool calls become objects where they are the JSON text of one
    * what a model thought is under ``reasoning_content`` and under ``thinking``
    * parts of text have the type ``text``

    Raises :class:`~unladen.errors.InvalidArgument` with the place of what isn't a message.
    """
    if not is_listed(messages):
        raise InvalidArgument(f"messages must be a list, got {type(messages).__name__}",
                              hint='pass [{"role": "user", "content": "..."}]')
    return [_message(message, f"messages[{i}]") for i, message in enumerate(messages)]


def _message(message: object, where: str) -> dict[str, Any]:
    if isinstance(message, Message):
        return _written(message)
    read = {k: v for k, v in _mapping(message, where).items() if v is not None}
    if not isinstance(read.get("role"), str):
        raise InvalidArgument(f"{where} has no role",
                              hint='a message has a "role": system, user, assistant or tool')
    content = read.get("content", "")
    if not isinstance(content, str):
        read["content"] = _parts(content, f"{where}.content")
    if "tool_calls" in read:
        read["tool_calls"] = [_call(call, f"{where}.tool_calls[{i}]") for i, call in
                              enumerate(_sequence(read["tool_calls"], f"{where}.tool_calls"))]
    return _with_reasoning(read)


def _with_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    """``message``, whose reasoning is under every key that templates read."""
    thought = next((message[key] for key in REASONING if isinstance(message.get(key), str)), None)
    if thought is not None:
        for key in REASONING[:2]:
            message.setdefault(key, thought)
    return message


def _written(message: Message) -> dict[str, Any]:
    """A message that a model wrote."""
    read: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning:
        read["reasoning_content"] = message.reasoning
    if message.tool_calls:
        read["tool_calls"] = [_call(call, "tool_calls") for call in message.tool_calls]
    return _with_reasoning(read)


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        value = dump()
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidArgument(f"{where} must be a dict, got {type(value).__name__}",
                              hint='pass dicts such as {"role": "user", "content": "..."}')
    return value


def _sequence(value: object, where: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidArgument(f"{where} must be a list, got {type(value).__name__}")
    return value


def _parts(content: object, where: str) -> list[dict[str, Any]]:
    """The parts of a content that isn't one text."""
    if not isinstance(content, list | tuple):
        raise InvalidArgument(f"{where} must be a text or a list of parts, got "
                              f"{type(content).__name__}")
    return [_part(part, f"{where}[{i}]") for i, part in enumerate(content)]


def _part(part: object, where: str) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    read = dict(_mapping(part, where))
    kind = read.get("type")
    if not isinstance(kind, str):
        raise InvalidArgument(f"{where} has no type",
                              hint='a part is a dict such as {"type": "text", "text": "..."}')
    if kind in TEXT_PARTS:
        if not isinstance(read.get("text"), str):
            raise InvalidArgument(f"{where} has no text",
                                  hint='a part of text is {"type": "text", "text": "..."}')
        read["type"] = "text"
    return read


def _call(call: object, where: str) -> dict[str, Any]:
    """A call with its arguments as an object."""
    if isinstance(call, ToolCall):
        function = {"name": call.name, "arguments": _arguments(call.arguments)}
        return {**({"id": call.id} if call.id else {}), "type": "function", "function": function}
    read = dict(_mapping(call, where))
    if isinstance(read.get("function"), Mapping):
        read["function"] = function = dict(read["function"])
    else:
        function = read
    if isinstance(function.get("arguments"), str):
        function["arguments"] = _arguments(function["arguments"])
    return read


def _arguments(text: str) -> Any:
    """The object that ``text`` is the JSON of; ``text`` itself where a model broke it off, because
    a conversation goes on after that."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def require_text(messages: Sequence[Mapping[str, Any]]) -> None:
    """Raise :class:`~unladen.errors.InvalidArgument` for a part that isn't text in ``messages``,
    which :func:`read_messages` returned."""
    for i, message in enumerate(messages):
        content = message.get("content")
        for j, part in enumerate(content if isinstance(content, list) else ()):
            if part["type"] not in TEXT_PARTS:
                raise InvalidArgument(
                    f"messages[{i}].content[{j}] is of kind {part['type']!r}, which this model "
                    "doesn't take", hint="pass parts of kind 'text' only")
