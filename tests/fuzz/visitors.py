"""Visitors of a server: they ask, leave in the middle, and send what nobody should."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fuzz import hostile
from fuzz.asks import (
    CHAT,
    COMING,
    ENCODER,
    EVERY,
    STORY,
    TEXTS,
    Ask,
    moving,
    response,
    words,
)

PATIENCE: Final = 240.0
"""Seconds after which an answer counts as hung. The machine may be busy, or stopped for a while."""
STATUSES: Final = frozenset({200, 400, 404, 405, 408, 411, 413, 415, 422, 429, 431, 503})
"""Statuses that answers to wrong requests may have."""
OWN_FAULT: Final = b"the server's log says"
"""What a fault of the server's own says, before and after the first byte."""
VALUES: Final[Sequence[Any]] = (
    None, True, -1, 0, 10**30, -10**400, 1.5, 1e308, "", "x" * 300, "\ud800", [], {}, [[[]]],
    {"a": {"b": []}}, [None], "\0", "none", "required", {"type": "function"}, [{"role": 1}],
    [0] * 300, {"$ref": "#"}, "(" * 200, ["", None, 3], {"type": "json_schema", "schema": 3})
"""Values that fields are set to."""
FIELDS: Final = ("n", "stop", "logit_bias", "seed", "suffix", "think", "response_format", "grammar",
                 "previous_response_id", "context", "keep_alive", "options", "tools", "tool_choice",
                 "stream", "max_tokens", "format", "input", "messages", "model", "logprobs",
                 "dry_sequence_breakers", "template", "reasoning", "text", "metadata", "timeout")
"""Fields that may be set to any of them, beside those that a body has."""
SHORT_SHARE: Final = 2 / 3
"""The share of short ones among the responses that visitors let the server keep, about."""
_LINGER: Final = struct.pack("ii", 1, 0)
"""Lets a connection end with a reset, as when a client is killed."""


@dataclass
class Client:
    """Asks the server on ``port``, and counts what came."""

    port: int
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    async def raw(self, sent: bytes, leave: Callable[[asyncio.StreamReader], Awaitable[object]]
                  | None = None, *, resets: bool = False) -> bytes:
        """All that comes after ``sent``. ``leave``: reads some of it, and then the client leaves;
        ``resets``: with a reset."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            if resets:
                own: socket.socket = writer.get_extra_info("socket")
                own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
            writer.write(sent)
            if leave is not None:
                await leave(reader)
                return b""
            with contextlib.suppress(ConnectionError):  # it may answer before all was sent
                await writer.drain()
            found = bytearray()
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(2**18):
                    found += data
            return bytes(found)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def ask(self, ask: Ask) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        answer = await self.raw(self.request(ask))
        head, _, body = answer.partition(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in head.lower():
            body = _joined(body)
        return status_of(answer), body

    def request(self, ask: Ask) -> bytes:
        """``ask`` as bytes."""
        return self.head(ask.method, ask.path, body := _bytes(ask.body)) + body

    def head(self, method: str, path: str, body: bytes) -> bytes:
        """The headers of a request."""
        return (f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nConnection: close\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode()

    def judge(self, answer: bytes, sent: str) -> int:
        """The status of an answer to a wrong request."""
        status = status_of(answer)
        self.counts[str(status)] += 1
        if status not in STATUSES:
            self.fault(f"status {status} for {sent}: {answer[-300:]!r}")
        if OWN_FAULT in answer:
            self.fault(f"a fault of the server's own for {sent}: {answer[-300:]!r}")
        return status

    def fault(self, text: str) -> None:
        """Note that something went wrong."""
        self.faults.append(text[:1500])


@dataclass
class Visitor:
    """Does one thing after the other, as ``seed`` decides."""

    client: Client
    seed: str

    async def stay(self, is_over: Callable[[], bool]) -> None:
        """Do something until ``is_over``."""
        rng = random.Random(self.seed)
        actions = {self._ask: 9, self._leave: 6, self._break: 6, self._garble: 3, self._half: 2,
                   self._hostile: 1, self._stored: 1, self._context: 1, self._move: 0.2}
        n = 0
        while not is_over():
            action, n = rng.choices([*actions], [*actions.values()])[0], n + 1
            try:
                async with asyncio.timeout(PATIENCE):
                    await action(random.Random(f"{self.seed} {n}"))
            except TimeoutError:
                self.client.fault(f"no end after {PATIENCE} s: {action.__name__}")
            except (OSError, asyncio.IncompleteReadError) as error:
                self.client.fault(f"{action.__name__}: {type(error).__name__}: {error}")

    async def _ask(self, rng: random.Random) -> None:
        await self._sound(rng.choice(EVERY)(rng))

    async def _move(self, rng: random.Random) -> None:
        await self._sound(moving(rng))

    async def _sound(self, ask: Ask) -> Any:
        """The JSON of the answer to a sound request, or its text. It must be complete."""
        client = self.client
        status, body = await client.ask(ask)
        client.counts[f"sound {status}"] += 1
        said = f"{ask.method} {ask.path} {json.dumps(ask.body)}"
        if OWN_FAULT in body:
            client.fault(f"a fault of the server's own for {said}: {body[-300:]!r}")
        if status == 429:
            return None
        if status != 200:
            client.fault(f"status {status} for a sound request {said}: {body[-300:]!r}")
        elif ask.ends:
            if ask.ends.encode() not in body.rstrip().rpartition(b"\n")[2]:
                client.fault(f"an end is missing of {said}: {body[-300:]!r}")
        elif ask.path != "/metrics":
            try:
                return json.loads(body)
            except ValueError as error:
                client.fault(f"no JSON for {said}: {error}")
        return None

    async def _leave(self, rng: random.Random) -> None:
        """Ask, and leave: at once, after some time, or after some bytes of the answer."""
        ask = rng.choice(TEXTS)(rng)
        seconds, n_bytes = rng.choice([0.0, rng.uniform(0, 0.5)]), rng.randrange(1, 4000)

        async def leave(reader: asyncio.StreamReader) -> None:
            if rng.random() < 0.5:
                await asyncio.sleep(seconds)
            else:
                with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                    await reader.readexactly(n_bytes)

        await self.client.raw(self.client.request(ask), leave, resets=rng.random() < 0.5)
        self.client.counts["left"] += 1

    async def _half(self, rng: random.Random) -> None:
        """Leave within the headers or the body."""
        sent = self.client.request(rng.choice(TEXTS)(rng))

        async def leave(_: asyncio.StreamReader) -> None:
            await asyncio.sleep(rng.choice([0.0, 0.05, 0.3]))

        await self.client.raw(sent[:rng.randrange(len(sent))], leave, resets=rng.random() < 0.5)
        self.client.counts["half"] += 1

    async def _break(self, rng: random.Random) -> None:
        """A body with wrong fields."""
        ask = rng.choice(EVERY)(rng)
        body = dict(ask.body or {})
        for _ in range(rng.randrange(1, 4)):
            body[rng.choice([*body, *FIELDS])] = rng.choice(VALUES)
        sent = _bytes(body)
        self.client.judge(await self.client.raw(self.client.head(
            "POST", ask.path, sent) + sent), f"{ask.path} {sent!r}")

    async def _garble(self, rng: random.Random) -> None:
        """A body with wrong bytes, or nested too deeply, by any method."""
        ask = rng.choice(EVERY)(rng)
        sent = bytearray(_bytes(ask.body) or b"{}")
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(sent) + 1)
            sent[at:at + rng.randrange(2)] = rng.choice([
                b"", bytes([rng.randrange(256)]), b"[" * rng.choice([1, 70, 5000]), b"\\ud800",
                b"NaN", b"1e999", b"9" * 400, b"\xff\xfe", b'"', b"\0"])
        method = rng.choice(["POST", "POST", "POST", "PUT", "GET", "DELETE", "BREW"])
        answer = await self.client.raw(self.client.head(method, ask.path, sent) + sent)
        self.client.judge(answer, f"{method} {ask.path} {bytes(sent)!r}")

    async def _hostile(self, rng: random.Random) -> None:
        """Bytes that no honest client sends."""
        one = rng.choice([*hostile.every()])
        answer = await self.client.raw(one.sent)
        found = statuses_of(answer) or [0]
        self.client.counts[f"hostile {found[0]}"] += 1
        if not one.statuses.issuperset(found):
            self.client.fault(f"{one.name} got {found}: {answer[-300:]!r}")

    async def _stored(self, rng: random.Random) -> None:
        """A response that is kept, read, continued and forgotten."""
        first = await self._sound(kept_response(rng))
        if first is None:
            return
        path = f"/v1/responses/{first['id']}"
        await self._sound(Ask("GET", path))
        await self._sound(Ask("GET", f"{path}/input_items"))
        following = kept_response(rng)
        assert following.body is not None
        following.body["previous_response_id"] = first["id"]
        await self._sound(following)
        if rng.random() < 0.5:
            await self._sound(Ask("DELETE", path))
            status, _ = await self.client.ask(Ask("GET", path))
            if status != 404:
                self.client.fault(f"a response that was forgotten got {status}")

    async def _context(self, rng: random.Random) -> None:
        """A conversation of Ollama's generate."""
        first = await self._sound(kept_context(rng))
        if first is not None:
            following = kept_context(rng)
            assert following.body is not None
            following.body["context"] = first["context"]
            await self._sound(following)


