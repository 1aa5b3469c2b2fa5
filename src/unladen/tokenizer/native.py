"""The native part: vocabularies, merging, splitting, search for special tokens.

Ids are int; -1 stands for "none". Array arguments are contiguous; ``types`` are
:class:`~unladen.tokenizer.fields.TokenType` and ``strips`` bit 0 (left) and bit 1 (right), uint8
[n_vocab] each. A file's faults raise ValueError, ids outside the vocabulary IndexError.
"""

from unladen._native import tokenizer as _native

Vocab = _native.Vocab
"""Texts of tokens, by id and by text (``find``: -1 if absent)."""
Tokenizer = _native.Tokenizer
"""Text to ids and back. ``fresh``: the text or token has nothing or a special token before it."""
spm = _native.spm
"""A SentencePiece BPE tokenizer. With ``unk`` -1 a character without a token raises ValueError."""
bpe = _native.bpe
"""A BPE tokenizer. ``kin`` is ``""``, ``"hybriddna"``, ``"whitespace"`` or ``"lowercase"`` (which
is ``"whitespace"`` with text in lower case). ``steps`` are names in split.cc or expressions; the
flags are those of PreTokenizer."""
rwkv = _native.rwkv
"""RWKV's tokenizer: takes the longest token. Texts are byte literals."""
wpm = _native.wpm
"""BERT's WordPiece. With ``unk`` -1 a word that tokens can't spell raises ValueError."""
Charsmap = _native.Charsmap
"""SentencePiece's normalization table, from its bytes; empty bytes mean no table. Malformed bytes
raise ValueError."""
ugm = _native.ugm
"""A unigram model. With ``unk`` -1 a character without a token raises ValueError."""
plamo2 = _native.plamo2
"""PLaMo 2's tokenizer. Raises ValueError where a byte has no token."""
opaque = _native.opaque
"""A tokenizer that only decodes."""

__all__ = ["Charsmap", "Tokenizer", "Vocab", "bpe", "opaque", "plamo2", "rwkv", "spm", "ugm",
           "wpm"]
