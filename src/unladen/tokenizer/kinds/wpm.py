"""WordPiece as in BERT: takes the longest token at each position of a normalized word."""

from __future__ import annotations

from unladen.tokenizer import native
from unladen.tokenizer.fields import MAX_SEARCHED_BYTES, Fields
from unladen.tokenizer.kinds.base import Defaults, Kind, Tokens


class Wpm(Kind):
    """``bert``: tokens that begin a word start with U+2581."""

    names = ("bert",)
    max_token_bytes = MAX_SEARCHED_BYTES
    ends_in_sep = True

    @classmethod
    def defaults(cls, fields: Fields) -> Defaults:
        """CLS and SEP are added; ids are BERT's."""
        tokens = fields.strings("tokens")
        cls_id = fields.token_id("cls_token_id", 0 if tokens is None else len(tokens.lengths))
        return Defaults(add_bos=True, add_sep=True, clean_spaces=True, token_ids={
            "bos": 101 if cls_id is None else cls_id, "unknown": 100, "sep": 102, "pad": 0,
            "mask": 103})

    @classmethod
    def build(cls, fields: Fields, tokens: Tokens) -> native.Tokenizer:
        """Reads ``normalizer.lowercase``, and ``normalizer.strip_accents``, whose default is the
        same."""
        lowercase = fields.flag("normalizer.lowercase", True)
        return native.wpm(tokens.vocab, tokens.types, tokens.strips, lowercase,
                          fields.flag("normalizer.strip_accents", lowercase), tokens.unk)
