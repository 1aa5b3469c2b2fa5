"""Kernels for NVIDIA's matrix units on the emulator: each format in tiles, experts, attention; and
which words of shared memory a warp reads at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

import cases
from cases import moe, running
from cases.base import Case, Maker
from emulator import build
from emulator.backend import FEATURES, ORDERS, EmulatorBackend, EmulatorProgram
from unladen import quants
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.dispatch import Dispatch
from unladen.backends._gpu.lowering import _products, _skinny
from unladen.backends.base import BackendOptions, Device
from unladen.graph.graph import KVSpec, Node, Weight

Rng = np.random.Generator
MATRICES = FEATURES | {"mma"}
FOUR_WARPS = MATRICES | {"wgmma"}
TILED = [q for q in sorted(quants.registry()) if quants.in_tiles(q, (16, 256))]
ROWS = (1, 6, 17)
SHORT = ("Q8_0", "F16", "BF16")
"""Formats whose rows may have fewer than 256 columns."""


class InTiles(EmulatorBackend):
    """Takes every weight in tiles that can be cut into them, as where another node wants that."""

    def weight_format(self, device: Device, node: Node, weight: Weight) -> str | None:
        return quants.in_tiles(weight.quant, weight.shape) or weight.quant


def product(quant: str, n_tokens: int, rng: Rng, n_out: int = 80, n_in: int = 256) -> Case:
    m = Maker(rng, n_tokens)
    return m.case("linear", m.input("T", n_in),
                  weights={"w0": m.weight("w0", n_out, n_in, quant=quant),
                           "b0": m.weight("b0", n_out)})


def dispatched(case: Case, backend: EmulatorBackend, *, precise: bool = False) -> list[Dispatch]:
    """What ran within the bound, in each order of threads."""
    bench = running.Bench(backend, case, BackendOptions(precise=precise))
    for _ in ORDERS:
        running.check(case, bench.run(), precise=precise, what="emulator")
    assert isinstance(bench.program, EmulatorProgram)
    return list(bench.program.ran.values())


def run(case: Case, backend: EmulatorBackend | None = None, *, precise: bool = False
        ) -> set[str]:
    """The kernels that ran within the bound, in each order of threads."""
    found = dispatched(case, backend or EmulatorBackend(MATRICES), precise=precise)
    return {d.kernel for d in found}


def kernel_for(n_tokens: int, *, coded: bool) -> str:
    """The kernel of a product with so many rows of x. ``coded``: x becomes int8."""
    few, many = (8, 64) if coded else (4, 16)
    return "matvec" if n_tokens <= few else "matvec_mma" if n_tokens <= many else "matmul_mma"


def test_every_format_with_codes_has_tiles() -> None:
    assert {q for q in quants.registry() if c_texts.has_codes(q)} | {"F16", "BF16"} == set(TILED)


@pytest.mark.parametrize("quant", TILED)
def test_products(quant: str, rng: Rng) -> None:
    for n_tokens in ROWS:
        case = product(quant, n_tokens, rng)
        ran = run(case)
        coded = c_texts.has_codes(quant)
        kernel = kernel_for(n_tokens, coded=coded)
        form = {"quantize"} if coded else set[str]() if kernel == "matvec" else {"split_rows"}
        assert ran == {kernel} | form, n_tokens


@pytest.mark.parametrize("quant", ["Q4_K", "Q6_K", "Q8_0", "Q5_0"])
def test_products_with_many_rows(quant: str, rng: Rng) -> None:
    assert run(product(quant, 70, rng)) == {"matmul_mma", "quantize"}


@pytest.mark.parametrize("quant", ["Q4_K", "Q6_K", "Q8_0", "Q5_0", "Q2_K", "IQ4_XS"])
def test_products_with_precise_activations(quant: str, rng: Rng) -> None:
    for n_tokens in (2, 7, 17):
        ran = run(product(quant, n_tokens, rng, n_in=1024), precise=True)
        kernel = kernel_for(n_tokens, coded=False)
        assert ran == {kernel} | ({"split_rows"} if n_tokens > 4 else set())


@pytest.mark.parametrize("quant", ["Q4_K", "Q6_K", "Q8_0", "F16", "BF16"])
def test_wide_tiles(quant: str, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_products, "ENOUGH_TILES", 1)
    for precise in (False, True):
        case = product(quant, 131, rng, 144, 128 if quant in SHORT else 256)
        assert "matmul_mma" in run(case, precise=precise)


def wide(case: Case, backend: EmulatorBackend) -> list[int]:
    """How many rows of x the tiles of four warps have that run."""
    program = running.Bench(backend, case).program
    assert isinstance(program, EmulatorProgram)
    _, size = program.step.pack()
    return [int(d.constants["TN"]) for d in program.lowered.dispatches
            if d.kernel in c_texts.NVIDIA_ONLY and d.constants.get("WGMMA")
            and "TN" in d.constants and d.grid(size) is not None]


@pytest.mark.parametrize("quant", ["Q4_K", "Q6_K", "Q8_0", "Q5_1", "F16", "BF16"])
def test_products_of_four_warps(quant: str, rng: Rng) -> None:
    backend = EmulatorBackend(FOUR_WARPS)
    case = product(quant, 70, rng, 144)
    assert run(case, backend) == {"split_rows", "matmul_mma"}
    assert wide(case, backend) == [32]


@pytest.mark.parametrize(("quant", "n_tokens", "width"), [
    (quant, *each) for quant in ("F16", "BF16") for each in ((17, 32), (50, 64), (131, 128))
] + [(quant, 131, 128) for quant in ("Q4_K", "Q6_K", "Q8_0")])
def test_widths_of_four_warps(quant: str, n_tokens: int, width: int, rng: Rng,
                              monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of a step are as wide as it has rows of x, where enough of them fill a device."""
    monkeypatch.setattr(_products, "ENOUGH_TILES", 1)
    backend = EmulatorBackend(FOUR_WARPS)
    case = product(quant, n_tokens, rng, 144, 128 if quant in SHORT else 256)
    assert "matmul_mma" in run(case, backend)
    assert wide(case, backend) == [width]


