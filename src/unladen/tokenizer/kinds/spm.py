"""SentencePiece's BPE: the two neighbours that make the token of the highest score merge first."""

from __future__ import annotations

from unladen.tokenizer import native
from unladen.tokenizer.fields import Fields
from unladen.tokenizer.kinds.base import Defaults, Kind, Tokens


class Spm(Kind):
    """``llama``: spaces are U+2581, unknown characters become byte tokens."""

    names = ("llama",)

    @classmethod
    def defaults(cls, fields: Fields) -> Defaults:
        """BOS is added; BOS, EOS and the unknown token are 1, 2 and 0."""
        return Defaults(add_bos=True, token_ids={"bos": 1, "eos": 2, "unknown": 0})

    @classmethod
    def build(cls, fields: Fields, tokens: Tokens) -> native.Tokenizer:
        """Needs ``scores``, reads ``add_space_prefix``."""
        return native.spm(tokens.vocab, tokens.types, tokens.strips,
                          fields.scores(len(tokens.vocab)),
                          fields.flag("add_space_prefix", True), tokens.unk)
