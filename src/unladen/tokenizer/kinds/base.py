"""What a kind of tokenizer is: one subclass of :class:`Kind` per algorithm."""

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
    """What holds where the file has no key of that name.

    ``token_ids`` are special ids by their key's stem (``"bos"`` for ``bos_token_id``).
    """

    add_bos: bool = False
    add_eos: bool = False
    add_sep: bool = False
    clean_spaces: bool = False
    token_ids: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Tokens:
    """A file's vocabulary: ``types`` and ``strips`` are uint8 [len(vocab)], see native.py.

    ``unk_id`` takes the place of what has no token; without one that is an error.
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
    """An algorithm: ``names`` are the values of ``tokenizer.ggml.model`` that mean it.

    ``encodes`` is False where text can't be turned into ids; ``needs_bos``: BOS is added whatever
    the file says; ``ends_in_sep``: SEP takes the place of EOS. Longer tokens than
    ``max_token_bytes`` are refused.
    """

    names: ClassVar[tuple[str, ...]]
    encodes: ClassVar[bool] = True
    needs_bos: ClassVar[bool] = False
    ends_in_sep: ClassVar[bool] = False
    max_token_bytes: ClassVar[int] = MAX_TOKEN_BYTES

    @classmethod
    def defaults(cls, fields: Fields) -> Defaults:
        """What holds unless ``fields`` say otherwise; raises UnsupportedModel."""
        raise NotImplementedError

    @classmethod
    def merges_spaces(cls, fields: Fields) -> bool:
        """Whether several spaces become one, and one stands before a text."""
        return False

    @classmethod
    def build(cls, fields: Fields, tokens: Tokens) -> native.Tokenizer:
        """The native tokenizer; raises GGUFError naming the key at fault."""
        raise NotImplementedError