IN_HALVES = {"Q8_0": ([0], 1, 0), "Q4_0": ([0], 1, 0), "Q5_0": ([0], 1, 0), "IQ4_NL": ([0], 1, 0),
             "TQ2_0": ([64], 1, 0), "Q4_1": ([0, 2], 1, 0), "Q5_1": ([0, 2], 1, 0),
             "Q3_K": ([108], 1, 0), "Q6_K": ([208], 2, 0), "IQ4_XS": ([0], 2, 0),
             "Q2_K": ([80, 82], 1, 1), "Q4_K": ([0, 2], 1, 1), "Q5_K": ([0, 2], 1, 1)}
"""Formats whose codes meet their scales as float16: where a block has numbers of float16, and how
far a weight is off at most, in halves of a digit of float16: of itself, and of the largest weight
with the same shift."""


@pytest.mark.parametrize("size", [-10, -5, 0, 12])
@pytest.mark.parametrize("quant", IN_HALVES)
def test_weights_as_float16(quant: str, size: int, rng: Rng) -> None:
    """Rows of x with a single one give weights as they are multiplied. Those near 2^-10 have scales
    that float16 doesn't hold with all its digits."""
    m = Maker(rng, 40)
    case = m.case("linear", m.input("T", 256), weights={"w0": m.weight("w0", 48, 256, quant=quant)})
    places, own, shift = IN_HALVES[quant]
    blocks = m.weights["w0"].reshape(-1, quants.get(quant).block_bytes)
    for at in places:
        d = np.ascontiguousarray(blocks[:, at:at + 2]).view(np.float16)
        blocks[:, at:at + 2] = np.ldexp(d, size).astype(np.float16).view(np.uint8)
    w = quants.dequantize(quant, m.weights["w0"], (48, 256)).astype(np.float64)
    (x,), columns = case.inputs.values(), rng.permutation(256)[:40]
    x[:] = np.eye(256, dtype=np.float32)[columns]
    (y,) = running.Bench(EmulatorBackend(FOUR_WARPS), case).run()
    largest = np.abs(w).reshape(48, 8, 32).max(axis=-1).repeat(32, axis=-1)
    bound = 2.0 ** -11 * (own * np.abs(w) + shift * largest) + (1 + shift) * 2.0 ** -25
    assert np.abs(w).max() > 0
    assert np.all(np.abs(y - w.T[columns]) <= bound.T[columns] * (1 + 2.0 ** -10))


