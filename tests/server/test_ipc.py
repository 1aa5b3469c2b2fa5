"""Frames survive being cut anywhere, and broken ones are noticed."""

from __future__ import annotations

import json
import os
import random
import struct
import threading

import pytest

from unladen.server.ipc import MAX_FRAME, BrokenFrame, Frames, Outbox, frame

MESSAGES = [["event", 1, ["p", 0, "a\u20ac\U0001f600\ud800"]], ["pong", 7],
            ["event", 2, [1.5, None]]]


def test_frames_come_whole_however_they_are_cut() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    data = b"".join(frame(MESSAGES[:n]) for n in (1, 2, 3, 0, 3))
    frames, found, at = Frames(), [], 0
    while at < len(data):
        n = rng.randint(1, 9)
        found += frames.feed(data[at:at + n])
        at += n
    assert found == MESSAGES[:1] + MESSAGES[:2] + MESSAGES + MESSAGES


def test_the_end_of_a_cut_frame_is_waited_for() -> None:
    data, frames = frame(MESSAGES), Frames()
    assert frames.feed(data[:-1]) == []
    assert frames.feed(data[-1:]) == MESSAGES


@pytest.mark.parametrize("body", [b"{", b"{}", b"[1]", b"[[]]", b"[[1]]", b"\xff", b"null"])
def test_what_is_no_list_of_messages_is_refused(body: bytes) -> None:
    with pytest.raises(BrokenFrame):
        Frames().feed(struct.pack(">I", len(body)) + body)


def test_a_length_that_no_frame_has_is_refused() -> None:
    with pytest.raises(BrokenFrame, match=str(MAX_FRAME + 1)):
        Frames().feed(struct.pack(">I", MAX_FRAME + 1))


def test_threads_that_send_at_once_dont_mix_their_frames() -> None:
    read_fd, write_fd = os.pipe()
    outbox, text = Outbox(write_fd), "x" * 200_000  # more than a pipe holds
    threads = [threading.Thread(target=outbox.send, args=([["m", i, text]],)) for i in range(4)]
    for thread in threads:
        thread.start()
    frames, found = Frames(), []
    while len(found) < 4:
        found += frames.feed(os.read(read_fd, 65536))
    for thread in threads:
        thread.join()
    os.close(read_fd)
    os.close(write_fd)
    assert sorted(each[1] for each in found) == [0, 1, 2, 3]
    assert all(each[2] == text for each in found)


def test_a_frame_is_compact_json() -> None:
    body = frame([["a", {"b": [1, 2]}]])[4:]
    assert body == b'[["a",{"b":[1,2]}]]'
    assert json.loads(body) == [["a", {"b": [1, 2]}]]
