"""``/v1/chat/completions``: answers in conversations, whole or in chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from unladen.server.asked import Chat
from unladen.server.dialects.openai import errors, shapes
from unladen.server.dialects.openai.bodies import ChatBody
from unladen.server.dialects.openai.reasoning import effort_of
from unladen.server.endpoint import Endpoint, Exchange
from unladen.server.events import (
    Begun,
    CallArguments,
    CallBegun,
    Ended,
    Event,
    Piece,
    Probabilities,
    Reasoning,
)
from unladen.server.faults import Fault
from unladen.server.streaming import Streamed, begun, whole


def asked(body: ChatBody) -> Chat:
    """What ``body`` asks of a model. Raises a ``Fault`` for fields that can't be honoured."""
    for name in ("audio", "web_search_options", "functions", "function_call"):
        if getattr(body, name) is not None:
            raise Fault("unsupported", f"{name} isn't supported", param=name,
                        hint="offer tools" if name.startswith("function") else "")
    if body.modalities and body.modalities != ["text"]:
        raise Fault("unsupported", "answers are text only", param="modalities")
    parameters = body.parameters()
    limits = [n for n in (body.max_completion_tokens, body.max_tokens) if n is not None and n >= 0]
    if limits:
        parameters["max_tokens"] = limits[0]
    if body.logprobs:
        parameters["logprobs"] = body.top_logprobs or 0
    elif body.top_logprobs:
        raise Fault("bad_request", "top_logprobs needs logprobs", param="top_logprobs",
                    hint='send "logprobs": true')
    if body.continue_final_message:
        parameters["continues"] = True
    parameters |= _reasoning(body)
    tools = allowed([tool.model_dump(exclude_none=True) for tool in body.tools or ()
                     if tool.type == "function" and tool.function is not None], body.tool_choice)
    return Chat(messages=body.messages, tools=tools, tool_choice=choice_of(body.tool_choice),
                parallel_calls=body.parallel_tool_calls is not False, n=body.n or 1,
                parameters=parameters)


def allowed(tools: list[dict[str, Any]], given: str | Mapping[str, Any] | None
            ) -> list[dict[str, Any]]:
    """Those of ``tools`` that the choice ``given`` allows: it may name some of them. Raises a
    ``Fault`` for one that isn't offered."""
    if not isinstance(given, Mapping) or given.get("type") != "allowed_tools":
        return tools
    inner = given.get("allowed_tools", given)
    named = inner.get("tools") if isinstance(inner, Mapping) else None
    if not isinstance(named, list):
        raise Fault("bad_request", "allowed_tools has no list of tools",
                    param="tool_choice.tools")
    names = {_name_of(each) for each in named}
    known = {tool["function"]["name"] for tool in tools}
    if missing := names - known - {None}:
        raise Fault("bad_request", f"tool_choice allows {min(map(str, missing))[:40]!r}, which "
                    "isn't offered", param="tool_choice.tools", hint="offer it in tools")
    return [tool for tool in tools if tool["function"]["name"] in names]


def _name_of(tool: Any) -> str | None:
    """The name of a function; None for tools of other types, which are skipped."""
    if not isinstance(tool, Mapping) or tool.get("type", "function") != "function":
        return None
    inner = tool.get("function", tool)
    name = inner.get("name") if isinstance(inner, Mapping) else None
    return name if isinstance(name, str) else None


def choice_of(given: str | Mapping[str, Any] | None) -> str:
    """``tool_choice`` as a word or a tool's name."""
    if given is None:
        return "auto"
    if isinstance(given, str):
        return given
    function = given.get("function")
    name = function.get("name") if isinstance(function, Mapping) else given.get("name")
    if given.get("type") == "function" and isinstance(name, str):
        return name
    if given.get("type") == "allowed_tools":
        inner = given.get("allowed_tools", given)
        if isinstance(inner, Mapping) and inner.get("mode") in ("auto", "required"):
            return str(inner["mode"])
    raise Fault("bad_request", "tool_choice must be none, auto, required or name a function",
                hint='{"type": "function", "function": {"name": "..."}}', param="tool_choice")


def _reasoning(body: ChatBody) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if body.reasoning_effort is not None:
        given["reasoning"] = effort_of(body.reasoning_effort, "reasoning_effort")
    if body.thinking_budget_tokens is not None and body.thinking_budget_tokens >= 0:
        given["reasoning_tokens"] = body.thinking_budget_tokens
    if body.chat_template_kwargs:
        given["template_variables"] = body.chat_template_kwargs
    return given


async def handle(exchange: Exchange) -> Response:
    """Answer, whole or as a stream."""
    body: ChatBody = exchange.body
    context = exchange.core.answer(body.model, asked(body), exchange.wish(deadline=body.timeout))
    name = body.model or (await exchange.core.card("")).name
    if not body.stream:
        return JSONResponse(await whole(exchange.request, _whole(context, name)))
    events, held = await begun(exchange.request, context)
    return Streamed(_chunks(events, name, body), held, failed=errors.event,
                    heartbeat=lambda: errors.PING,
                    interval=exchange.state.settings.heartbeat_s)


