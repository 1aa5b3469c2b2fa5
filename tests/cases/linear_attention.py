"""Matrix states: fixed and given decays, by head and by row; delta rule; a bonus for the token."""

from collections.abc import Iterator

import numpy as np

from cases.base import Array, Case, Maker
from unladen.graph.graph import Attr


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for n_tokens, heads, k_heads, k_dim, v_dim in [
            (1, 1, 1, 1, 1), (1, 4, 2, 16, 64), (5, 6, 3, 24, 37), (33, 2, 1, 33, 80),
            (70, 3, 3, 20, 16)]:
        for decay in ("fixed", "head", "row"):
            for rule in ("plain", "delta", "first"):
                yield one(rng, n_tokens, (heads, k_heads, k_dim, v_dim), decay, rule)


def one(rng: np.random.Generator, n_tokens: int, sizes: tuple[int, int, int, int], decay: str,
        rule: str) -> Case:
    heads, k_heads, k_dim, v_dim = sizes
    m = Maker(rng, n_tokens)
    q, k = (unit(rng, n_tokens, k_heads, k_dim) for _ in range(2))
    inputs = [m.input("T", k_heads * k_dim, values=q), m.input("T", k_heads * k_dim, values=k),
              m.input("T", heads * v_dim)]
    attrs: dict[str, Attr] = {"n_heads": heads, "n_k_heads": k_heads, "scale": k_dim ** -0.5,
                              "tiled": bool(rng.random() < 0.5), "delta": rule == "delta"}
    if decay == "fixed":
        attrs["decay"] = tuple(-rng.uniform(0, 2, heads))
    else:
        n = heads if decay == "head" else heads * k_dim
        g = -np.exp(rng.uniform(-6, 2, (n_tokens, n)))
        inputs.append(m.input("T", n, values=g))
    if rule == "delta":
        inputs.append(m.input("T", heads, values=rng.uniform(0, 1, (n_tokens, heads))))
    weights = {"first": m.weight("first", heads, k_dim)} if rule == "first" else {}
    return m.case("linear_attention", *inputs, weights=weights, attrs=attrs)


def unit(rng: np.random.Generator, n_tokens: int, n_heads: int, dim: int) -> Array:
    """Vectors of length 1, as models give to the delta rule."""
    x = rng.standard_normal((n_tokens, n_heads, dim))
    return (x / np.linalg.norm(x, axis=-1, keepdims=True)).reshape(n_tokens, -1)
