"""What the cases of the ops leave out: every block format, long histories, odd numbers."""

from __future__ import annotations

import numpy as np
import pytest

from cases import running
from cases.base import Case, Maker
from formats import PUBLISHED
from unladen import quants
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions, KVLayout
from unladen.backends.wgpu.program import MOST_SIZES, WgpuProgram
from unladen.backends.wgpu.source import has_format
from unladen.graph.graph import Attr, KVSpec, Weight

Rng = np.random.Generator
every_quant = pytest.mark.parametrize("quant", sorted(quants.registry()))
WHOLE_NUMBERS = {"I8", "I16", "I32", "I64"}
"""No formats of weights."""


def bench(case: Case) -> running.Bench:
    """Without rounded activations, whatever the adapter has; test_variants rounds them."""
    return running.Bench(backend_of("wgpu"), case, BackendOptions(precise=True))


def width(quant: str, rng: Rng) -> int:
    size = quants.get(quant).block_size
    return int(rng.integers(1, 200)) if size == 1 else size * int(rng.integers(1, 5))


def test_every_format_has_a_kernel() -> None:
    assert {name for name in PUBLISHED if not has_format(name)} == {"F64", *WHOLE_NUMBERS}


@every_quant
def test_rows_are_exact_but_for_one_rounding(quant: str, rng: Rng) -> None:
    """A code times a scale is rounded once; where a minimum is added, twice more, of numbers that
    are no larger than twice the largest of their run."""
    m = Maker(rng, 9)
    n = width(quant, rng)
    m.batch.tokens[:9] = rng.integers(0, 21, 9)
    case = m.case("embed", m.g.inputs["tokens"], weights={"w": m.weight("w", 21, n, quant=quant)})
    (y,) = bench(case).run()
    truth = quants.dequantize(quant, m.weights["w"], (21, n))[m.batch.tokens[:9]].astype(float)
    size = np.array([np.abs(truth[:, i:i + 16]).max(axis=1) for i in range(0, n, 16)]).T
    assert np.all(np.abs(y - truth) <= 3 * 2.0 ** -24 * size.repeat(16, axis=1)[:, :n])


@every_quant
@pytest.mark.parametrize("n_tokens", [1, 3, 70])
def test_products(quant: str, n_tokens: int, rng: Rng) -> None:
    m = Maker(rng, n_tokens)
    n = width(quant, rng)
    case = m.case("linear", m.input("T", n), weights={"w0": m.weight("w0", 70, n, quant=quant)})
    running.check(case, bench(case).run(), precise=True, what=quant)


