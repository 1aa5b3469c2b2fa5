"""Finds the token sequences that contain a text, whatever text comes before and after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from unladen.errors import InvalidArgument
from unladen.tokenizer.tokenizer import Tokenizer

MAX_BYTES, MAX_TOKENS = 40, 20


def sequences(tokenizer: Tokenizer, texts: Iterable[str]) -> tuple[tuple[int, ...], ...]:
    """Token sequences that complete one of ``texts``: a single token that contains the text, or a
    token that ends with the text's beginning, followed by the tokens of the rest.

    Only the first 40 bytes and 20 tokens of a text count. Raises :class:`InvalidArgument` for an
    empty text.
    """
    wanted = [text.encode()[:MAX_BYTES] for text in texts]
    if not all(wanted):
        raise InvalidArgument("a sequence breaker is empty", hint="name the text to break at")
    found: dict[tuple[int, ...], None] = {}
    for token in range(tokenizer.n_vocab):
        piece = tokenizer.token_bytes(token)
        for text in wanted:
            for tail in _tails(tokenizer, piece, text):
                found[token, *tail] = None
    return tuple(found)


def _tails(tokenizer: Tokenizer, piece: bytes, text: bytes) -> Iterator[tuple[int, ...]]:
    if text in piece:
        yield ()
        return
    for n in range(1, min(len(text), len(piece) + 1)):
        if piece.endswith(text[:n]):
            rest = text[n:].decode(errors="ignore")
            tail = tokenizer.encode(rest, add_bos=False, add_eos=False, special=False)
            yield tuple(tail[:MAX_TOKENS])
