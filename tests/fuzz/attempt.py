"""Does everything with a file: opens it, reads all metadata, encodes and decodes text, builds and
plans the graph, and runs one step for one token."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unladen import Model
from unladen.errors import (
    GGUFError,
    InvalidArgument,
    ModelNotFound,
    UnladenError,
    UnsupportedModel,
)
from unladen.gguf import open_gguf
from unladen.models import load_architecture
from unladen.tokenizer import Tokenizer

TEXT = "Hello 1234567 w\u00f6rld\n\n  don't \U0001F600 <|im_end|>\u2581 \x00\xff"
"""A text to tokenize: words, digits, white space, a control token, unusual characters."""
TOKENS = (1, 2, 0, 5)


@dataclass(frozen=True)
class Outcome:
    """The outcome for a file: ``kind`` is "ran", an error's class, or "fault", described by
    ``text``."""

    kind: str
    text: str = ""


def attempt(path: Path, sizes: Sequence[int]) -> Outcome:
    """Do everything with ``path``; ``sizes`` are the sizes of the model's files. An error that
    isn't typed, or that lacks what its type must say, is a fault."""
    try:
        _read(path)
        _tokenize(path)
        _run(path)
    except GGUFError as error:
        if not 0 <= error.offset <= max(sizes) or str(path.parent) not in error.path:
            return Outcome("fault", f"offset {error.offset} of {error.path}: {error}")
        return Outcome("GGUFError", str(error))
    except UnladenError as error:
        if isinstance(error, ModelNotFound) and path.exists() and "part" not in str(error):
            return Outcome("fault", f"found: {error}")
        return Outcome(type(error).__name__, str(error))
    return Outcome("ran")


def _read(path: Path) -> None:
    with open_gguf(path) as file:
        for key in file.metadata:
            repr(file.metadata[key])
        for info in file.tensors.values():
            assert info.data.size == info.nbytes


def _tokenize(path: Path) -> None:
    """Tokenize; this works even if the weights can't be used."""
    with open_gguf(path) as file:
        if "tokenizer.ggml.model" not in file.metadata:
            return
        tokenizer = Tokenizer.from_gguf(file.metadata, path=str(path))
        tokenizer.decode(range(min(tokenizer.n_vocab, 512)), special=True)
        with contextlib.suppress(UnsupportedModel):  # raised for a file without a tokenizer
            tokenizer.decode(tokenizer.encode(TEXT))
        load_architecture(file)


def _run(path: Path) -> None:
    with Model(path, devices=["cpu"], context_size=64, batch_size=16, max_seqs=2, n_threads=1,
               n_threads_batch=1) as model:
        outputs = model.architecture.build(64).outputs
        if "logits" not in outputs:
            model.embed(TOKENS)
            return
        model.logits(TOKENS)
        with contextlib.suppress(InvalidArgument):  # encoders can't continue a text
            model.generate(TOKENS, max_tokens=2, temperature=0.8, seed=1)
