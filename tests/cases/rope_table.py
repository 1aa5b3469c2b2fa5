"""Angles of near and far positions."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, n_rot, base in [(1, 2, 1e4), (3, 20, 1e4), (30, 64, 5e5), (70, 128, 1e6)]:
        m = Maker(rng, n_tokens)
        m.batch.positions[:n_tokens] += int(rng.choice([0, 1000, 130_000]))
        freqs = base ** (-np.arange(0, n_rot, 2) / n_rot) / float(rng.choice([1, 4]))
        yield m.case("rope_table", m.g.inputs["positions"],
                     attrs={"freqs": tuple(freqs.tolist()),
                            "magnitude": float(rng.choice([1.0, 1.2079])),
                            "back": int(rng.choice([0, 3, 127]))})
    for n_tokens, n_axes, n_rot in [(1, 3, 8), (33, 2, 64), (40, 4, 128)]:
        m = Maker(rng, n_tokens, n_axes=n_axes)
        freqs = 1e4 ** (-np.arange(0, n_rot, 2) / n_rot)
        yield m.case("rope_table", m.g.inputs["positions"],
                     attrs={"freqs": tuple(freqs.tolist()), "magnitude": 1.0,
                            "axes": tuple(rng.integers(0, n_axes, len(freqs)).tolist())})
