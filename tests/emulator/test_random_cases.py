"""Products, experts and attention of random sizes on the emulator, with random features: sizes that
no list of cases has. ``make fuzz`` draws for longer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from cases import attention, moe, running
from cases.base import Case, Maker
from emulator.backend import FEATURES, EmulatorBackend
from unladen import quants
from unladen.backends._gpu import c_texts
from unladen.backends.base import BackendOptions
from unladen.graph.graph import Attr, KVSpec
from unladen.graph.ops.activation import ACTIVATIONS
from unladen.graph.ops.routing import GATINGS

Rng = np.random.Generator
SECONDS = float(os.environ.get("UNLADEN_FUZZ_SECONDS", "6"))
"""How long each kind is drawn."""
FORMATS = sorted(q for q in quants.registry() if c_texts.has_format(q))
TOKENS = (1, 1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 64, 70, 130)
"""Numbers of rows around the sizes of kernels' tiles."""


def columns(rng: Rng, *formats: str) -> int:
    """A number of columns that rows in all of ``formats`` may have."""
    block = max(quants.get(q).block_size for q in formats)
    most = {1: 300, 32: 40}.get(block, 6)
    return block * int(rng.integers(1, most + 1))


def some(rng: Rng, n: int) -> list[str]:
    return [str(q) for q in rng.choice(FORMATS, n)]


def product(rng: Rng) -> Case:
    """One to three weights, or a gated unit; with biases and what is added, or without."""
    m = Maker(rng, int(rng.choice(TOKENS)))
    is_gated, n = bool(rng.random() < 0.3), int(rng.integers(1, 4))
    formats = some(rng, 1) * 3 if rng.random() < 0.6 else some(rng, 3)
    formats = formats[:2 if is_gated else n]
    n_in = columns(rng, *formats)
    sizes = [int(rng.choice([1, 7, 16, 48, 64, 80, 144, int(rng.integers(1, 200))]))
             for _ in formats]
    if is_gated:
        sizes = sizes[:1] * 2
    weights = {}
    for i, (quant, n_out) in enumerate(zip(formats, sizes, strict=True)):
        weights[f"w{i}"] = m.weight(f"w{i}", n_out, n_in, quant=quant)
        if rng.random() < 0.4:
            weights[f"b{i}"] = m.weight(f"b{i}", n_out)
    rows = "S" if rng.random() < 0.2 else "T"
    inputs = [m.input(rows, n_in, values=rng.standard_normal(m.shape((rows, n_in))) / n_in ** 0.5)]
    attrs: dict[str, Attr] = {"act": str(rng.choice(sorted(ACTIVATIONS)))} if is_gated else {}
    if (is_gated or len(formats) == 1) and rng.random() < 0.4:
        inputs.append(m.input(rows, sizes[0]))
        attrs["residual"] = True
    return m.case("linear", *inputs, weights=weights, attrs=attrs)


def experts(rng: Rng) -> Case:
    """Some of the twists that a mixture of experts may have, over all or some of the experts."""
    gate, down = some(rng, 2)
    n_experts = int(rng.choice([1, 2, 3, 4, 8, 12]))
    n_used = int(rng.integers(1, min(n_experts, 4) + 1))
    held = None
    if rng.random() < 0.3:
        first = int(rng.integers(n_experts))
        held = first, int(rng.integers(1, n_experts - first + 1))
    suited = [t for t in moe.TWISTS if t not in ("limit", "given", "slots", "groups")]
    twists = [str(t) for t in rng.choice(suited, int(rng.integers(0, 4)), replace=False)]
    gating = str(rng.choice(sorted(GATINGS)))
    sizes = columns(rng, gate, "F16" if gate == "F32" else gate), columns(rng, down)
    return moe.one(rng, int(rng.choice(TOKENS)), n_experts, n_used, "silu", gate, down, held,
                   gating, tuple(twists), sizes)


def attending(rng: Rng) -> Case:
    """Heads of any dimension over caches of any type, with some of the ways to score."""
    types = [str(t) for t in rng.choice(["F32", "F16", "Q8_0"], 2)]
    if rng.random() < 0.4:
        types = ["F16", "F16"]
    unit = 32 if "Q8_0" in types else int(rng.choice([1, 8, 16, 32]))
    k_dim, v_dim = (unit * int(rng.integers(1, 256 // unit + 1)) for _ in range(2))
    v_dim = k_dim if rng.random() < 0.6 else v_dim
    scorings = list(attention.scorings(rng))
    attrs: Mapping[str, Attr] = scorings[rng.integers(len(scorings))] if rng.random() < 0.6 else {}
    history = 0 if attrs.get("causal") is False else int(rng.choice([0, 10, 150, 1200]))
    m = Maker(rng, int(rng.choice(TOKENS)), n_seqs=4, kv_types=(types[0], types[1]),
              max_history=history)
    n_kv_heads, group = int(rng.integers(1, 5)), int(rng.integers(1, 9))
    spec, n_heads = KVSpec(0, n_kv_heads, k_dim, v_dim), n_kv_heads * group
    weights = {"sinks": m.weight("sinks", n_heads)} if rng.random() < 0.3 else {}
    return m.case("attention", m.input("T", n_heads * k_dim), state=spec, weights=weights,
                  attrs={"n_heads": n_heads, "scale": k_dim ** -0.5, **attrs}, kv=m.cache(spec))


@pytest.mark.parametrize("draw", [product, experts, attending])
def test_within_the_bound(draw: Callable[[Rng], Case], rng: Rng,
                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unladen.backends._gpu.lowering._products.ENOUGH_TILES", 2)
    end, n = time.monotonic() + SECONDS, 0
    while time.monotonic() < end or n == 0:
        features = {name for name in sorted(FEATURES | {"pdl"}) if rng.random() < 0.6}
        features |= ({"mma"}, {"mma", "wgmma"}, set[str]())[rng.integers(3)]
        precise, case = bool(rng.random() < 0.3), draw(rng)
        backend = EmulatorBackend(frozenset(features))
        if not backend.supports(backend.target.device, case.node):
            continue
        print(f"{n}: {sorted(features)} precise={precise} {case.name}")
        bench = running.Bench(backend, case, BackendOptions(precise=precise))
        running.check(case, bench.run(), precise=precise, what=f"emulator {sorted(features)}")
        n += 1
