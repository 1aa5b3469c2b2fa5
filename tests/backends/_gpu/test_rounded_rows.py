"""Rows that kernels round to int8, or split into numbers of 16 bits, are those of the stated
rounding: to the bit on the emulator, elsewhere but for how a device divides and adds."""

from __future__ import annotations

import numpy as np
import pytest

from backends._gpu.attending import ROUNDED, Attending
from backends._gpu.opening import opened
from backends._gpu.rounded_rows import (
    COMMON,
    SMALLEST,
    Coded,
    left,
    odd_rows,
    only,
    parts_left,
    parts_of,
)
from backends._gpu.rounding import Feeding, Rounding
from cases import moe, running
from cases.base import Array, Maker
from emulator.backend import FEATURES, EmulatorBackend
from unladen.backends._gpu.lowering._matrix import FEW_ROWS
from unladen.backends.base import Backend, BackendOptions
from unladen.graph.ops import get_op
from unladen.graph.ops.base import RefContext

Rng = np.random.Generator
MATRICES = FEATURES | {"mma"}
FOUR_WARPS = MATRICES | {"wgmma"}
Patch = pytest.MonkeyPatch


@pytest.fixture(params=["emulator int_dot", "emulator int_dot subgroups mma", "opencl int_dot",
                        "wgpu int_dot"])
def backend(request: pytest.FixtureRequest, monkeypatch: Patch) -> Backend:
    return opened(request.param, monkeypatch)


def product(rng: Rng, quant: str, x: Array, n_out: int = 48) -> running.Case:
    m = Maker(rng, len(x))
    return m.case("linear", m.input("T", x.shape[1], values=x), weights={
        "w0": m.weight("w0", n_out, x.shape[1], quant=quant)})


def check(found: Coded, backend: Backend, x: Array) -> None:
    """Compare with rows that are known to the bit."""
    if isinstance(backend, EmulatorBackend):
        found.check_exactly(x)
    else:
        found.check_closely(x.astype(np.float64))


def rounded(backend: Backend, rng: Rng) -> tuple[Coded, Array]:
    """What ``quantize`` leaves of rows of a random size, and the rows."""
    n, columns = int(rng.integers(FEW_ROWS + 1, 40)), 64 * int(rng.integers(1, 9))
    x = odd_rows(rng, n, columns)
    bench = running.Bench(backend, product(rng, "Q8_0", x))
    bench.run()
    constants, found = left(backend, bench.program, bench.arena, "quantize")
    return Coded.read(found["codes"], found["scales"], x.shape, int(constants["RUNS"])), x


def test_rows(backend: Backend, rng: Rng, monkeypatch: Patch, request: pytest.FixtureRequest
              ) -> None:
    """In tiles, two runs have one scale."""
    only(backend, monkeypatch, "quantize")
    for _ in range(3):
        found, x = rounded(backend, rng)
        assert found.together == (2 if "mma" in request.node.name else 1)
        check(found, backend, x)


def normed(backend: Backend, rng: Rng) -> tuple[Coded, Array, Array, Array]:
    """What ``norm_quantize`` leaves; rows on paper, how far those of a kernel may be off, and on
    the emulator those that ``rms_norm`` makes."""
    case = Rounding(rng, ["Q8_0"], int(rng.integers(4, 12)), n_out=(48,),
                    n_in=(64, 192, 320, 1280, 1984))
    m, norm = case.m, case.graph.nodes[0]
    m.inputs[case.x] = odd_rows(rng, *m.inputs[case.x].shape, COMMON)
    program, arena, _ = case.compiled(backend, joined=True)
    backend.run(program)
    constants, found = left(backend, program, arena, "norm_quantize")
    shape = m.inputs[case.x].shape
    mine = Coded.read(found["codes"], found["scales"], shape, int(constants["RUNS"]))
    ctx = RefContext(m.batch, {"w": m.weights["w"].view(np.float32).astype(np.float64)})
    x = [m.inputs[case.x].astype(np.float64)]
    with np.errstate(invalid="ignore"):
        (y,), (off,) = (how(norm, x, ctx) for how in (get_op("rms_norm").reference,
                                                      get_op("rms_norm").error_bound))
    rows = np.zeros(shape, np.float32)
    if isinstance(backend, EmulatorBackend):
        program, arena, _ = case.compiled(backend, joined=False)
        backend.run(program)
        rows = floats(left(backend, program, arena, "rms_norm")[1]["y"], shape)
    return mine, y, off, rows


def floats(data: Array, shape: tuple[int, int]) -> Array:
    found: Array = data.view(np.float32)[:shape[0] * shape[1]].reshape(shape)
    return found


