"""Attention of several sequences, each with a history, over every cache type."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker
from unladen.graph.graph import KVSpec


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for types in [("F32", "F32"), ("F16", "F16"), ("Q8_0", "Q8_0"), ("F16", "Q8_0"),
                  ("Q8_0", "F16")]:
        dims = [32, 64, 96, 128] if "Q8_0" in types else [8, 20, 33, 64, 80, 128]
        for n_tokens, group, n_kv_heads in [(1, 1, 1), (1, 4, 2), (4, 7, 1), (3, 1, 5), (38, 2, 2),
                                            (70, 3, 1)]:
            m = Maker(rng, n_tokens, n_seqs=4, kv_types=types,
                      max_history=int(rng.choice([0, 10, 150])))
            k_dim = int(rng.choice(dims))
            v_dim = k_dim if rng.random() < 0.5 else int(rng.choice(dims))
            spec = KVSpec(0, n_kv_heads, k_dim, v_dim)
            n_heads = group * n_kv_heads
            yield m.case("attention", m.input("T", n_heads * k_dim), state=spec,
                         attrs={"n_heads": n_heads, "scale": k_dim ** -0.5}, kv=m.cache(spec))
