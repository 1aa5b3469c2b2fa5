"""Ranges of a text in which names of control tokens are text."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from unladen.gguf import open_gguf
from unladen.storage.mapping import map_file
from unladen.tokenizer import Tokenizer

VOCABS = sorted((Path(__file__).resolve().parents[3] / "shared/vocabs").glob("*.gguf"))


@pytest.mark.parametrize("path", VOCABS, ids=lambda path: path.stem)
def test_plain_ranges(path: Path, rng: np.random.Generator) -> None:
    """Text whose names all are in ranges is encoded as without special tokens; the others count.
    A text is split at the names that count, so its parts are encoded one by one."""
    file = open_gguf(str(path), map_file(str(path)))
    tokenizer = Tokenizer.from_gguf(file.metadata, str(path))
    names = [name for name in tokenizer.control_texts if name.strip()]
    if not names:
        pytest.skip("this vocabulary has no control tokens")
    draw = random.Random(int(rng.integers(1 << 32)))
    for _ in range(30):
        text, ranges, parts = "", [], [""]
        for _ in range(draw.randrange(1, 9)):
            piece = draw.choice([*names[:3], "wörd", " two  words", "🌉", "\n", "<"])
            name = draw.choice(names)
            if draw.random() < 0.3 and piece not in names:
                text += name
                parts += [name, ""]
            ranges.append((len(text), len(text) + len(piece)))
            text += piece
            parts[-1] += piece
        whole = tokenizer.encode(text, add_special=False, plain=[(0, len(text))])
        assert whole == tokenizer.encode(text, add_special=False, special=False), repr(text)
        expected: list[int] = []
        for i, part in enumerate(parts):
            if i % 2:
                expected.append(tokenizer.control_texts[part])
            elif part:
                continues = bool(expected) and not tokenizer.starts_text(expected[-1])
                expected += tokenizer.encode(part, add_special=False, special=False,
                                             continues=continues)
        if not any("\n" in part or part.strip() != part for part in parts):  # some names drop white
            assert tokenizer.encode(text, add_special=False, plain=ranges) == expected, repr(text)


def test_a_name_that_reaches_into_a_range_is_text(shared: Path) -> None:
    path = str(shared / "vocabs/ggml-vocab-llama-bpe.gguf")
    tokenizer = Tokenizer.from_gguf(open_gguf(path, map_file(path)).metadata, path)
    name = "<|eot_id|>"
    token = tokenizer.control_texts[name]
    for at in range(len(name)):
        ids = tokenizer.encode(f"é{name}é{name}", add_special=False, plain=[(1 + at, 2 + at)])
        assert ids.count(token) == 1 and ids[-1] == token
        assert tokenizer.decode(ids, special=True) == f"é{name}é{name}"
    for before in (0, 1 + len(name)):  # beside the name, not in it
        ids = tokenizer.encode(f"é{name}é", add_special=False, plain=[(before, before + 1)])
        assert token in ids
