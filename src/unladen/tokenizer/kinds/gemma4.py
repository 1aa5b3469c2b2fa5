"""Gemma 4's BPE over characters, with U+2581 for spaces."""

from __future__ import annotations

from unladen.tokenizer import native
from unladen.tokenizer.fields import Fields
from unladen.tokenizer.kinds.base import Defaults, Kind, Tokens
from unladen.tokenizer.kinds.bpe import from_merges
from unladen.tokenizer.pretokenize import pre_tokenizer


class Gemma4(Kind):
    """``gemma4``: always uses the pre-tokenizer of that name."""

    names = ("gemma4",)
    needs_bos = True  # early files wrongly say that no BOS is added

    @classmethod
    def defaults(cls, fields: Fields) -> Defaults:
        """No defaults: the file always has the ids."""
        return Defaults(add_bos=True, clean_spaces=True)

    @classmethod
    def build(cls, fields: Fields, tokens: Tokens) -> native.Tokenizer:
        """Needs ``merges``."""
        return from_merges(fields, tokens, pre_tokenizer("gemma4"))
