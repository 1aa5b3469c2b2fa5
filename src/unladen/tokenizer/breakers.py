"""Which tokens spell a text, whatever stands around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from unladen.errors import InvalidArgument
from unladen.tokenizer.tokenizer import Tokenizer

MAX_BYTES, MAX_TOKENS = 40, 20


def sequences(tokenizer: Tokenizer, texts: Iterable[str]) -> tuple[tuple[int, ...], ...]:
    """Token sequences in which one of ``texts`` ends: a token that holds it, or one that ends in
    its beginning, followed by the tokens of the rest.

    What lies beyond 40 bytes or 20 tokens of a text isn't looked at. Raises
    :class:`InvalidArgument` for an empty text.
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
