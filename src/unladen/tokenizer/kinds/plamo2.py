"""PLaMo 2's tokenizer: finds the cheapest tokens of a text, starting at its end."""

from __future__ import annotations

import numpy as np

from unladen.tokenizer import native
from unladen.tokenizer.fields import MAX_SEARCHED_BYTES, Fields
from unladen.tokenizer.kinds.base import Defaults, Kind, Tokens

MAX_SCORE = 2e5
"""Greater scores are refused: native code counts ten-thousandths of scores in 32 bits."""


class Plamo2(Kind):
    """``plamo2``: text isn't normalized, and every byte has a token."""

    names = ("plamo2",)
    max_token_bytes = MAX_SEARCHED_BYTES

    @classmethod
    def defaults(cls, fields: Fields) -> Defaults:
        """PLaMo's ids."""
        return Defaults(token_ids={"bos": 1, "eos": 2, "unknown": 0, "pad": 3})

    @classmethod
    def build(cls, fields: Fields, tokens: Tokens) -> native.Tokenizer:
        """Needs ``scores`` and a token for each byte."""
        scores = fields.scores(len(tokens.vocab))
        if np.abs(scores).max(initial=0) > MAX_SCORE:
            raise fields.error("scores", f"has a value beyond {MAX_SCORE:g}")
        try:
            return native.plamo2(tokens.vocab, tokens.types, tokens.strips, scores)
        except ValueError as error:
            raise fields.error("tokens", str(error)) from None
