"""What the cases of the ops leave out: every block format, shared keys, long rows, features."""

from __future__ import annotations

import numpy as np
import pytest

from cases import running
from cases.base import Case, Maker
from unladen import quants
from unladen.backends import backend_of
from unladen.backends._gpu.c_texts import has_codes, has_format
from unladen.backends.base import BackendOptions, KVLayout
from unladen.backends.opencl.backend import OpenClBackend
from unladen.backends.opencl.features import VARIABLE
from unladen.backends.opencl.program import MOST_SIZES, OpenClProgram
from unladen.graph.graph import KVSpec

Rng = np.random.Generator
every_quant = pytest.mark.parametrize("quant", [q for q in sorted(quants.registry())
                                                if has_format(q)])


def bench(case: Case) -> running.Bench:
    return running.Bench(backend_of("opencl"), case, BackendOptions(precise=True))


def width(quant: str, rng: Rng) -> int:
    size = quants.get(quant).block_size
    return int(rng.integers(1, 200)) if size == 1 else size * int(rng.integers(1, 5))


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


def product(quant: str, n_tokens: int, n: int, rng: Rng) -> Case:
    m = Maker(rng, n_tokens)
    return m.case("linear", m.input("T", n), weights={"w0": m.weight("w0", 70, n, quant=quant)})


@every_quant
@pytest.mark.parametrize("n_tokens", [3, *(pytest.param(n, marks=pytest.mark.long)
                                           for n in (1, 70))])
def test_products(quant: str, n_tokens: int, rng: Rng) -> None:
    """A few rows; one and many in make long, as the emulator has all three of the same texts."""
    case = product(quant, n_tokens, width(quant, rng), rng)
    running.check(case, bench(case).run(), precise=True, what=quant)


@pytest.mark.parametrize("quant", ["Q4_0", "Q4_K", "Q6_K", "Q8_0", "IQ4_NL"])
def test_integer_products(quant: str, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Activations rounded to int8, as on hardware with an instruction for such products."""
    monkeypatch.setenv(VARIABLE, "int_dot")
    backend = OpenClBackend()
    assert has_codes(quant)
    for n_tokens in (1, 4, 20):
        case = product(quant, n_tokens, 512, rng)
        run = running.Bench(backend, case)
        assert "int_dot" in backend.variant(run.device, case.node, BackendOptions())
        running.check(case, run.run(), precise=False, what=quant)


def test_workgroups_share_the_keys_of_a_long_history(rng: Rng) -> None:
    m = Maker(rng, 2, n_seqs=1, max_history=0, kv_types=("F16", "Q8_0"))
    limits = m.limits.__class__(2, 2, 2, 64, 130)
    m.limits, m.layout = limits, KVLayout(32, 130, "F16", "Q8_0")
    m.batch = m.batch.empty(limits)
    m.batch.n_tokens = m.batch.n_outputs = m.batch.n_seqs = 2
    lengths = np.array([rng.integers(600, 2048), rng.integers(1, 300)])
    m.batch.positions[:], m.batch.kv_len[:], m.batch.seq_of[:] = lengths - 1, lengths, [0, 1]
    m.batch.q_start[:] = [0, 1, 2]
    m.batch.block_table[:] = rng.permutation(130)[:128].reshape(2, 64)
    spec = KVSpec(0, 2, 64, 96)
    case = m.case("attention", m.input("T", 8 * 64), state=spec,
                  weights={"sinks": m.weight("sinks", 8)},
                  attrs={"n_heads": 8, "scale": 0.125, "window": 900, "window_kind": "sliding"},
                  kv=m.cache(spec))
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
    values[::2] = np.arange(64) * 2.0 ** -25 * 2.0 ** rng.integers(0, 12, (64, 1))[::2]
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


def test_prompts_displace_no_decode_step(rng: Rng) -> None:
    """The grids for a step of one class stay, however many sizes there are of others."""
    n_most = 5 * MOST_SIZES
    m = Maker(rng, n_most)
    run = bench(m.case("add", m.input("T", 4), m.input("T", 4)))
    assert isinstance(run.program, OpenClProgram)
    batch, sized = run.case.batch, run.program.sized
    batch.n_seqs = batch.n_outputs = 1
    for n in (1, *range(2, n_most + 1)):
        batch.n_tokens = batch.q_start[1] = n
        run.backend.run(run.program)
        if n == 1:
            decode = batch.size_class
            (kept,) = sized[decode].values()
    assert [kept] == list(sized[decode].values()) and decode.is_decode
    assert {len(alike) for alike in sized.values()} == {1, 2, 4, 8, 16, MOST_SIZES}
    run.backend.sync(run.device)
