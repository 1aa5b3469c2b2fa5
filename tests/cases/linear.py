"""Products: formats, several weights of one input, biases, and the fused forms."""

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker
from unladen.graph.graph import Attr, Weight
from unladen.graph.ops.activation import ACTIVATIONS

FORMATS = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "MXFP4", "Q2_K",
           "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ2_S", "IQ4_XS", "TQ1_0")


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for quant in FORMATS:
        yield plain(rng, int(rng.choice([1, 2, 4, 5, 33])), [quant])
    yield plain(rng, 1, ["F32"], n_in=7)
    yield plain(rng, 70, ["F16"], n_in=131)
    # Weights of one input may differ in format, and so want the input in several layouts.
    yield plain(rng, 1, ["Q4_K", "Q4_K", "Q6_K"])
    yield plain(rng, int(rng.choice([1, 3])), ["Q8_0"] * 3)
    yield plain(rng, 19, ["Q4_K", "Q8_0", "F16"])
    yield plain(rng, 70, ["Q5_0", "Q8_0", "Q5_0"], rows="S")
    for act in ACTIVATIONS:
        yield fused(rng, int(rng.choice([1, 3, 21])), act, ["F32", "F32"], residual=False)
    for quant in ("Q4_0", "Q8_0", "Q4_K", "F16"):
        yield fused(rng, int(rng.choice([1, 5, 66])), "silu", [quant, quant], residual=False)
        yield fused(rng, int(rng.choice([1, 4, 66])), None, [quant], residual=True)
    yield fused(rng, 9, "gelu", ["Q6_K", "Q4_K"], residual=True)


def _weights(m: Maker, formats: list[str], sizes: list[int], n_in: int) -> dict[str, Weight]:
    weights = {}
    for i, (quant, n_out) in enumerate(zip(formats, sizes, strict=True)):
        weights[f"w{i}"] = m.weight(f"w{i}", n_out, n_in, quant=quant)
        if m.rng.random() < 0.5:
            weights[f"b{i}"] = m.weight(f"b{i}", n_out, quant=str(m.rng.choice(["F32", "F16"])))
    return weights


def plain(rng: np.random.Generator, n_tokens: int, formats: list[str], n_in: int | None = None,
          rows: str = "T") -> Case:
    m = Maker(rng, n_tokens)
    n_in = n_in or int(rng.choice([256, 512]))
    sizes = [int(rng.choice([1, 16, 37, 100, 144])) for _ in formats]
    return m.case("linear", m.input(rows, n_in), weights=_weights(m, formats, sizes, n_in))


def fused(rng: np.random.Generator, n_tokens: int, act: str | None, formats: list[str], *,
          residual: bool) -> Case:
    m = Maker(rng, n_tokens)
    n_in, n_out = int(rng.choice([256, 768])), int(rng.choice([5, 64, 301]))
    weights = _weights(m, formats, [n_out] * len(formats), n_in)
    # Gates of about 1, where the functions bend.
    x = m.input("T", n_in, values=rng.standard_normal((n_tokens, n_in)) / n_in ** 0.5)
    attrs: dict[str, Attr] = {"act": act} if act else {}
    if not residual:
        return m.case("linear", x, weights=weights, attrs=attrs)
    return m.case("linear", x, m.input("T", n_out), weights=weights,
                  attrs={**attrs, "residual": True})
