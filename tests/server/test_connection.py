"""Clients that send slowly, read nothing or come in crowds don't stand in another's way."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

import httpx

from server.scripted import ScriptedCore, Step, answer
from unladen.server import listening
from unladen.server.core import Core
from unladen.server.events import Begun, Piece
from unladen.server.settings import ModelSettings, Settings

PATIENCE = 600.0
"""Seconds after which a test gives up. A busy machine takes a few."""
FOREVER: list[Step] = [Begun(1), Piece(0, "Hi"), 1000.0]
"""An answer that doesn't end."""
FLOOD: list[Step] = [Begun(1), *[Piece(0, "x" * 10000)] * 5000]
"""An answer that no buffer holds."""
CHAT = b'{"messages": [{"role": "user", "content": "Hi"}], "stream": true}'


class Running:
    """A server in a thread: its ``core``, and where it listens."""

    def __init__(self, core: ScriptedCore, address: str, bound: list[socket.socket]) -> None:
        self.core, self.address = core, address
        self.at = bound[0].getsockname() if bound else ("", 0)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.at, timeout=PATIENCE)

    def is_well(self) -> bool:
        return bool(httpx.get(f"{self.address}/health", timeout=PATIENCE).is_success)


@contextmanager
def running(core: ScriptedCore, **settings: Any) -> Iterator[Running]:
    """A server with the whole of :mod:`unladen.server.listening` but its signals."""
    chosen = Settings(port=0, drain_s=0.5, **settings)
    bound = listening.bind(chosen)
    found = Running(core, listening.address_of(chosen, bound), bound)
    is_ready, stop = threading.Event(), []

    @asynccontextmanager
    async def made() -> AsyncIterator[Core]:
        yield core

    async def ready(_: Core) -> None:
        ended = asyncio.Event()
        stop.append((asyncio.get_running_loop(), ended))
        is_ready.set()
        await ended.wait()

    async def serve() -> None:
        async def until_told() -> None:
            while not stop:
                await asyncio.sleep(0.01)
            await stop[0][1].wait()
        await listening.serve(chosen, bound, made, ready, asyncio.ensure_future(until_told()))

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        assert is_ready.wait(PATIENCE)
        yield found
    finally:
        stop[0][0].call_soon_threadsafe(stop[0][1].set)
        thread.join(PATIENCE)
        assert not thread.is_alive()


def received(client: socket.socket) -> bytes:
    """Everything up to the connection's end, which is closed."""
    found = b""
    with client, contextlib.suppress(ConnectionError):
        while data := client.recv(65536):
            found += data
    return found


def test_slow_bodies_block_nobody() -> None:
    with (running(ScriptedCore(FOREVER), body_seconds=3.0) as server,
          httpx.Client(base_url=server.address, timeout=PATIENCE) as other):
        assert other.get("/health").is_success
        clients = [server.connect() for _ in range(40)]
        for client in clients:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
                           b"content-length: 100000\r\n\r\n{")
        for _ in range(3):
            for client in clients:
                client.sendall(b" ")
            assert other.get("/health").is_success
        for client in clients:
            assert b" 408 " in received(client).split(b"\r\n")[0]


def test_slow_headers_end() -> None:
    with running(ScriptedCore(), header_seconds=1.5) as server:
        silent, slow = server.connect(), server.connect()
        slow.sendall(b"GET /health HTTP/1.1\r\nhost: loc")
        assert server.is_well()
        assert received(silent) == b""
        assert received(slow).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("n_bytes", [1, 7, 10**6])
def test_many_headers_end_before_they_are_read(n_bytes: int) -> None:
    """``n_bytes`` are sent at a time."""
    with running(ScriptedCore()) as server:
        for n_headers, status in ((900, b"200"), (1100, b"431")):
            head = b"\r\n".join([
                b"GET /health HTTP/1.1", b"Host: localhost", b"Connection: close",
                *(b"x%d: a" % i for i in range(n_headers)), b"", b""])
            client = server.connect()
            with contextlib.suppress(ConnectionError):  # it is refused before its end
                for begin in range(0, len(head), n_bytes):
                    client.sendall(head[begin:begin + n_bytes])
            first = received(client)
            # What comes after the refusal may take it away from the client.
            assert first.startswith(b"HTTP/1.1 " + status) or (
                not first and status == b"431" and n_bytes < len(head))


def test_a_body_counts_for_no_header() -> None:
    body = b'{"model": "tiny-chat",' + b"\n" * 2000 + b'"prompt": "' + b"a" * 20_000 + b'"}'
    head = (b"POST /completion HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body))
    with running(ScriptedCore(answer("a")), max_header_bytes=1024) as server:
        for cut in (len(head) - 3, len(head) - 2, len(head) - 1, len(head), len(head) + 5):
            client = server.connect()
            client.sendall((head + body)[:cut])
            time.sleep(0.05)
            client.sendall((head + body)[cut:])
            assert received(client).startswith(b"HTTP/1.1 200 ")


def test_headers_that_are_too_large_end() -> None:
    with running(ScriptedCore(), max_header_bytes=4096) as server:
        client = server.connect()
        with contextlib.suppress(ConnectionError):
            client.sendall(b"GET /health HTTP/1.1\r\n")
            for i in range(100):
                client.sendall(b"x-%d: %s\r\n" % (i, b"y" * 1000))
        first = received(client)
        assert first.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 ")) or not first
        assert server.is_well()


def test_a_connection_serves_many_requests() -> None:
    with (running(ScriptedCore(), header_seconds=1.5) as server,
          httpx.Client(base_url=server.address, timeout=PATIENCE) as client):
        assert client.get("/v1/models").is_success
        time.sleep(1.6)  # an idle connection isn't a slow request
        assert client.get("/v1/models").is_success


def test_too_many_connections_are_refused_and_idle_ones_give_way() -> None:
    with running(ScriptedCore(FOREVER), max_connections=3, header_seconds=30.0) as server:
        busy = [server.connect() for _ in range(2)]
        for client in busy:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
                           b"content-length: %d\r\n\r\n%s" % (len(CHAT), CHAT))
            assert client.recv(10)
        idle = server.connect()
        idle.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert idle.recv(10)
        third = server.connect()
        third.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
                      b"content-length: %d\r\n\r\n%s" % (len(CHAT), CHAT))
        assert third.recv(12) == b"HTTP/1.1 200"
        assert received(server.connect()).startswith(b"HTTP/1.1 503 ")
        for client in (*busy, third, idle):
            client.close()