@pytest.mark.parametrize("most_kept", [1, 8])
def test_rows_of_norms(backend: Backend, most_kept: int, rng: Rng, monkeypatch: Patch) -> None:
    monkeypatch.setattr("unladen.backends._gpu.lowering.rms_norm.MOST_KEPT", most_kept)
    only(backend, monkeypatch, "norm_quantize", "rms_norm")
    found, y, off, rows = normed(backend, rng)
    found.check_closely(y, off)
    if isinstance(backend, EmulatorBackend):
        found.check_exactly(rows)


def gated(backend: EmulatorBackend, rng: Rng) -> tuple[Coded, Array]:
    """What ``gated_rows`` leaves as int8, and its rows where it doesn't round."""
    case = Feeding(rng, ("Q8_0", "Q8_0"), int(rng.integers(4, FEW_ROWS + 1)))
    (x,), rows, mine = case.m.inputs, np.zeros(0, np.float32), None
    case.m.inputs[x] = odd_rows(rng, *case.m.inputs[x].shape, COMMON)
    for joined in (False, True):
        program, arena, _ = case.compiled(backend, joined=joined)
        backend.run(program)
        found = left(backend, program, arena, "gated_rows")[1]
        shape = len(case.m.inputs[x]), 256
        if joined:
            mine = Coded.read(found["y_codes"], found["y_scales"], shape, 2)
        else:
            rows = floats(found["y"], shape)
    assert mine is not None
    return mine, rows


@pytest.mark.parametrize("features", [MATRICES, MATRICES | {"pdl"}], ids=["mma", "pdl"])
def test_gated_rows(features: frozenset[str], rng: Rng, monkeypatch: Patch) -> None:
    backend = EmulatorBackend(features)
    only(backend, monkeypatch, "quantize", "gated_rows")
    for _ in range(2):
        found, rows = gated(backend, rng)
        found.check_exactly(rows)


def attended(backend: EmulatorBackend, rng: Rng, v_dim: int) -> tuple[Coded, Array]:
    """What ``attention_join`` leaves as int8, and its rows where it doesn't round. Sequences have
    values of several sizes."""
    sizes = (0.0, 1e-42, 1e-30, 1.0, 1e30, *rng.choice([np.nan, np.inf], 1))
    lengths = [int(n) for n in rng.integers(65, 90, len(sizes))]
    case = Attending(rng, lengths, n_heads=2, v_dim=v_dim, kv_types=("F16", "F32"))
    values = case.kv[1].view(np.float32).reshape(case.m.layout.n_blocks, -1)
    for s, size in enumerate(rng.permutation(sizes)):
        blocks = case.m.batch.block_table[s]
        with np.errstate(invalid="ignore"):
            values[blocks] = values[blocks] * np.float32(size)
    shape = len(sizes), 2 * v_dim
    mine, rows = None, np.zeros(0, np.float32)
    for joined in (False, True):
        program, arena, _, _ = case.compiled(backend, joined=joined, options=ROUNDED)
        backend.run(program)
        constants, found = left(backend, program, arena, "attention_join")
        if joined:
            mine = Coded.read(found["codes"], found["scales"], shape, int(constants["RUNS"]))
        else:
            rows = floats(found["y"], shape)
    assert mine is not None
    return mine, rows


@pytest.mark.parametrize("v_dim", [32, 96, 256])
def test_joined_rows(v_dim: int, rng: Rng, monkeypatch: Patch) -> None:
    backend = EmulatorBackend(MATRICES)
    only(backend, monkeypatch, "attention", "attention_wide", "attention_join")
    found, rows = attended(backend, rng, v_dim)
    assert np.isfinite(rows).any() and not np.isfinite(rows).all()
    found.check_exactly(rows)


SPLIT = [(MATRICES, "F16", False, 2), (MATRICES, "BF16", False, 3), (MATRICES, "Q8_0", True, 2),
         (FOUR_WARPS, "F16", False, 2), (FOUR_WARPS, "BF16", False, 3),
         (FOUR_WARPS, "Q8_0", False, 1), (MATRICES - {"subgroups"}, "F16", False, 2)]
"""Features, a format, whether x keeps its digits, and how many numbers stand for one."""


