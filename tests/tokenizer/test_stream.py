"""Streams return whole characters, and nothing after the first complete stop string."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unladen.errors import InvalidArgument
from unladen.tokenizer import StopMatcher, StreamDecoder, Tokenizer


def byte_tokenizer() -> Tokenizer:
    """A SentencePiece vocabulary with only bytes, two spaces and special tokens."""
    tokens = [*(f"<0x{b:02X}>" for b in range(256)), "▁", "▁a", "<s>", "<tool>", "中"]
    return Tokenizer.from_gguf({
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [6] * 256 + [1, 1, 3, 4, 1],
        "tokenizer.ggml.scores": [0.0] * len(tokens)})


@given(st.lists(st.integers(0, 260)) | st.text(max_size=20).map(lambda t: list(t.encode(
    errors="replace"))), st.booleans(), st.booleans())
def test_pieces_are_the_whole(ids: list[int], special: bool, at_start: bool) -> None:
    tokenizer = byte_tokenizer()
    stream = StreamDecoder(tokenizer, special=special, at_start=at_start)
    pieces = [stream.push(i) for i in ids] + [stream.flush()]
    assert "".join(pieces) == tokenizer.decode(ids, special=special, at_start=at_start)


def test_characters_come_whole() -> None:
    stream = StreamDecoder(byte_tokenizer())
    assert [stream.push(b) for b in "é🚀".encode()] == ["", "é", "", "", "", "🚀"]
    assert stream.flush() == ""
    assert [stream.push(0xF0), stream.push(0x9F)] == ["", ""]
    assert stream.flush() == "\ufffd"


def test_continuations_keep_their_space() -> None:
    assert StreamDecoder(byte_tokenizer()).push(257) == " a"
    assert StreamDecoder(byte_tokenizer(), at_start=True).push(257) == "a"


def first_stop(text: str, stops: list[str]) -> tuple[str, bool]:
    """The text before the stop that is complete first; of those the longest."""
    for end in range(len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            return text[:end - max(map(len, found))], True
    return text, False


LETTERS = st.text("ab\n", max_size=12)


@given(st.lists(LETTERS, max_size=8), st.lists(st.text("ab\n", min_size=1, max_size=5),
                                                max_size=4))
def test_cut_at_the_first_stop(pushes: list[str], stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    shown = ""
    for i, text in enumerate(pushes):
        emit, stopped = matcher.push(text)
        shown += emit
        so_far = "".join(pushes[:i + 1])
        assert stopped == first_stop(so_far, stops)[1]
        # Held back is only what may become a stop, and never something that was cut off.
        whole = first_stop(so_far, stops)[0]
        assert whole.startswith(shown)
        held = whole[len(shown):]
        assert any(stop.startswith(held) for stop in stops) or not held
    shown += matcher.flush()
    assert (shown, matcher.stopped) == first_stop("".join(pushes), stops)


def test_examples() -> None:
    matcher = StopMatcher(["###", "\nUser:"])
    assert matcher.push("Hi\n") == ("Hi", False)
    assert matcher.push("U") == ("", False)
    assert matcher.push("p ##") == ("\nUp ", False)
    assert matcher.push("#more") == ("", True)
    assert matcher.push("again") == ("", True)
    assert StopMatcher([]).push("any") == ("any", False)


def test_an_empty_stop_is_an_error() -> None:
    with pytest.raises(InvalidArgument):
        StopMatcher(["a", ""])
