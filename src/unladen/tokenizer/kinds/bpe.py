"""BPE as in GPT-2: a pre-tokenizer cuts words, whose bytes or characters merge by rank."""

from __future__ import annotations

import logging

from unladen.tokenizer import native
from unladen.tokenizer.fields import EncodedStrings, Fields
from unladen.tokenizer.kinds.base import Defaults, Kind, Tokens
from unladen.tokenizer.pretokenize import PreTokenizer, pre_tokenizer


class Bpe(Kind):
    """``gpt2``: merges, and the pre-tokenizer that ``tokenizer.ggml.pre`` names."""

    names = ("gpt2",)

    @classmethod
    def defaults(cls, fields: Fields) -> Defaults:
        """The pre-tokenizer's defaults; BOS and EOS are token 11."""
        pre = _pre_tokenizer(fields)
        if fields.string("pre") is None:
            logging.getLogger("unladen").warning(
                "%s: tokenizer.ggml.pre is missing, using \"default\": text may be cut into "
                "other tokens than the model was trained on", fields.path)
        return Defaults(add_bos=pre.add_bos, add_sep=pre.add_sep, clean_spaces=pre.clean_spaces,
                        token_ids={"bos": 11, "eos": 11} if pre.bos else {"eos": 11})

    @classmethod
    def build(cls, fields: Fields, tokens: Tokens) -> native.Tokenizer:
        """Needs ``merges``, which only ``kimi-k2`` may lack."""
        return from_merges(fields, tokens, _pre_tokenizer(fields))


class HybridDna(Bpe):
    """``hybriddna``: between ``<dna>`` and ``</dna>`` every six bases are one token."""

    names = ("hybriddna",)

    @classmethod
    def build(cls, fields: Fields, tokens: Tokens) -> native.Tokenizer:
        """As BPE. Where the vocabulary lacks these two or ``<oov>``, all text is BPE."""
        return from_merges(fields, tokens, _pre_tokenizer(fields), "hybriddna")


class Whitespace(Bpe):
    """``whitespace``: spaces separate words and belong to no token."""

    names = ("whitespace",)

    @classmethod
    def build(cls, fields: Fields, tokens: Tokens) -> native.Tokenizer:
        """As BPE; reads ``normalizer.lowercase``."""
        pre = _pre_tokenizer(fields)
        lowercase = fields.flag("normalizer.lowercase", pre.lowercase)
        return from_merges(fields, tokens, pre, "lowercase" if lowercase else "whitespace")


def from_merges(fields: Fields, tokens: Tokens, pre: PreTokenizer, kin: str = ""
                ) -> native.Tokenizer:
    """BPE with the merges in the key ``merges``, after the pre-tokenizer ``pre``; ``kin`` as in
    native.py. Raises GGUFError."""
    merges = fields.strings("merges")
    if merges is None:
        if fields.string("pre") != "kimi-k2":
            raise fields.error("merges", "is missing", hint="a BPE tokenizer needs it")
        merges = EncodedStrings(())
    try:
        return native.bpe(tokens.vocab, tokens.types, tokens.strips,
                          merges.buffer, merges.offsets, merges.lengths, kin,
                          pre.steps, pre.ignore_merges, pre.raw, pre.marks, pre.whole_lines,
                          tokens.unk)
    except ValueError as error:
        raise fields.error("merges", str(error)) from None


def _pre_tokenizer(fields: Fields) -> PreTokenizer:
    return pre_tokenizer(fields.string("pre") or "default")
