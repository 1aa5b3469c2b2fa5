"""A model's guide, made when the first answer of a given form is wanted."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unladen.sample.constrain.guide import Guide
    from unladen.tokenizer import Tokenizer


class LazyGuide:
    """Makes the :class:`Guide` of ``tokenizer`` once, whichever thread asks first."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._made: Guide | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=functools.partial(_free, weakref.ref(self)))

    def get(self) -> Guide:
        """The guide. The first call takes up to a second, and holds the GIL."""
        if self._made is None:
            with self._lock:
                if self._made is None:
                    self._made = guide_of(self._tokenizer)
        return self._made


def _free(guide: weakref.ref[LazyGuide]) -> None:
    """Give a forked child a new lock: a thread of the parent may hold the old one, and no thread of
    the child would release it."""
    inherited = guide()
    if inherited is not None:
        inherited._lock = threading.Lock()


def guide_of(tokenizer: Tokenizer) -> Guide:
    """A new guide for the vocabulary of ``tokenizer``."""
    from unladen.sample.constrain.guide import Guide
    eos = tokenizer.eos_id
    ends = sorted(tokenizer.eog_ids, key=lambda token: (token != eos, token))
    return Guide([tokenizer.token_bytes(i) for i in range(tokenizer.n_vocab)],
                 sorted({*tokenizer.hidden_ids, *ends}), ends,
                 lambda text: tokenizer.encode(text.decode(), add_special=False, special=False,
                                               continues=True))
