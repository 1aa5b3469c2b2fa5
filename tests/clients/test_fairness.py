"""Complaint 7: one long prompt stalls everybody.

What counts is the order of events: how many tokens running streams get between the arrival of a
long prompt and its first token. A peer that reads a whole batch at a time gives each stream one
token a batch."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

pytest.importorskip("httpx", reason="needs httpx")

import httpx

from clients.greeter import CONTEXT, GREETING, write_greeter
from clients.serving import Served, serving

N_STREAMS = 4
SENTENCE, SENTENCES = "The quick brown fox. ", 6_000
"""What the long prompt consists of: 42,000 tokens, which take a second or more to read."""
PEER_BATCH = 2048
"""Tokens that a peer reads at a time unless it is told otherwise."""
ENDLESS = CONTEXT - 1_000
"""Tokens that no stream reaches."""
PATIENCE = 600.0
"""Seconds after which a test gives up."""
SETTINGS: dict[str, dict[str, object]] = {
    "as it comes": {}, "in batches of a peer": {"batch_size": PEER_BATCH, "step_seconds": 0.0}}
"""A server as it comes reads fewer tokens at a time than a peer, and fewer still where steps take
long. The model here is so quick that this would show with large batches only if ``step_seconds``
were small: with 0, a step may take three times as long as one without prompts."""


@pytest.fixture(scope="module", params=SETTINGS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
           ) -> Iterator[Served]:
    path = write_greeter(tmp_path_factory.mktemp("greeter") / "greeter.gguf",
                         again_and_again=True)
    with serving({"ref": path, "name": "greeter", "max_seqs": N_STREAMS + 2, "speculate": False,
                  "cache_tokens": (N_STREAMS + 2) * CONTEXT, **SETTINGS[request.param]},
                 preload=True) as found:
        yield found


async def chunks(client: httpx.AsyncClient, text: str, n: int) -> AsyncIterator[dict[str, Any]]:
    """The events of an answer of ``n`` tokens to ``text``."""
    async with client.stream("POST", "/v1/chat/completions", json={
            "model": "greeter", "stream": True, "max_tokens": n, "temperature": 0,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": text}]}) as reply:
        assert reply.status_code == 200
        async for line in reply.aiter_lines():
            if line.startswith("data: {"):
                yield json.loads(line.removeprefix("data: "))


def text_of(chunk: dict[str, Any]) -> str:
    """The text that a chunk of a chat brings; "" for none."""
    return "".join(each["delta"].get("content") or "" for each in chunk["choices"])


async def run_streams(client: httpx.AsyncClient, counts: list[int]) -> None:
    """Streams that never end; ``counts`` has the pieces that came of each."""
    async def one(i: int) -> None:
        async for chunk in chunks(client, "Hi", ENDLESS):
            counts[i] += bool(text_of(chunk))
    await asyncio.gather(*map(one, range(N_STREAMS)))


async def until(counts: list[int], n: int, streams: asyncio.Future[None]) -> None:
    """Wait until each of ``streams`` brought ``n`` pieces."""
    while min(counts) < n:
        assert not streams.done(), streams
        await asyncio.sleep(0.01)


def test_7_streams_go_on_while_a_long_prompt_is_read(served: Served) -> None:
    async def test() -> None:
        counts, n_prompt = [0] * N_STREAMS, 0
        async with (asyncio.timeout(PATIENCE),
                    httpx.AsyncClient(base_url=served.address, timeout=PATIENCE) as client):
            streams = asyncio.ensure_future(run_streams(client, counts))
            await until(counts, 5, streams)
            before, between = [*counts], []

            async def ask_short() -> str:
                text = "".join([text_of(chunk) async for chunk in chunks(client, "Hello", 2)])
                assert not between, "the long one was first"
                return text

            short: asyncio.Future[str] | None = None
            text = f"{secrets.token_hex(8)} " + SENTENCE * SENTENCES  # no request had it before
            async for chunk in chunks(client, text, 2):
                if short is None:  # it has begun: the long one is read now
                    short = asyncio.ensure_future(ask_short())
                if text_of(chunk) and not between:
                    between = [now - then for now, then in zip(counts, before, strict=True)]
                n_prompt = (chunk.get("usage") or {}).get("prompt_tokens", 0)
            assert short is not None and GREETING.startswith(await short)
            streams.cancel()
            await asyncio.gather(streams, return_exceptions=True)
        n_batches = -(-n_prompt // PEER_BATCH)
        assert n_batches > 10
        print(f"{between} pieces, {n_batches} batches")
        assert min(between) >= 2 * n_batches, (between, n_batches)
    asyncio.run(test())
