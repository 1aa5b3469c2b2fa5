"""Rows of several sequences into a cache of shuffled blocks, by cache type."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker
from unladen.graph.graph import KVSpec


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for types in [("F32", "F32"), ("F16", "F16"), ("Q8_0", "Q8_0"), ("F16", "Q8_0"),
                  ("Q8_0", "F32")]:
        for n_tokens in (1, 3, 50):
            m = Maker(rng, n_tokens, kv_types=types)
            dims = [32, 64, 96] if "Q8_0" in types else [8, 20, 64, 128]
            spec = KVSpec(0, int(rng.integers(1, 5)), int(rng.choice(dims)), int(rng.choice(dims)))
            yield m.case("kv_write", m.input("T", spec.n_kv_heads * spec.k_dim),
                         m.input("T", spec.n_kv_heads * spec.v_dim), state=spec,
                         kv=m.cache(spec))
