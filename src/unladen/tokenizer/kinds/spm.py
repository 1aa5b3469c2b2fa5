"""SentencePiece's BPE: neighbours whose union has the highest score merge first."""

from __future__ import annotations

import numpy as np

from unladen.tokenizer import native
from unladen.tokenizer.fields import Fields
from unladen.tokenizer.kinds.base import Defaults, Kind, Tokens


class Spm(Kind):
    """``llama``: spaces are U+2581, unknown characters become byte tokens."""

    names = ("llama",)

    @classmethod
    def defaults(cls, fields: Fields) -> Defaults:
        """BOS in front, and ids 1, 2, 0."""
        return Defaults(add_bos=True, token_ids={"bos": 1, "eos": 2, "unknown": 0})

    @classmethod
    def build(cls, fields: Fields, tokens: Tokens) -> native.Tokenizer:
        """Needs ``scores``, reads ``add_space_prefix``."""
        scores = fields.numbers("scores", "fiu", len(tokens.vocab))
        if scores is None:
            raise fields.error("scores", "is missing", hint="a \"llama\" tokenizer needs it")
        return native.spm(tokens.vocab, tokens.types, tokens.strips,
                          np.ascontiguousarray(scores, np.float32),
                          fields.flag("add_space_prefix", True),
                          -1 if tokens.unk_id is None else tokens.unk_id)
