"""A guide over bytes, and one over the tokens of the model in the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from unladen.api.guided import guide_of
from unladen.api.model import TINY
from unladen.gguf import open_gguf
from unladen.sample.constrain.base import Constrains, Make, n_words
from unladen.sample.constrain.guide import Guide
from unladen.sample.constrain.language import Language
from unladen.tokenizer import Tokenizer

END = 256
"""The token that ends a text of bytes."""
MARK = 257
"""The special token <mark> beside the bytes."""

Fits = Callable[[Language, str], bool]


@pytest.fixture(scope="session")
def of_bytes() -> Guide:
    pytest.importorskip("llguidance")
    return Guide([bytes([i]) for i in range(256)] + [b"</s>", b"<mark>"], [END, MARK], [END], list)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """The tokenizer of the model in the package."""
    return Tokenizer.from_gguf(open_gguf(TINY).metadata)


@pytest.fixture(scope="session")
def of_tiny(tokenizer: Tokenizer) -> Guide:
    pytest.importorskip("llguidance")
    return guide_of(tokenizer)


@pytest.fixture(scope="session")
def fits(of_bytes: Guide) -> Fits:
    """Whether a whole text is of a language, as the masks say, token by token."""
    made: dict[int, tuple[Language, Make]] = {}

    def check(language: Language, text: str) -> bool:
        if id(language) not in made:
            made[id(language)] = language, language.make(of_bytes)
        return follows(made[id(language)][1](), [*of_bytes.ids_of(text), END], MARK + 1)
    return check


def allowed(constraint: Constrains, n_vocab: int) -> list[int]:
    """The tokens that may come next."""
    out = np.zeros(n_words(n_vocab), np.uint32)
    constraint.mask(out)
    return [t for t in range(n_vocab) if int(out[t // 32]) >> t % 32 & 1]


def follows(constraint: Constrains, tokens: Sequence[int], n_vocab: int) -> bool:
    """Whether each of ``tokens`` is allowed where it comes."""
    for token in tokens:
        if token not in allowed(constraint, n_vocab):
            return False
        constraint.accept(token)
    return True
