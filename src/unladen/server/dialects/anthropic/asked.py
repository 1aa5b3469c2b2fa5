"""From Anthropic's messages to what a model is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from unladen.server.asked import Chat
from unladen.server.dialects.anthropic.bodies import CountBody, MessagesBody, Tool, ToolChoice
from unladen.server.faults import Fault

_CHANGING = re.compile(r"(?m)^(x-anthropic-billing-header:.*?\bcch=)[0-9a-fA-F]+")
"""What Claude Code changes in every request. Left as it is, no request would find its prefix in
the cache."""
_SKIPPED = frozenset({"redacted_thinking", "server_tool_use", "web_search_tool_result",
                      "code_execution_tool_result", "mcp_tool_use", "mcp_tool_result",
                      "container_upload", "compaction"})
"""Blocks of a history that say nothing to a model of another maker."""


def asked(body: CountBody) -> Chat:
    """What ``body`` asks of a model. Raises a ``Fault``."""
    messages: list[dict[str, Any]] = []
    system = _system(body.system)
    if system:
        messages.append({"role": "system", "content": system})
    names: dict[str, str] = {}
    for i, message in enumerate(body.messages):
        messages += _turn(message.role, message.content, f"messages.{i}.content", names)
    choice, is_parallel = _choice(body.tool_choice)
    return Chat(messages=messages, tools=_tools(body.tools or ()), tool_choice=choice,
                parallel_calls=is_parallel, parameters=_parameters(body, messages))


def _parameters(body: CountBody, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    thinking = body.thinking
    given: dict[str, Any] = {"reasoning": thinking is not None and thinking.type != "disabled"}
    if thinking is not None and thinking.type == "adaptive":
        del given["reasoning"]
    if thinking is not None and thinking.budget_tokens:
        given["reasoning_tokens"] = thinking.budget_tokens
    if messages and messages[-1]["role"] == "assistant" and "tool_calls" not in messages[-1]:
        given["continues"] = True
    form = body.output_format or (body.output_config.format if body.output_config else None)
    if form:
        given["response_format"] = form
    if isinstance(body, MessagesBody):
        for name in ("mcp_servers", "container"):
            if getattr(body, name):
                raise Fault("unsupported", f"{name} isn't supported", param=name)
        given["max_tokens"] = body.max_tokens
        given |= {name: value for name in ("temperature", "top_p", "top_k")
                  if (value := getattr(body, name)) is not None}
        if stops := [stop for stop in body.stop_sequences or () if stop]:
            given["stop"] = stops
    return given


def _system(given: str | Sequence[Mapping[str, Any]] | None) -> str:
    text = given if isinstance(given, str) else "\n\n".join(
        _text(block, f"system.{i}") for i, block in enumerate(given or ()))
    return _CHANGING.sub(r"\g<1>0", text)


def _text(block: Mapping[str, Any], where: str) -> str:
    if block.get("type") != "text" or not isinstance(block.get("text"), str):
        raise Fault("bad_request", "a block of text is needed here", param=where,
                    hint='{"type": "text", "text": "..."}')
    return str(block["text"])


def _turn(role: str, content: str | Sequence[Mapping[str, Any]], where: str,
          names: dict[str, str]) -> list[dict[str, Any]]:
    """The messages of a turn. ``names``: the tools' names by the ids of calls so far."""
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for i, block in enumerate(content):
        place, kind = f"{where}.{i}", block.get("type")
        if kind == "text":
            texts.append(_text(block, place))
        elif kind == "tool_use" and role == "assistant":
            calls.append(_call(block, place, names))
        elif kind == "tool_result" and role == "user":
            results.append(_result(block, place, names))
        elif kind == "thinking" and role == "assistant":
            thoughts.append(str(block.get("thinking", "")))
        elif kind == "document" and isinstance(block.get("source"), Mapping):
            texts.append(_document(block, place))
        elif kind == "search_result":
            texts.append(_parts(block.get("content"), place))
        elif kind not in _SKIPPED:
            raise Fault("unsupported" if kind in ("image", "document") else "bad_request",
                        f"blocks of type {str(kind)[:40]!r} aren't taken here", param=place)
    if role != "assistant":
        said = [{"role": role, "content": "\n\n".join(texts)}] if texts or not results else []
        return [*results, *said]
    message: dict[str, Any] = {"role": role, "content": "".join(texts)}
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return [message]


def _call(block: Mapping[str, Any], where: str, names: dict[str, str]) -> dict[str, Any]:
    name, call_id = block.get("name"), block.get("id")
    if not isinstance(name, str) or not isinstance(call_id, str):
        raise Fault("bad_request", "a tool_use has an id and a name", param=where)
    names[call_id] = name
    return {"id": call_id, "type": "function", "function": {
        "name": name, "arguments": json.dumps(block.get("input", {}), ensure_ascii=False)}}


def _result(block: Mapping[str, Any], where: str, names: Mapping[str, str]) -> dict[str, Any]:
    call_id = block.get("tool_use_id")
    if not isinstance(call_id, str):
        raise Fault("bad_request", "a tool_result has a tool_use_id", param=where)
    text = _parts(block.get("content", ""), where)
    if block.get("is_error"):
        text = f"Error: {text}"
    named = {"name": names[call_id]} if call_id in names else {}
    return {"role": "tool", "tool_call_id": call_id, "content": text, **named}


def _parts(content: Any, where: str) -> str:
    """The text of a result, which may be blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise Fault("bad_request", "a text or a list of blocks is needed here", param=where)
    texts = []
    for i, block in enumerate(content):
        if not isinstance(block, Mapping):
            raise Fault("bad_request", "a block is an object", param=f"{where}.content.{i}")
        if block.get("type") in ("image", "document"):
            raise Fault("unsupported", f"the model takes no {block['type']}",
                        param=f"{where}.content.{i}")
        if isinstance(block.get("text"), str):
            texts.append(block["text"])
    return "\n\n".join(texts)


def _document(block: Mapping[str, Any], where: str) -> str:
    source = block["source"]
    if source.get("type") == "text" and isinstance(source.get("data"), str):
        return str(source["data"])
    if source.get("type") == "content":
        return _parts(source.get("content"), where)
    raise Fault("unsupported", "documents are taken as text only", param=where)


def _tools(given: Sequence[Tool]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {
        "name": tool.name, "parameters": tool.input_schema or {"type": "object", "properties": {}},
        **({"description": tool.description} if tool.description else {})}}
        for tool in given if tool.type in (None, "custom")]


def _choice(given: ToolChoice | None) -> tuple[str, bool]:
    """The choice of tools as a word or a name, and whether calls may be parallel."""
    if given is None:
        return "auto", True
    is_parallel = not given.disable_parallel_tool_use
    if given.type == "tool":
        if not given.name:
            raise Fault("bad_request", "a choice of type tool has a name",
                        param="tool_choice.name")
        return given.name, is_parallel
    return {"auto": "auto", "any": "required", "none": "none"}[given.type], is_parallel
