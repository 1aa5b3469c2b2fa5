"""Bytes that no honest client sends, and the statuses that they may get."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

HOST: Final = b"Host: 127.0.0.1\r\n"
JSON: Final = b"Content-Type: application/json\r\n"
BODY: Final = (b'{"model": "tiny-chat", "messages": [{"role": "user", "content": "Hi"}], '
               b'"max_tokens": 3}')
CHUNKS: Final = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
CHAT: Final = b"/v1/chat/completions"
REFUSED: Final = frozenset({400})


@dataclass(frozen=True, slots=True)
class Hostile:
    """The bytes ``sent``, called ``name``, which get one of ``statuses``; 0: the connection ends
    without an answer."""

    name: str
    sent: bytes
    statuses: frozenset[int] = REFUSED


def get(target: bytes, more: bytes = b"", version: bytes = b"1.1") -> bytes:
    """A GET of ``target``."""
    return (b"GET " + target + b" HTTP/" + version + b"\r\n" + HOST + b"Connection: close\r\n"
            + more + b"\r\n")


def post(body: bytes, more: bytes = b"", *, has_length: bool = True) -> bytes:
    """A POST of ``body`` to the chat."""
    length = b"Content-Length: %d\r\n" % len(body) if has_length else b""
    return (b"POST " + CHAT + b" HTTP/1.1\r\n" + HOST + JSON + b"Connection: close\r\n" + length
            + more + b"\r\n" + body)


def every() -> Iterator[Hostile]:
    """All of them."""
    yield from _lengths()
    yield from _forms()
    yield from _targets()
    yield from _bodies()


def _lengths() -> Iterator[Hostile]:
    """Where does the body end? A proxy before the server may see another end."""
    both = b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n" % len(CHUNKS)
    yield Hostile("both lengths", post(CHUNKS, both, has_length=False))
    yield Hostile("both lengths, the other first", post(
        CHUNKS, b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", has_length=False)
        + get(b"/health"))
    yield Hostile("two lengths", post(BODY, b"Content-Length: 5\r\n"))
    for length in (b"+5", b"-1", b"1e3", b"0x10", b"5 5", b"9" * 30, b"\xb2", b"", b"5, 6"):
        yield Hostile(f"length {length!r}", post(BODY, b"Content-Length: " + length + b"\r\n",
                                                 has_length=False))
    for coding in (b"xchunked", b"gzip, chunked", b"chunked, identity", b"\x0bchunked",
                   b"chunked\r\nTransfer-Encoding: identity"):
        yield Hostile(f"coding {coding!r}", post(
            CHUNKS, b"Transfer-Encoding: " + coding + b"\r\n", has_length=False))
    yield Hostile("a space before the colon", post(CHUNKS, b"Transfer-Encoding : chunked\r\n",
                                                   has_length=False))
    for size in (b"-1", b"0x5", b"g", b" 5", b""):
        yield Hostile(f"chunk of size {size!r}", post(
            size + b"\r\nabc\r\n0\r\n\r\n", b"Transfer-Encoding: chunked\r\n", has_length=False))


def _forms() -> Iterator[Hostile]:
    """Lines and headers that aren't HTTP/1.1."""
    yield Hostile("HTTP/0.9", b"GET /health\r\n\r\n")
    yield Hostile("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    yield Hostile("HTTP/3.7", get(b"/health", version=b"3.7"))
    yield Hostile("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500))
    yield Hostile("no HTTP", bytes(range(256)) * 10)
    yield Hostile("bare CR", b"GET /health HTTP/1.1\r" + HOST + b"\r\n")
    yield Hostile("NUL in a value", get(b"/health", b"X: a\0b\r\n"))
    yield Hostile("NUL in a name", get(b"/health", b"X\0: ab\r\n"))
    yield Hostile("no host", b"GET /health HTTP/1.1\r\n\r\n")
    yield Hostile("two hosts", get(b"/health", HOST))
    yield Hostile("an empty host", b"GET /health HTTP/1.1\r\nHost:\r\nConnection: close"
                  b"\r\n\r\n", frozenset({400, 403}))
    yield Hostile("10,000 headers", get(b"/health", b"".join(
        b"X-%d: a\r\n" % i for i in range(10_000))), frozenset({400, 413, 431}))
    yield Hostile("one large header", get(b"/health", b"X: " + b"a" * 100_000 + b"\r\n"),
                  frozenset({0, 400, 413, 431}))
    yield Hostile("a long target", get(b"/" + b"a" * 100_000), frozenset({0, 400, 413, 414, 431}))
    yield Hostile("a long method", b"A" * 70_000 + get(b"/health")[3:],
                  frozenset({0, 400, 405, 413, 431}))
    yield Hostile("a websocket", get(CHAT, (
        b"Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        b"Sec-WebSocket-Version: 13\r\n")).replace(b": close", b": Upgrade, close"),
        frozenset({400, 404, 405, 426}))


def _targets() -> Iterator[Hostile]:
    """Targets that want to be read as others."""
    missing = frozenset({400, 403, 404, 405})
    for target in (b"http://evil.example/health", b"http://evil.example/v1/models", b"*", b"health",
                   b"//evil.example/health", b"/v1/models/..%2f..%2fetc%2fpasswd",
                   b"/v1/models/%2e%2e/x", b"/v1/models/../../etc/passwd", b"/v1/models/tiny%00",
                   b"/v1/models/tiny-chat%0d%0aX:y", b"/v1/models/%ff%fe", b"/v1/models/%",
                   b"/v1/models/", b"/health%2f..", b"/%2e%2e/health", b"/health;x", b"/\0health",
                   b"/health\x7f", b"/health#here", b"/props?model=%00",
                   b"/props?model=..%2f..%2fetc", b"/v1/responses/..%2f..%2fhealth"):
        yield Hostile(f"target {target!r}", get(target), missing)
    yield Hostile("CONNECT", b"CONNECT evil.example:443 HTTP/1.1\r\n" + HOST
                  + b"Connection: close\r\n\r\n", missing)
    yield Hostile("another method in a header", get(CHAT, b"X-HTTP-Method-Override: POST\r\n"),
                  frozenset({405}))


def _bodies() -> Iterator[Hostile]:
    """Bodies that aren't what they are said to be, or too much."""
    for name, pack in (("gzip", gzip.compress), ("deflate", zlib.compress)):
        said = b"Content-Encoding: " + name.encode() + b"\r\n"
        yield Hostile(f"{name} body", post(pack(BODY), said))
        yield Hostile(f"{name} bomb", post(pack(b"0" * 20_000_000), said))
        yield Hostile(f"a plain body that is said to be {name}", post(BODY, said))
    yield Hostile("UTF-16", post(BODY.decode().encode("utf-16")))
    for name, body in (
            ("nothing", b""), ("NUL", b"\0" * 10), ("broken", BODY[:-1]), ("bytes", b"\xff" * 50),
            ("NaN", BODY.replace(b"3}", b"NaN}")), ("infinite", BODY.replace(b"3}", b"1e999}")),
            ("a huge number", BODY.replace(b"3}", b"9" * 5000 + b"}")),
            ("a list", b"[]"), ("a number", b"1"), ("two values", BODY + BODY)):
        yield Hostile(f"body: {name}", post(body))
    deep = b"[" * 100_000
    yield Hostile("deep", post(BODY.replace(b"3}", b'3, "x": ' + deep + b"]" * 100_000 + b"}")),
                  frozenset({413}))
    yield Hostile("deep, without an end", post(deep), frozenset({400, 413}))
    yield Hostile("many values", post(b"[" + b"0," * 500_000 + b"0]"), frozenset({413}))
