"""Files without a tokenizer: ids can be decoded, text can't be encoded."""

from __future__ import annotations

from unladen.tokenizer import native
from unladen.tokenizer.fields import Fields
from unladen.tokenizer.kinds.base import Defaults, Kind, Tokens


class Opaque(Kind):
    """``no_vocab``, ``none``, and ``test`` in files that are made for tests."""

    names = ("no_vocab", "none", "test")
    encodes = False

    @classmethod
    def defaults(cls, fields: Fields) -> Defaults:
        """No defaults."""
        return Defaults()

    @classmethod
    def build(cls, fields: Fields, tokens: Tokens) -> native.Tokenizer:
        """A tokenizer whose tokens decode to their own texts."""
        return native.opaque(tokens.vocab, tokens.types, tokens.strips)
