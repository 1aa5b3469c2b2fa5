"""SentencePiece's unigram model: finds the likeliest tokens of a text."""

from __future__ import annotations

from unladen.tokenizer import native
from unladen.tokenizer.fields import MAX_SEARCHED_BYTES, Fields
from unladen.tokenizer.kinds.base import Defaults, Kind, Tokens


class Ugm(Kind):
    """``t5``: a table in the file normalizes the text; spaces are U+2581."""

    names = ("t5",)
    max_token_bytes = MAX_SEARCHED_BYTES

    @classmethod
    def defaults(cls, fields: Fields) -> Defaults:
        """EOS is added; ids are T5's."""
        return Defaults(add_eos=True, token_ids={"eos": 1, "unknown": 2, "pad": 0})

    @classmethod
    def merges_spaces(cls, fields: Fields) -> bool:
        """As the file says."""
        return (fields.flag("add_space_prefix", False)
                and fields.flag("remove_extra_whitespaces", False))

    @classmethod
    def build(cls, fields: Fields, tokens: Tokens) -> native.Tokenizer:
        """Needs ``scores``; reads ``precompiled_charsmap``, ``add_space_prefix`` and
        ``remove_extra_whitespaces``."""
        scores = fields.scores(len(tokens.vocab))
        try:
            charsmap = native.Charsmap(fields.octets("precompiled_charsmap"))
        except ValueError as error:
            raise fields.error("precompiled_charsmap", str(error)) from None
        return native.ugm(tokens.vocab, tokens.types, tokens.strips, scores, charsmap,
                          fields.flag("add_space_prefix", False),
                          fields.flag("remove_extra_whitespaces", False), tokens.unk)
