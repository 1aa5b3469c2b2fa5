"""RWKV-7's state with directions removed as its models do it: a = -kk, b = kk times a rate."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker
from cases.linear_attention import unit


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, heads, dim in [(1, 1, 1), (1, 3, 64), (5, 2, 37), (40, 4, 16), (70, 1, 32)]:
        m = Maker(rng, n_tokens)
        shape, n = (n_tokens, heads * dim), heads * dim
        kk = unit(rng, n_tokens, heads, dim)
        g = -0.6 * rng.uniform(0, 1, shape)
        yield m.case("rwkv_mix", m.input("T", n), m.input("T", n, values=g), m.input("T", n),
                     m.input("T", n), m.input("T", n, values=-kk),
                     m.input("T", n, values=kk * rng.uniform(0, 1, shape)),
                     attrs={"n_heads": heads})
