"""Rotations of both pairings, of whole heads and of parts of them."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for style in ("norm", "neox"):
        for n_tokens, n_heads, head_dim, n_rot in [
                (1, 1, 8, 8), (3, 5, 20, 12), (2, 3, 64, 32), (37, 2, 80, 80), (33, 8, 128, 128),
                (2, 1, 18, 2)]:
            m = Maker(rng, n_tokens)
            angle = rng.uniform(-np.pi, np.pi, (n_tokens, n_rot // 2))
            table = np.stack([np.cos(angle), np.sin(angle)], axis=-1).reshape(n_tokens, n_rot)
            yield m.case("rope", m.input("T", n_heads * head_dim),
                         m.input("T", n_rot, values=1.1 * table),
                         attrs={"head_dim": head_dim, "style": style})
        for n_others in (1, 2):
            yield fused(rng, style, n_others)


def fused(rng: np.random.Generator, style: str, n_others: int) -> Case:
    m = Maker(rng, int(rng.integers(1, 40)))
    xs = [m.input("T", 20 * int(rng.integers(1, 4))) for _ in range(1 + n_others)]
    return m.case("rope", *xs, m.input("T", 12), attrs={"head_dim": 20, "style": style})