def check_parts(features: frozenset[str], quant: str, n_parts: int, n: int, rng: Rng, *,
                precise: bool) -> None:
    """The numbers, and the factors of rows, to the bit."""
    x = odd_rows(rng, n, 64 * int(rng.integers(1, 5)))
    backend = EmulatorBackend(features)
    bench = running.Bench(backend, product(rng, quant, x), BackendOptions(precise=precise))
    bench.run()
    constants, found = left(backend, bench.program, bench.arena, "split_rows")
    assert constants["PARTS"] == n_parts
    mine, good = parts_left(found["parts"], x.shape, constants), np.isfinite(x).all(axis=1)
    wanted, factors = parts_of(x[good], n_parts, brain=quant == "BF16")
    np.testing.assert_array_equal(mine[good], wanted)
    if quant == "BF16":
        spoiled = (mine.astype(np.uint32) << 16).view(np.float32)
    else:
        spoiled = mine.view(np.float16).astype(np.float32)
        np.testing.assert_array_equal(found["factors"].view(np.float32)[:n][good], factors)
    with np.errstate(invalid="ignore"):
        assert not np.isfinite(spoiled.sum(axis=1)[~np.isfinite(x)]).any()


@pytest.mark.parametrize(("features", "quant", "precise", "n_parts"), SPLIT)
def test_parts_of_rows(features: frozenset[str], quant: str, precise: bool, n_parts: int, rng: Rng,
                       monkeypatch: Patch) -> None:
    """Few rows and many, for products whose kernels differ; and more than are together."""
    only(EmulatorBackend(), monkeypatch, "split_rows")
    few = (17, 33, 60) if n_parts > 1 else (65, 70)
    for n in (int(rng.choice(few)), int(rng.integers(129, 150))):
        check_parts(features, quant, n_parts, n, rng, precise=precise)


def ones(n: int) -> Array:
    """The bytes of a matrix of 64 rows of 64 columns in Q8_0, ``n`` times: a 1 in each row."""
    blocks = np.zeros((64, 2, 34), np.uint8)
    blocks[..., :2] = np.array([1.0], np.float16).view(np.uint8)
    blocks[..., 2:] = np.eye(64, dtype=np.uint8).reshape(64, 2, 32)
    return np.tile(blocks.reshape(-1), n)


def held(backend: Backend, rng: Rng, n: int) -> tuple[Array, Array]:
    """What a product with ones makes of ``n`` rows of x that its kernel rounds itself, and x: its
    columns as they are multiplied, in blocks of 32."""
    x = odd_rows(rng, n, 64)
    case = product(rng, "Q8_0", x, n_out=64)
    case.weights["w0"][:] = ones(1)
    (y,) = running.Bench(backend, case).run()
    return y.reshape(n, 2, 32).astype(np.float64), x.reshape(n, 2, 32).astype(np.float64)


def held_by_experts(backend: Backend, rng: Rng) -> tuple[Array, Array]:
    """The same of many rows that chose experts. No number is below 0, which would become 0."""
    is_coded = False
    while not is_coded:
        case = moe.one(rng, 20, 3, 1, "relu", "Q8_0", "Q8_0", twists=("gateless",), sizes=(64, 64))
        is_coded = case.node.weights["up"].quant == "Q8_0"
    case.weights["up"][:] = ones(3)
    (x,) = case.inputs.values()
    x[:] = np.nan_to_num(np.abs(odd_rows(rng, 20, 64)), posinf=0.0)
    bench = running.Bench(backend, case)
    bench.run()
    _, found = left(backend, bench.program, bench.arena, "moe_tile", "HIDDEN")
    y = floats(found["y"], x.shape)
    return y.reshape(20, 2, 32).astype(np.float64), x.reshape(20, 2, 32).astype(np.float64)


def check_held(y: Array, x: Array) -> None:
    """Each column is within half of a 127th of the largest of its block."""
    # What isn't finite spoils all columns of its row.
    there = np.isfinite(x).all(axis=(1, 2))
    assert not np.isfinite(y[~there]).any()
    largest = np.abs(x[there]).max(axis=-1, keepdims=True)
    small = np.where(largest < 256 * SMALLEST, largest, 0.0)
    wrong = np.abs(y[there] - x[there])
    assert wrong.any(), "nothing is rounded"
    assert np.all(wrong <= 0.5001 * largest / 127 + small), "codes"


@pytest.mark.parametrize("n", [1, 3])
def test_rows_that_products_round(n: int, rng: Rng, backend: Backend, monkeypatch: Patch) -> None:
    only(backend, monkeypatch, "matvec", "quantize")
    check_held(*held(backend, rng, n))


@pytest.mark.parametrize("name", ["emulator int_dot", "opencl int_dot", "wgpu int_dot"])
def test_rows_that_experts_round(name: str, rng: Rng, monkeypatch: Patch) -> None:
    backend = opened(name, monkeypatch)
    only(backend, monkeypatch, "matvec", "matmul", "moe_route", "moe_group", "moe_tile")
    check_held(*held_by_experts(backend, rng))