def test_a_client_that_reads_nothing_is_given_up() -> None:
    core = ScriptedCore(FLOOD)
    with running(core, write_seconds=0.5) as server:
        client = server.connect()
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
                       b"content-length: %d\r\n\r\n%s" % (len(CHAT), CHAT))
        end = time.monotonic() + PATIENCE
        while not core.n_cancelled:
            assert time.monotonic() < end
            time.sleep(0.05)
        client.close()


def test_a_large_body_that_is_refused_leaves_an_answer() -> None:
    with running(ScriptedCore(), max_body_bytes=100_000) as server:
        reply = httpx.post(f"{server.address}/v1/chat/completions", content=b"x" * 90_000)
        assert reply.status_code == 400
        reply = httpx.post(f"{server.address}/v1/chat/completions", content=b"x" * 150_000)
        assert reply.status_code == 413
        assert reply.json()["error"]["code"] == "request_too_large"


def test_many_large_bodies_at_once_are_bounded() -> None:
    body = b'POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 60000\r\n\r\n'
    with running(ScriptedCore(), max_body_bytes=65536, bodies_bytes=100_000) as server:
        clients = [server.connect() for _ in range(4)]
        for client in clients:
            client.sendall(body + b" " * 50000)
        answered, _, _ = select.select(clients, [], [], PATIENCE)  # the others wait for the rest
        assert all(b" 429 " in client.recv(15) for client in answered) and answered
        for client in clients:
            client.close()
        end = time.monotonic() + PATIENCE
        while httpx.post(f"{server.address}/v1/chat/completions",
                         content=b" " * 60000).status_code != 400:
            assert time.monotonic() < end


def test_running_requests_end_with_an_error_when_the_server_does() -> None:
    core = ScriptedCore(FOREVER)
    with running(core) as server:
        stream = server.connect()
        stream.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
                       b"content-length: %d\r\n\r\n%s" % (len(CHAT), CHAT))
        whole = server.connect()
        body = CHAT.replace(b"true", b"false")
        whole.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
                      b"content-length: %d\r\n\r\n%s" % (len(body), body))
        assert stream.recv(10)
        while len(core.asked) < 2:
            time.sleep(0.01)
    text = received(stream)
    assert b"shutting_down" in text
    assert text.endswith(b"0\r\n\r\n")
    assert b" 503 " in received(whole).split(b"\r\n")[0]
    assert core.n_cancelled == 2


def test_a_stream_that_never_pauses_ends_with_an_error_when_the_server_does() -> None:
    with running(ScriptedCore([Begun(1), *[Piece(0, "x")] * 2_000_000])) as server:
        stream = server.connect()
        stream.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
                       b"content-length: %d\r\n\r\n%s" % (len(CHAT), CHAT))
        assert stream.recv(10)
        texts: list[bytes] = []
        reading = threading.Thread(target=lambda: texts.append(received(stream)))
        reading.start()
    reading.join(PATIENCE)
    assert b"shutting_down" in texts[0][-1000:]
    assert texts[0].endswith(b"0\r\n\r\n")


def test_a_body_that_doesnt_come_keeps_no_server_from_its_end() -> None:
    with running(ScriptedCore()) as server:
        slow = server.connect()
        slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
                     b"content-length: 100000\r\n\r\n{")
        assert server.is_well()
    assert b" 503 " in received(slow).split(b"\r\n")[0]


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="this system has no Unix sockets")
def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "unladen.sock"
    with running(ScriptedCore(), socket=path):
        assert path.stat().st_mode & 0o777 == 0o600
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(transport=transport, base_url="http://unladen") as client:
            assert client.get("/v1/models").is_success
        with pytest.raises(listening.InvalidArgument, match="can't make this socket"):
            listening.bind(Settings(socket=path))


def test_a_port_in_use_is_said() -> None:
    bound = listening.bind(Settings(port=0))
    port = bound[0].getsockname()[1]
    with pytest.raises(listening.InvalidArgument, match=f"port {port} .* in use") as caught:
        listening.bind(Settings(port=port))
    assert "--port" in caught.value.hint
    bound[0].close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "box.example", ""])
def test_other_machines_need_a_key(host: str) -> None:
    with pytest.raises(listening.InvalidArgument, match="no key"):
        listening.check(Settings(host=host, models=(ModelSettings("tiny", "tiny"),)))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "localhost", "127.9.9.9"])
def test_this_machine_needs_none(host: str) -> None:
    listening.check(Settings(host=host))