@pytest.mark.parametrize("quant", IN_HALVES)
def test_blocks_beside_tiles(quant: str, rng: Rng) -> None:
    """Rows that are no multiple of 16 keep their blocks, and the same file of the format."""
    assert run(product(quant, 2, rng, 20), EmulatorBackend(FOUR_WARPS)) == {"matvec"}


def test_an_odd_number_of_slices(rng: Rng) -> None:
    case = product("Q8_0", 70, rng, 48, 3 * 64)
    assert quants.in_tiles("Q8_0", (48, 192))
    backend = EmulatorBackend(FOUR_WARPS)
    assert "matmul_mma" in run(case, backend) and wide(case, backend) == [32]


@pytest.mark.parametrize("quant", ["Q8_0", "Q4_0", "F16"])
@pytest.mark.parametrize("n_in", [64, 128, 192, 320, 448, 1088])
def test_few_rows_of_any_number_of_slices(quant: str, n_in: int, rng: Rng) -> None:
    """The last slices of a row are taken one by one, and there may be more of them than warps."""
    for n_tokens in (1, 2, 7, 9):
        kernel = kernel_for(n_tokens, coded=quant != "F16")
        assert kernel in run(product(quant, n_tokens, rng, 48, n_in))


def skinny(case: Case, backend: EmulatorBackend) -> Dispatch:
    """The dispatch of a product with few rows of x that runs."""
    program = running.Bench(backend, case).program
    assert isinstance(program, EmulatorProgram)
    _, size = program.step.pack()
    (found,) = (d for d in program.lowered.dispatches
                if d.kernel == "matvec_mma" and d.grid(size) is not None)
    return found


@pytest.mark.parametrize(("quant", "n_tokens", "n_in", "threads", "rows"), [
    ("Q4_K", 16, 2048, 256, 16), ("Q4_K", 9, 1536, 192, 16), ("Q6_K", 32, 2304, 160, 32),
    ("Q8_0", 33, 1024, 256, 32), ("Q5_1", 64, 576, 160, 32), ("F16", 5, 1024, 256, 8),
    ("BF16", 16, 320, 96, 16)])
def test_warps_share_the_columns_of_few_rows(quant: str, n_tokens: int, n_in: int, threads: int,
                                             rows: int, rng: Rng, monkeypatch: pytest.MonkeyPatch
                                             ) -> None:
    """Two bands of 16 rows together, of which the last workgroup may have one; and no fewer warps
    than have as many tiles."""
    shapes = _skinny.FORMS if n_tokens % 2 else {
        name: replace(form, shapes=[replace(shape, enough=1) for shape in form.shapes])
        for name, form in _skinny.FORMS.items()}
    monkeypatch.setattr(_skinny, "FORMS", shapes)
    for features in (MATRICES, FOUR_WARPS | {"pdl"}):
        backend, case = EmulatorBackend(features), product(quant, n_tokens, rng, 80, n_in)
        assert "matvec_mma" in run(case, backend)
        found = skinny(case, backend)
        assert (found.threads, found.constants["NT"]) == (threads, rows)
        assert found.constants["BANDS"] == (1 if n_tokens % 2 else 2)


@pytest.mark.parametrize(("formats", "act"), [
    (("Q4_K", "Q4_K"), "silu"), (("Q6_K",) * 3, ""), (("Q8_0", "Q8_0"), ""), (("F16",) * 2, "gelu"),
    (("Q4_K", "Q8_0"), "silu")])
def test_several_weights_and_few_rows(formats: tuple[str, ...], act: str, rng: Rng) -> None:
    """A dispatch multiplies all weights of a format, or both of a gated unit, with biases. What the
    unit's weights of two formats make goes through memory."""
    for n_tokens in (6, 16) if "F16" in formats else (11, 40):
        m = Maker(rng, n_tokens)
        weights = {f"w{i}": m.weight(f"w{i}", 48, 512, quant=q) for i, q in enumerate(formats)}
        weights["b1"] = m.weight("b1", 48)
        case = m.case("linear", m.input("T", 512), weights=weights,
                      attrs={"act": act} if act else {})
        for features in (MATRICES, FOUR_WARPS | {"pdl"}):
            ran = run(case, EmulatorBackend(features))
            assert "matvec_mma" in ran and "matmul_mma" not in ran
            assert ("glu" in ran) == (len(set(formats)) > 1)