def kept_response(rng: random.Random) -> Ask:
    """A short response that the server keeps."""
    return Ask("POST", "/v1/responses", {"model": CHAT, "input": words(rng),
                                         "max_output_tokens": rng.randrange(1, 5)})


def any_kept_response(rng: random.Random) -> Ask:
    """A response that the server keeps, as large as those of visitors are."""
    if rng.random() < SHORT_SHARE:
        return kept_response(rng)
    ask = response(rng)
    assert ask.body is not None
    ask.body["store"] = True
    return ask


def kept_context(rng: random.Random) -> Ask:
    """A short answer whose conversation the server keeps."""
    return Ask("POST", "/api/generate", {"model": CHAT, "prompt": words(rng), "stream": False,
                                         "options": {"num_predict": rng.randrange(1, 5)}})


def warm(rng: random.Random) -> list[Ask]:
    """A request for each model, so that all are loaded."""
    return [kept_context(rng), Ask("POST", "/completion", {"model": STORY, "n_predict": 2}),
            Ask("POST", "/models/load", {"model": COMING}),
            Ask("POST", "/v1/embeddings", {"model": ENCODER, "input": "a"})]


def status_of(answer: bytes) -> int:
    """The status of an answer; 0: there is none."""
    return (statuses_of(answer[:64]) or [0])[0]


def statuses_of(answer: bytes) -> list[int]:
    """The statuses of all answers that came."""
    return [int(each) for each in re.findall(rb"(?:^|[^a-z ])HTTP/1\.1 (\d{3}) ", answer)]


def _bytes(body: dict[str, Any] | None) -> bytes:
    return b"" if body is None else json.dumps(body).encode()


def _joined(chunks: bytes) -> bytes:
    """A body that came in chunks. One that broke off is left as it is."""
    found, rest = b"", chunks
    while (parts := rest.partition(b"\r\n"))[1] and (n := int(parts[0] or b"0", 16)):
        found, rest = found + parts[2][:n], parts[2][n + 2:]
    return found
