"""From items to what a model is asked."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any

from unladen.server.asked import Chat
from unladen.server.dialects.openai.bodies import SEEDS
from unladen.server.dialects.openai.chat import allowed, choice_of
from unladen.server.dialects.openai.reasoning import effort_of
from unladen.server.dialects.openai.responses.bodies import ResponsesBody
from unladen.server.faults import Fault

SEAL = "unladen:"
"""What ``encrypted_content`` of this server's own reasoning items begins with. Clients that store
nothing here send it back."""
_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
"""The types of parts that are text."""


def asked(body: ResponsesBody, history: Sequence[Mapping[str, Any]]) -> Chat:
    """What ``body`` asks of a model. ``history``: the messages of the responses before, without
    their instructions."""
    for name in ("background", "conversation", "prompt"):
        if getattr(body, name):
            raise Fault("unsupported", f"{name} isn't supported", param=name)
    messages = [*map(dict, history), *messages_of(body.input)]
    if body.instructions:
        messages.insert(0, {"role": "developer", "content": body.instructions})
    return Chat(messages=messages or [{"role": "user", "content": ""}],
                tools=allowed(_tools(body.tools), body.tool_choice),
                tool_choice=_choice(body.tool_choice),
                parallel_calls=body.parallel_tool_calls is not False,
                parameters=_parameters(body))


def _parameters(body: ResponsesBody) -> dict[str, Any]:
    given: dict[str, Any] = {name: value for name in ("temperature", "top_p")
                             if (value := getattr(body, name)) is not None}
    if body.max_output_tokens is not None:
        given["max_tokens"] = body.max_output_tokens
    if body.seed is not None:
        given["seed"] = body.seed % SEEDS
    if body.reasoning is not None and body.reasoning.effort is not None:
        given["reasoning"] = effort_of(body.reasoning.effort, "reasoning.effort")
    if wants_logprobs(body):
        given["logprobs"] = body.top_logprobs or 0
    form = body.text.format if body.text is not None else None
    if form is not None and form.get("type") != "text":
        if form.get("type") not in ("json_object", "json_schema"):
            raise Fault("bad_request", "the text's format has an unknown type",
                        hint="there are text, json_object and json_schema",
                        param="text.format.type")
        given["response_format"] = form
    if body.truncation == "auto":
        given["on_overflow"] = "shift"
    return given


def wants_logprobs(body: ResponsesBody) -> bool:
    """Whether the tokens' log-probabilities are wanted."""
    return bool(body.top_logprobs) or "message.output_text.logprobs" in (body.include or ())


def _tools(given: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    tools = []
    for i, tool in enumerate(given or ()):
        if tool.get("type") != "function":
            continue  # tools that only OpenAI's own servers have
        function = tool.get("function", tool)
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise Fault("bad_request", "a function has a name", param=f"tools.{i}.name")
        tools.append({"type": "function", "function": {
            name: function[name] for name in ("name", "description", "parameters")
            if function.get(name) is not None}})
    return tools


def _choice(given: str | Mapping[str, Any] | None) -> str:
    if isinstance(given, str):
        return given
    if given is not None and given.get("type") == "function":
        if not isinstance(given.get("name"), str):
            raise Fault("bad_request", "tool_choice names no function", param="tool_choice.name")
        return str(given["name"])
    if given is not None and given.get("type") == "allowed_tools":
        return choice_of(given)
    return "auto"


def messages_of(given: str | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages that items are: an assistant's reasoning, text and calls are one message."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages: list[dict[str, Any]] = []
    for i, item in enumerate(given):
        where, kind = f"input.{i}", item.get("type", "message")
        if kind == "message":
            role = item.get("role")
            if not isinstance(role, str):
                raise Fault("bad_request", "a message has a role", param=f"{where}.role")
            text = _text(item.get("content"), f"{where}.content")
            if role == "assistant":
                message = _answer(messages)
                message["content"] += text
            else:
                messages.append({"role": role, "content": text})
        elif kind in ("function_call", "custom_tool_call"):
            _add_call(_answer(messages), item, where)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            messages.append(_output(messages, item, where))
        elif kind == "reasoning" and (thought := _thought(item)):
            messages.append({"role": "assistant", "content": "", "reasoning_content": thought})
        # Items of other types tell of what only OpenAI's own servers do.
    return messages


def _answer(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The assistant's message that is under way, a new one if there is none."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})
    return messages[-1]


def _add_call(message: dict[str, Any], item: Mapping[str, Any], where: str) -> None:
    name, call_id = item.get("name"), item.get("call_id")
    if not isinstance(name, str) or not isinstance(call_id, str):
        raise Fault("bad_request", "a call has a name and a call_id", param=where)
    arguments = (json.dumps({"input": item.get("input", "")}, ensure_ascii=False)
                 if item.get("type") == "custom_tool_call" else str(item.get("arguments", "")))
    message.setdefault("tool_calls", []).append(
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}})


def _output(messages: Sequence[Mapping[str, Any]], item: Mapping[str, Any], where: str
            ) -> dict[str, Any]:
    call_id = item.get("call_id")
    if not isinstance(call_id, str):
        raise Fault("bad_request", "an output has a call_id", param=f"{where}.call_id")
    name = next((call["function"]["name"] for message in reversed(messages)
                 for call in message.get("tool_calls", ()) if call["id"] == call_id), None)
    return {"role": "tool", "tool_call_id": call_id,
            "content": _text(item.get("output"), f"{where}.output"),
            **({} if name is None else {"name": name})}


def _text(content: Any, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise Fault("bad_request", "a text or a list of parts is needed here", param=where)
    texts = []
    for i, part in enumerate(content):
        if not isinstance(part, Mapping):
            raise Fault("bad_request", "a part is an object", param=f"{where}.{i}")
        if part.get("type") in _TEXTS and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif part.get("type") == "refusal":
            texts.append(str(part.get("refusal", "")))
        else:
            raise Fault("unsupported" if str(part.get("type")).startswith("input_")
                        else "bad_request", f"parts of type {str(part.get('type'))[:40]!r} aren't "
                        "taken here", param=f"{where}.{i}")
    return "".join(texts)


def _thought(item: Mapping[str, Any]) -> str:
    """What a reasoning item says; "" where it was made by another server."""
    parts = [*(item.get("content") or ()), *(item.get("summary") or ())]
    text = "".join(part["text"] for part in parts
                   if isinstance(part, Mapping) and isinstance(part.get("text"), str))
    return text or unsealed(item.get("encrypted_content"))


def sealed(text: str) -> str:
    """``text`` as the content that clients send back unread."""
    return base64.b64encode((SEAL + text).encode("utf-8", "replace")).decode()


def unsealed(content: Any) -> str:
    """The text that :func:`sealed` made ``content`` of; "" for anything else."""
    if not isinstance(content, str):
        return ""
    try:
        text = base64.b64decode(content, validate=True).decode()
    except (binascii.Error, ValueError):  # another server's
        return ""
    return text.removeprefix(SEAL) if text.startswith(SEAL) else ""
