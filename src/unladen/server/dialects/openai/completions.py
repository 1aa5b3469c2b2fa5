"""``/v1/completions``: continuations of texts, with ``echo`` and the old shape of logprobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from starlette.responses import JSONResponse, Response

from unladen.server.asked import Text
from unladen.server.core import Core, Wish
from unladen.server.dialects.openai import errors, shapes
from unladen.server.dialects.openai.bodies import CompletionBody
from unladen.server.endpoint import Endpoint, Exchange
from unladen.server.events import Begun, Ended, Event, Piece, Probabilities
from unladen.server.faults import Fault
from unladen.server.streaming import Streamed, begun, whole

Numbered = tuple[int, Event]
"""An event and the number of its prompt."""


def prompts_of(given: str | list[int] | list[str] | list[list[int]], name: str
               ) -> Sequence[str | list[int]]:
    """The prompts of a request: one text, one list of ids, or several of these."""
    if isinstance(given, str):
        return [given]
    if not given:
        raise Fault("bad_request", f"{name} is an empty list", param=name)
    if isinstance(given[0], int):
        return [[i for i in given if isinstance(i, int)]]
    return [each for each in given if isinstance(each, str | list)]


def asked(body: CompletionBody) -> list[Text]:
    """What ``body`` asks, for each prompt."""
    parameters, n = body.parameters(), body.n or 1
    if body.best_of is not None and body.best_of != n:
        raise Fault("unsupported", "best_of isn't supported", param="best_of",
                    hint="ask for n answers and choose")
    if body.suffix is not None and body.echo:
        raise Fault("bad_request", "echo can't be used with suffix", param="echo")
    if body.max_tokens is not None and body.max_tokens >= 0:
        parameters["max_tokens"] = body.max_tokens
    if body.logprobs is not None:
        parameters["logprobs"] = body.logprobs
    return [Text(prompt=prompt, suffix=body.suffix, echo=bool(body.echo), n=n,
                 parameters=parameters) for prompt in prompts_of(body.prompt, "prompt")]


@asynccontextmanager
async def together(core: Core, name: str, texts: Sequence[Text], wish: Wish
                   ) -> AsyncIterator[AsyncIterator[Numbered]]:
    """The events of several prompts as they come. The first fault ends all."""
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(core.answer(name, text, wish))
                   for text in texts]
        yield _merged(streams)


async def _merged(streams: Sequence[AsyncIterator[Event]]) -> AsyncIterator[Numbered]:
    upcoming = {asyncio.ensure_future(anext(stream)): i for i, stream in enumerate(streams)}
    try:
        while upcoming:
            done, _ = await asyncio.wait(upcoming, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                i = upcoming.pop(each)
                try:
                    event = each.result()
                except StopAsyncIteration:
                    continue
                upcoming[asyncio.ensure_future(anext(streams[i]))] = i
                yield i, event
    finally:
        for each in upcoming:
            each.cancel()
        await asyncio.gather(*upcoming, return_exceptions=True)


async def handle(exchange: Exchange) -> Response:
    """Continue texts, whole or as a stream."""
    body: CompletionBody = exchange.body
    context = together(exchange.core, body.model, asked(body), exchange.wish(deadline=body.timeout))
    name = body.model or (await exchange.core.card("")).name
    if not body.stream:
        return JSONResponse(await whole(exchange.request, _whole(context, name, body)))
    events, held = await begun(exchange.request, context)
    return Streamed(_chunks(events, name, body), held, failed=errors.event,
                    heartbeat=lambda: errors.PING,
                    interval=exchange.state.settings.heartbeat_s)


async def _whole(context: Any, name: str, body: CompletionBody) -> dict[str, Any]:
    texts: dict[int, str] = {}
    tokens: dict[int, shapes.TokenList] = {}
    ends: dict[int, Ended] = {}
    n = body.n or 1
    notes: list[str] = []
    async with context as events:
        async for i, event in events:
            index = i * n + getattr(event, "choice", 0)
            if isinstance(event, Begun):
                notes += event.told()
            elif isinstance(event, Piece):
                texts[index] = texts.get(index, "") + event.text
            elif isinstance(event, Probabilities):
                tokens.setdefault(index, []).extend(event.tokens)
            elif isinstance(event, Ended):
                ends[index] = event
    choices = [{"index": i, "text": texts.get(i, ""),
                "logprobs": (shapes.text_logprobs(tokens.get(i, []), 0)
                             if body.logprobs is not None else None),
                "finish_reason": shapes.REASONS[ends[i].reason]} for i in sorted(ends)]
    return shapes.noted({
        "id": shapes.new_id("cmpl"), "object": "text_completion", "created": shapes.now(),
        "model": name, "system_fingerprint": None, "choices": choices, "usage": _usage(ends, n),
        "timings": shapes.timings(ends[0])}, notes)


def _usage(ends: dict[int, Ended], n: int) -> dict[str, Any]:
    """What all prompts took together."""
    by_prompt: dict[int, list[Ended]] = {}
    for index, end in ends.items():
        by_prompt.setdefault(index // n, []).append(end)
    return shapes.sum_usage([shapes.usage(each) for each in by_prompt.values()])


async def _chunks(events: AsyncIterator[Numbered], name: str, body: CompletionBody
                  ) -> AsyncGenerator[bytes, None]:
    head = {"id": shapes.new_id("cmpl"), "object": "text_completion", "created": shapes.now(),
            "model": name, "system_fingerprint": None}
    empty = {"usage": None} if body.wants_usage else {}
    n = body.n or 1
    pending: dict[int, shapes.TokenList] = {}
    offsets: dict[int, int] = {}
    ends: dict[int, Ended] = {}
    notes: dict[int, list[str]] = {}

    def chunk(index: int, text: str, reason: str | None = None) -> bytes:
        logprobs = None
        if body.logprobs is not None:
            offset = offsets.get(index, 0)
            logprobs = shapes.text_logprobs(pending.pop(index, []), offset)
            offsets[index] = offset + sum(map(len, logprobs["tokens"]))
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
        told = notes.get(index // n, []) if reason else []
        return errors.data(shapes.noted({**head, "choices": [choice], **empty}, told))

    async for i, event in events:
        index = i * n + getattr(event, "choice", 0)
        if isinstance(event, Begun):
            notes[i] = event.told()
        elif isinstance(event, Probabilities):
            pending.setdefault(index, []).extend(event.tokens)
        elif isinstance(event, Piece):
            yield chunk(index, event.text)
        elif isinstance(event, Ended):
            ends[index] = event
            yield chunk(index, "", shapes.REASONS[event.reason])
    if body.wants_usage:
        yield errors.data({**head, "choices": [], "usage": _usage(ends, n)})
    yield errors.DONE


ENDPOINTS = [Endpoint("POST", "/v1/completions", handle, "continue a text", body=CompletionBody)]