def test_few_rows_of_weights_in_and_out_of_tiles(rng: Rng) -> None:
    """Weights of which one isn't in tiles agree on what few rows are."""
    for n_tokens, ran in ((8, {"matvec"}), (9, {"matmul_mma"})):
        m = Maker(rng, n_tokens)
        case = m.case("linear", m.input("T", 512), weights={
            f"w{i}": m.weight(f"w{i}", n, 512, quant="Q8_0") for i, n in enumerate((48, 5))})
        for features in (MATRICES, FOUR_WARPS):
            found = run(case, EmulatorBackend(features))
            assert found & {"matvec", "matvec_mma", "matmul_mma"} == ran


@pytest.mark.parametrize("quant", ["Q4_K", "F16"])
def test_more_groups_than_tiles(quant: str, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid that is folded may have groups beyond the last tile. They read no rows beyond it."""
    monkeypatch.setattr(_products, "fold", lambda n: (2, -(-n // 2)))
    for n_tokens in (1, 2):
        case, backend = product(quant, n_tokens, rng), EmulatorBackend(MATRICES | {"pdl"})
        assert "matvec" in run(case, backend)
        program = running.Bench(backend, case).program
        assert isinstance(program, EmulatorProgram)
        (few,) = [groups for d in program.lowered.dispatches if d.kernel == "matvec"
                  and (groups := d.grid(program.step.pack()[1])) is not None]
        assert few[0] * few[1] > 80 // 16


@pytest.mark.parametrize("without", ["int_dot", "wgmma", "subgroups"])
def test_features_by_themselves(without: str, rng: Rng) -> None:
    """What is reserved for a product's other forms of x is enough where a device lacks some."""
    for quant in ("Q4_K", "Q8_0", "F16"):
        assert "matmul_mma" in run(product(quant, 140, rng, 48, 512),
                                   EmulatorBackend(FOUR_WARPS - {without}))


@pytest.mark.parametrize("n_tokens", [1, 17])
def test_what_begins_early_waits_for_the_launch_before(n_tokens: int, rng: Rng) -> None:
    """The emulator tells a kernel that reads or writes an argument before it waits."""
    backend, case = EmulatorBackend(MATRICES | {"pdl"}), product("Q4_K", n_tokens, rng)
    assert "matvec" in run(case, backend) or n_tokens > 1
    program = running.Bench(backend, case).program
    assert isinstance(program, EmulatorProgram)
    assert all(d.constants["PDL"] for d in program.lowered.dispatches)


@pytest.mark.parametrize("quant", ["Q4_K", "Q3_K", "F16"])
def test_tiles_without_matrix_units(quant: str, rng: Rng) -> None:
    """What is in tiles is still read after a trial found that matrix units are wrong."""
    for n_tokens in (1, 5, 17):
        assert run(product(quant, n_tokens, rng), InTiles(FEATURES - FEATURES)) == {"matvec"}


@pytest.mark.parametrize("quant", TILED)
def test_rows_of_a_table_in_tiles(quant: str, rng: Rng) -> None:
    m = Maker(rng, 7)
    m.batch.tokens[:7] = rng.integers(0, 48, 7)
    case = m.case("embed", m.g.inputs["tokens"], weights={"w": m.weight("w", 48, 256, quant=quant)})
    (y,) = running.Bench(InTiles(), case).run()
    truth = quants.dequantize(quant, m.weights["w"], (48, 256))[m.batch.tokens[:7]].astype(float)
    assert np.all(np.abs(y - truth) <= 4 * 2.0 ** -24 * np.abs(truth).max())


@pytest.mark.parametrize("features", [MATRICES, FOUR_WARPS], ids=["a warp", "four warps"])
@pytest.mark.parametrize(("gate", "down", "twists"), [
    ("Q4_K", "Q6_K", ("gate_up", "down_scale")), ("Q8_0", "Q4_0", ("gateless", "up_b")),
    ("F16", "MXFP4", ("gate_b", "down_b"))])
def test_experts(gate: str, down: str, twists: tuple[str, ...], features: frozenset[str], rng: Rng
                 ) -> None:
    for n_tokens, held in ((3, None), (40, (1, 3))):
        case = moe.one(rng, n_tokens, 5, 2, "silu", gate, down, held, twists=twists,
                       sizes=(256, 256))
        backend = EmulatorBackend(features)
        ran = run(case, backend)
        assert wide(case, backend) == ([64, 64] if features == FOUR_WARPS and n_tokens > 8 else [])
        assert ("moe_mma" in ran) == (n_tokens > 8), ran
        assert ("moe_out" in ran) == (n_tokens <= 8), ran


@pytest.mark.parametrize("features", [MATRICES, FOUR_WARPS], ids=["a warp", "four warps"])
@pytest.mark.parametrize(("gate", "down", "twists"), [
    ("Q8_0", "Q4_0", ("gate_up", "up_b")), ("F16", "Q8_0", ())])
def test_experts_whose_last_tile_has_few_rows(gate: str, down: str, twists: tuple[str, ...],
                                              features: frozenset[str], rng: Rng) -> None:
    """No matrix has a multiple of the 128 rows of a tile."""
    case = moe.one(rng, 10, 3, 2, "silu", gate, down, twists=twists, sizes=(192, 320))
    ran = dispatched(case, EmulatorBackend(features))
    assert [d.constants["TM"] for d in ran if d.kernel == "moe_mma"] == [128, 128]


def attention(rng: Rng, n_tokens: int, n_heads: int, n_kv: int, k_dim: int, v_dim: int,
              history: int = 90, **more: Any) -> Case:
    m = Maker(rng, n_tokens, n_seqs=1 if n_tokens == 1 else 2, max_history=history,
              kv_types=("F16", "F16"))
    spec = KVSpec(0, n_kv, k_dim, v_dim)
    weights: Mapping[str, Weight] = (
        {"sinks": m.weight("sinks", n_heads)} if more.pop("sinks", False) else {})
    return m.case("attention", m.input("T", n_heads * k_dim), state=spec, weights=dict(weights),
                  attrs={"n_heads": n_heads, "scale": k_dim ** -0.5, **more}, kv=m.cache(spec))


@pytest.mark.parametrize(("n_heads", "n_kv", "k_dim", "v_dim", "more"), [
    (4, 1, 64, 64, {}), (2, 2, 128, 128, {}), (14, 2, 64, 64, {"sinks": True}),
    (6, 1, 96, 80, {"window": 17}), (4, 1, 192, 128, {"softcap": 3.0}), (1, 1, 256, 256, {}),
    (8, 2, 16, 16, {"alibi": 8.0})])
def test_attention(n_heads: int, n_kv: int, k_dim: int, v_dim: int, more: dict[str, Any], rng: Rng
                   ) -> None:
    for n_tokens in (1, 21):
        case = attention(rng, n_tokens, n_heads, n_kv, k_dim, v_dim, **more)
        decode = n_tokens == 1 or case.batch.n_tokens == case.batch.n_seqs
        assert ("attention_mma" in run(case)) == (not decode or n_heads // n_kv >= 4)


def test_only_caches_of_float16_meet_matrix_units(rng: Rng) -> None:
    for case in islice(cases.registry()["attention"](rng), 12):
        backend = EmulatorBackend(MATRICES)
        if backend.supports(backend.target.device, case.node):
            program = running.Bench(backend, case).program
            assert isinstance(program, EmulatorProgram)
            uses = any(d.kernel == "attention_mma" for d in program.lowered.dispatches)
            assert not uses or case.layout.k_type == case.layout.v_type == "F16"


def conflicting(rng: Rng) -> Iterator[Case]:
    for quant in ("Q4_K", "F16", "BF16"):
        yield product(quant, 40, rng)
    for quant, n_tokens in (("Q4_K", 12), ("Q6_K", 80), ("F16", 12), ("BF16", 6)):
        yield product(quant, n_tokens, rng)
    yield attention(rng, 21, 4, 1, 64, 64)
    yield attention(rng, 21, 4, 1, 96, 80)
    yield attention(rng, 21, 4, 1, 128, 128)


def test_no_two_rows_of_a_matrix_share_a_bank(rng: Rng) -> None:
    """Eight rows of sixteen bytes are read at once, so they must lie in all 32 banks."""
    for case in conflicting(rng):
        before = build.runtime().rows_read(), build.runtime().bank_conflicts()
        run(case)
        assert build.runtime().rows_read() > before[0], case.name
        assert build.runtime().bank_conflicts() == before[1], case.name
