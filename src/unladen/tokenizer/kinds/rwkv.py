"""RWKV's tokenizer: takes the longest token at each position of the text."""

from __future__ import annotations

from unladen.tokenizer import native
from unladen.tokenizer.fields import MAX_SEARCHED_BYTES, Fields
from unladen.tokenizer.kinds.base import Defaults, Kind, Tokens


class Rwkv(Kind):
    """``rwkv``: token texts are byte literals with escapes."""

    names = ("rwkv",)
    max_token_bytes = MAX_SEARCHED_BYTES

    @classmethod
    def defaults(cls, fields: Fields) -> Defaults:
        """No defaults."""
        return Defaults()

    @classmethod
    def build(cls, fields: Fields, tokens: Tokens) -> native.Tokenizer:
        """Needs tokens that are byte literals."""
        try:
            return native.rwkv(tokens.vocab, tokens.types, tokens.strips, tokens.unk)
        except ValueError as error:
            raise fields.error("tokens", str(error)) from None