class _Choice:
    """An answer as it grows."""

    def __init__(self) -> None:
        self.text = self.reasoning = ""
        self.calls: dict[int, dict[str, Any]] = {}
        self.tokens: shapes.TokenList | None = None
        self.end: Ended | None = None

    def take(self, event: Event) -> None:
        """Add ``event``."""
        if isinstance(event, Piece):
            self.text += event.text
        elif isinstance(event, Reasoning):
            self.reasoning += event.text
        elif isinstance(event, CallBegun):
            self.calls[event.index] = {"id": event.id, "type": "function",
                                       "function": {"name": event.name, "arguments": ""}}
        elif isinstance(event, CallArguments):
            self.calls[event.index]["function"]["arguments"] += event.text
        elif isinstance(event, Probabilities):
            self.tokens = self.tokens or []
            self.tokens += event.tokens
        elif isinstance(event, Ended):
            self.end = event

    def shown(self, index: int) -> dict[str, Any]:
        """The choice as JSON."""
        assert self.end is not None
        message: dict[str, Any] = {
            "role": "assistant", "content": self.text if self.text or not self.calls else None,
            "refusal": None}
        if self.reasoning:
            message |= {"reasoning_content": self.reasoning, "reasoning": self.reasoning}
        if self.calls:
            message["tool_calls"] = [self.calls[i] for i in sorted(self.calls)]
        return {"index": index, "message": message,
                "logprobs": None if self.tokens is None else shapes.chat_logprobs(self.tokens),
                "finish_reason": shapes.REASONS[self.end.reason]}


async def _whole(context: Any, name: str) -> dict[str, Any]:
    choices: dict[int, _Choice] = {}
    notes: list[str] = []
    async with context as events:
        async for event in events:
            if isinstance(event, Begun):
                notes = event.told()
            if (index := getattr(event, "choice", None)) is not None:
                choices.setdefault(index, _Choice()).take(event)
    ends = [choice.end for choice in choices.values() if choice.end is not None]
    return shapes.noted({
        "id": shapes.new_id("chatcmpl"), "object": "chat.completion", "created": shapes.now(),
        "model": name, "system_fingerprint": None, "service_tier": None,
        "choices": [choices[i].shown(i) for i in sorted(choices)],
        "usage": shapes.usage(ends), "timings": shapes.timings(ends[0])}, notes)


async def _chunks(events: AsyncIterator[Event], name: str, body: ChatBody
                  ) -> AsyncGenerator[bytes, None]:
    head = {"id": shapes.new_id("chatcmpl"), "object": "chat.completion.chunk",
            "created": shapes.now(), "model": name, "system_fingerprint": None}
    empty = {"usage": None} if body.wants_usage else {}

    def chunk(index: int, delta: dict[str, Any], reason: str | None = None,
              tokens: shapes.TokenList | None = None, **more: Any) -> bytes:
        choice = {"index": index, "delta": delta,
                  "logprobs": None if tokens is None else shapes.chat_logprobs(tokens),
                  "finish_reason": reason}
        return errors.data({**head, "choices": [choice], **empty, **more})

    for index in range(body.n or 1):
        yield chunk(index, {"role": "assistant", "content": ""})
    pending: dict[int, shapes.TokenList] = {}
    ends = []
    notes: list[str] = []
    async for event in events:
        if isinstance(event, Begun):
            notes = event.told()
        elif isinstance(event, Probabilities):
            pending.setdefault(event.choice, []).extend(event.tokens)
        elif isinstance(event, Ended):
            ends.append(event)
            tokens = pending.pop(event.choice, None)
            if tokens:
                yield chunk(event.choice, {"content": ""}, None, tokens)
            yield chunk(event.choice, {}, shapes.REASONS[event.reason],
                        **shapes.noted({"timings": shapes.timings(event)}, notes))
        elif (delta := _delta(event)) is not None:
            index = event.choice  # type: ignore[union-attr]  # each event with a delta has one
            yield chunk(index, delta, None, pending.pop(index, None))
    if body.wants_usage:
        yield errors.data({**head, "choices": [], "usage": shapes.usage(ends)})
    yield errors.DONE


def _delta(event: Event) -> dict[str, Any] | None:
    """The delta that ``event`` is; None if it has none."""
    if isinstance(event, Piece):
        return {"content": event.text}
    if isinstance(event, Reasoning):
        return {"reasoning_content": event.text, "reasoning": event.text}
    if isinstance(event, CallBegun):
        return {"tool_calls": [{"index": event.index, "id": event.id, "type": "function",
                                "function": {"name": event.name, "arguments": ""}}]}
    if isinstance(event, CallArguments):
        return {"tool_calls": [{"index": event.index, "function": {"arguments": event.text}}]}
    return None


ENDPOINTS = [Endpoint("POST", path, handle, "answer a conversation", body=ChatBody)
             for path in ("/v1/chat/completions", "/chat/completions")]
