"""Bytes that no honest client sends are refused on a real connection, and stop nobody else."""

from __future__ import annotations

import contextlib
import gzip
import socket

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from fuzz.hostile import BODY, CHUNKS, HOST, Hostile, every, get, post
from fuzz.visitors import statuses_of
from server.scripted import ScriptedCore, answer
from server.test_connection import Running, received, running


def statuses(server: Running, *parts: bytes) -> list[int]:
    """The statuses of all answers to ``parts``; 0: there is none."""
    client = server.connect()
    with contextlib.suppress(ConnectionError):  # it may answer before all was sent
        for part in parts:
            client.sendall(part)
    return statuses_of(received(client)) or [0]


def test_hostile_requests_are_refused() -> None:
    core = ScriptedCore(answer("Hi"))
    with running(core) as server:
        for one in every():
            found = statuses(server, one.sent)
            assert one.statuses.issuperset(found), (one.name, found)
        assert server.is_well()
    assert core.asked == []


def test_the_list_has_every_kind() -> None:
    names = [one.name for one in every()]
    assert len(set(names)) == len(names) > 80
    assert all(isinstance(one, Hostile) and 200 not in one.statuses for one in every())


@pytest.mark.parametrize("request_", [
    post(BODY), post(BODY, b"Content-Encoding: identity\r\n"),
    post(CHUNKS, b"Transfer-Encoding: chunked\r\n", has_length=False), get(b"/v1/%6dodels"),
    post(BODY, b"Expect: 100-continue\r\n")[:-len(BODY)] + BODY, get(b"/health", version=b"1.0"),
    b"GET /health HTTP/1.0\r\n\r\n", get(b"/health", b"X: " + b"a" * 60_000 + b"\r\n")],
    ids=range(8))
def test_unusual_requests_are_answered(request_: bytes) -> None:
    with running(ScriptedCore(answer("Hi"))) as server:
        assert statuses(server, request_)[-1] == 200


def test_nothing_after_a_doubtful_length_is_a_request() -> None:
    both = b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n"
    doubtful = post(b"4\r\nabcd\r\n0\r\n\r\n", both, has_length=False).replace(
        b"Connection: close\r\n", b"")
    with running(ScriptedCore()) as server:
        assert statuses(server, doubtful, get(b"/health")) == [400]


def test_pipelined_requests_are_answered_in_turn() -> None:
    one = get(b"/health").replace(b"Connection: close\r\n", b"")
    with running(ScriptedCore(answer("Hi"))) as server:
        chat = post(BODY).replace(b"Connection: close\r\n", b"")
        assert statuses(server, one * 500 + chat + get(b"/nothing")) == [200] * 501 + [404]


def test_headers_in_one_piece_are_bounded() -> None:
    with running(ScriptedCore(), max_header_bytes=4096) as server:
        many = b"".join(b"X-%d: abc\r\n" % i for i in range(500))
        assert statuses(server, get(b"/health", many)) == [431]
        assert statuses(server, get(b"/health", many[:3000].rpartition(b"X")[0])) == [200]


def test_a_large_body_that_is_refused_leaves_an_answer_to_who_reads_late() -> None:
    with running(ScriptedCore(), max_body_bytes=100_000) as server:
        body = b" " * 350_000
        assert statuses(server, post(body)) == [413]
        assert statuses(server, post(body[:1000]), body) == [400]
        endless = post(b"", b"Content-Length: %d\r\n" % 10**10, has_length=False)
        assert statuses(server, endless, *[body] * 10_000) in ([0], [413])  # it ends all the same
        assert server.is_well()


def test_packed_bodies_are_refused_by_name() -> None:
    with running(ScriptedCore()) as server:
        client = server.connect()
        client.sendall(post(gzip.compress(BODY), b"Content-Encoding: gzip\r\n"))
        said = received(client)
        assert b"Content-Encoding 'gzip'" in said and b" 400 " in said.split(b"\r\n")[0]


def test_a_half_closed_connection_ends() -> None:
    with running(ScriptedCore()) as server:
        client = server.connect()
        client.sendall(b"GET /health HTTP/1.1\r\n" + HOST)
        client.shutdown(socket.SHUT_WR)
        received(client)
        assert server.is_well()
