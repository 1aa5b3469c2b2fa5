"""The base class of the kinds of tokenizer: one subclass of :class:`Kind` per algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from unladen.tokenizer import native
from unladen.tokenizer.fields import MAX_TOKEN_BYTES, Fields


@dataclass(frozen=True)
class Defaults:
    """Values for keys that the file doesn't have.

    ``token_ids`` are special ids by their key's stem (``"bos"`` for ``bos_token_id``).
    """

    add_bos: bool = False
    add_eos: bool = False
    add_sep: bool = False
    clean_spaces: bool = False
    token_ids: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Tokens:
    """A file's vocabulary. ``types`` and ``strips`` are uint8 [len(vocab)], see native.py.

    ``unk_id`` stands for text without a token; where it is None such text is an error.
    """

    vocab: native.Vocab
    types: npt.NDArray[np.uint8]
    strips: npt.NDArray[np.uint8]
    unk_id: int | None

    @property
    def unk(self) -> int:
        """``unk_id`` as native code takes it: -1 for none."""
        return -1 if self.unk_id is None else self.unk_id


class Kind:
    """An algorithm. ``names`` are the values of ``tokenizer.ggml.model`` that mean it.

    ``encodes`` is False where text can't be turned into ids. ``needs_bos``: BOS is added even if
    the file says otherwise. ``ends_in_sep``: a text ends in SEP, not EOS. Tokens longer than
    ``max_token_bytes`` are refused.
    """

    names: ClassVar[tuple[str, ...]]
    encodes: ClassVar[bool] = True
    needs_bos: ClassVar[bool] = False
    ends_in_sep: ClassVar[bool] = False
    max_token_bytes: ClassVar[int] = MAX_TOKEN_BYTES

    @classmethod
    def defaults(cls, fields: Fields) -> Defaults:
        """Values for keys that ``fields`` doesn't have; raises UnsupportedModel."""
        raise NotImplementedError

    @classmethod
    def merges_spaces(cls, fields: Fields) -> bool:
        """Whether a run of spaces becomes one space and a text begins with one."""
        return False

    @classmethod
    def build(cls, fields: Fields, tokens: Tokens) -> native.Tokenizer:
        """The native tokenizer; raises GGUFError naming the key at fault."""
        raise NotImplementedError
