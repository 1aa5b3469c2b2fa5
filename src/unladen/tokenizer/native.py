"""The compiled part: vocabularies, merging, splitting, search for special tokens.

Ids are int; -1 stands for "none". Array arguments are contiguous; ``types`` are
:class:`~unladen.tokenizer.fields.TokenType` and ``strips`` bit 0 (left) and bit 1 (right), uint8
[n_vocab] each. A file's faults raise ValueError, ids outside the vocabulary IndexError.
"""

from unladen._native import tokenizer as _native

Vocab = _native.Vocab
"""Texts of tokens, by id and by text (``find``: -1 if absent)."""
Tokenizer = _native.Tokenizer
"""Text to ids and back. ``fresh``: nothing or a special token stands before."""
spm = _native.spm
"""A SentencePiece BPE tokenizer; ``unk`` -1: characters without tokens raise ValueError."""
bpe = _native.bpe
"""A BPE tokenizer; ``kin`` is ``""``, ``"hybriddna"``, ``"whitespace"`` or ``"lowercase"``, which
is whitespace and lower case; ``steps`` are names of split.cc or expressions, flags those of
PreTokenizer."""
rwkv = _native.rwkv
"""RWKV's tokenizer: the longest token first; texts are byte literals."""
wpm = _native.wpm
"""BERT's WordPiece; ``unk`` -1: words that tokens don't make up raise ValueError."""
Charsmap = _native.Charsmap
"""SentencePiece's normalization table, from its bytes or from none; else ValueError."""
ugm = _native.ugm
"""A unigram model; ``unk`` -1: characters without tokens raise ValueError."""
plamo2 = _native.plamo2
"""PLaMo 2's tokenizer; ValueError where a byte has no token."""
opaque = _native.opaque
"""A tokenizer that only decodes."""

__all__ = ["Charsmap", "Tokenizer", "Vocab", "bpe", "opaque", "plamo2", "rwkv", "spm", "ugm",
           "wpm"]
