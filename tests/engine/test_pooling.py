"""Embeddings of whole texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unladen import Model
from unladen.errors import InvalidArgument

N = 32


def test_as_the_file_says_or_as_asked(make_bert: Callable[..., Path], rng: np.random.Generator
                                      ) -> None:
    tokens = [int(t) for t in rng.integers(3, 272, 7)]
    for number, name in ((None, "none"), (0, "none"), (1, "mean"), (2, "cls"), (3, "last")):
        with Model(make_bert(**({} if number is None else {"pooling_type": number}))) as model:
            rows = model.embed(tokens, pooling="none")
            assert rows.shape == (7, N)
            wanted = {"none": rows, "mean": sum(rows.astype(np.float64)) / 7, "cls": rows[0],
                      "last": rows[6]}
            for pooling, y in wanted.items():
                found = model.embed(tokens, pooling=pooling, normalize=False)
                np.testing.assert_allclose(found, y, rtol=1e-6, atol=1e-6)
            found, y = model.embed(tokens), wanted[name]
            if name != "none":
                y = y / np.sqrt(sum(float(v) ** 2 for v in y))
                assert np.linalg.norm(found) == pytest.approx(1, abs=1e-6)
            np.testing.assert_allclose(found, y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("number", [4, 99])
def test_what_embeds_nothing(number: int, make_bert: Callable[..., Path]) -> None:
    with Model(make_bert(pooling_type=number)) as model:
        with pytest.raises(InvalidArgument, match="gives no embedding"):
            model.embed([3, 4])
        with pytest.raises(InvalidArgument, match="pooling must be"):
            model.embed([3, 4], pooling="median")
        assert model.embed([3, 4], pooling="mean").shape == (N,)