@pytest.mark.parametrize("formats", [["Q4_0"] * 3, ["IQ2_XS"] * 2 + ["Q8_0"], ["F16"] * 5])
@pytest.mark.parametrize("n_tokens", [1, 5])
def test_products_of_one_input_in_one_dispatch(formats: list[str], n_tokens: int, rng: Rng) -> None:
    """Two or three of a format at a time, with biases or without."""
    m = Maker(rng, n_tokens)
    weights = {}
    for i, quant in enumerate(formats):
        n_out = int(rng.integers(1, 40))
        weights[f"w{i}"] = m.weight(f"w{i}", n_out, 256, quant=quant)
        if rng.random() < 0.5:
            weights[f"b{i}"] = m.weight(f"b{i}", n_out)
    run = bench(m.case("linear", m.input("T", 256), weights=weights))
    running.check(run.case, run.run(), precise=True, what=str(formats))
    assert isinstance(run.program, WgpuProgram)
    n_groups = sum(-(-formats.count(f) // 3) for f in set(formats))
    ((groups,),) = (alike.values() for alike in run.program.encoded.values())
    assert sum(map(len, groups)) == n_groups


def test_a_wide_product(rng: Rng) -> None:
    """More columns than the threads of a workgroup take at once."""
    for n_tokens in (1, 6, 20):
        m = Maker(rng, n_tokens)
        case = m.case("linear", m.input("T", 4864),
                      weights={"w0": m.weight("w0", 9, 4864, quant="Q4_K")})
        running.check(case, bench(case).run(), precise=True, what="wide")


def long_history(rng: Rng, group: int, dims: tuple[int, int], types: tuple[str, str],
                 sinks: bool, **attrs: Attr) -> Case:
    """A decode step of a long and a shorter sequence."""
    m = Maker(rng, 2, n_seqs=1, max_history=0, kv_types=types)
    limits = m.limits.__class__(2, 2, 2, 64, 130)
    m.limits, m.layout = limits, KVLayout(32, 130, *types)
    m.batch = m.batch.empty(limits)
    m.batch.n_tokens = m.batch.n_outputs = m.batch.n_seqs = 2
    lengths = np.array([rng.integers(600, 2048), rng.integers(1, 300)])
    m.batch.positions[:], m.batch.kv_len[:], m.batch.seq_of[:] = lengths - 1, lengths, [0, 1]
    m.batch.q_start[:] = [0, 1, 2]
    m.batch.block_table[:] = rng.permutation(130)[:128].reshape(2, 64)
    spec = KVSpec(0, 2, *dims)
    return m.case("attention", m.input("T", 2 * group * dims[0]), state=spec,
                  weights={"sinks": m.weight("sinks", 2 * group)} if sinks else {},
                  attrs={"n_heads": 2 * group, "scale": 0.125, **attrs}, kv=m.cache(spec))


@pytest.mark.parametrize("group", [1, 4, 20])
def test_workgroups_share_the_keys_of_a_long_history(rng: Rng, group: int) -> None:
    case = long_history(rng, group, (64, 96), ("F16", "Q8_0"), sinks=False)
    running.check(case, bench(case).run(), precise=True, what="shared keys")


@pytest.mark.parametrize(("window", "kind"), [(100, "sliding"), (900, "sliding"), (64, "chunked"),
                                              (31, "symmetric"), (0, "sliding")])
def test_shares_of_keys_in_a_window_with_a_sink(rng: Rng, window: int, kind: str) -> None:
    """Shares may be empty; the sink counts once."""
    case = long_history(rng, 3, (32, 32), ("F16", "F16"), sinks=True, window=window,
                        window_kind=kind, alibi=8.0)
    running.check(case, bench(case).run(), precise=True, what="shared keys")


@pytest.mark.parametrize("n_tokens", [1, 20])
def test_long_rows_of_one_latent_head(rng: Rng, n_tokens: int) -> None:
    """Sizes of multi-head latent attention (DeepSeek-V2, 2024)."""
    m = Maker(rng, n_tokens, n_seqs=2, max_history=40, kv_types=("F16", "F16"))
    spec = KVSpec(0, 1, 576, 512)
    case = m.case("attention", m.input("T", 16 * 576), state=spec,
                  attrs={"n_heads": 16, "scale": 576 ** -0.5}, kv=m.cache(spec))
    running.check(case, bench(case).run(), precise=True, what="long rows")


@pytest.mark.parametrize("quant", ["F16", "Q8_0"])
def test_numbers_at_the_edges_of_float16(rng: Rng, quant: str) -> None:
    """Ties, subnormals and overflow are stored as NumPy stores them."""
    m = Maker(rng, 64, kv_types=(quant, quant))
    spec = KVSpec(0, 1, 64, 32)
    values = (2.0 ** rng.uniform(-26, 17, (64, 64)) * rng.choice([-1, 1], (64, 64)))
    ties = np.arange(64) * 2.0 ** -25 * 2.0 ** rng.integers(0, 12, (64, 1))
    values[::2] = ties[::2]
    values[0, :4] = 65504, 65519, 0, -0.0
    if quant == "Q8_0":
        values = values.clip(-8e6, 8e6)
    case = m.case("kv_write", m.input("T", 64, values=values), m.input("T", 32), state=spec,
                  kv=m.cache(spec))
    run = bench(case)
    run.run()
    with np.errstate(over="ignore"):
        expected = running.on_paper(case)[2]
    for mine, wanted in zip(run.cache(), expected, strict=True):
        np.testing.assert_array_equal(mine, wanted)


def test_many_experts(rng: Rng) -> None:
    """More than threads that choose among them, some of them equally good."""
    for n_tokens in (1, 30):
        m = Maker(rng, n_tokens)
        weights: dict[str, Weight] = {
            "router": m.weight("router", 130, 64), "gate": m.weight("gate", 130, 32, 64),
            "up": m.weight("up", 130, 32, 64),
            "down": m.weight("down", 130, 64, 32, quant="Q8_0")}
        case = m.case("moe", m.input("T", 64), weights=weights, attrs={
            "n_used": 7, "gating": "softmax", "normalize": True, "scale": 2.5, "act": "gelu"})
        running.check(case, bench(case).run(), precise=True, what="experts")


def test_prompts_displace_no_decode_step(rng: Rng) -> None:
    """What was encoded for a step of one class stays, however many sizes there are of others."""
    n_most = 5 * MOST_SIZES
    m = Maker(rng, n_most)
    run = bench(m.case("add", m.input("T", 4), m.input("T", 4)))
    assert isinstance(run.program, WgpuProgram)
    batch, encoded = run.case.batch, run.program.encoded
    batch.n_seqs = batch.n_outputs = 1
    for n in (1, *range(2, n_most + 1)):
        batch.n_tokens = batch.q_start[1] = n
        run.backend.run(run.program)
        if n == 1:
            decode = batch.size_class
            (kept,) = encoded[decode].values()
    assert [kept] == list(encoded[decode].values()) and decode.is_decode
    assert {len(alike) for alike in encoded.values()} == {1, 2, 4, 8, 16, MOST_SIZES}
    run.backend.sync(run.device)
