"""Every case as dispatches for a backend that is no driver's: what any family and driver gets."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import cases
from backends._gpu.emulated import Emulated, EmulatedBackend, EmulatedProgram, Texts, memory_of
from backends._gpu.kernels import KERNELS
from cases import running
from cases.base import Case, Maker
from unladen.backends._gpu.dispatch import Dispatch
from unladen.backends._gpu.lowering import found, registry
from unladen.backends._gpu.step import KEYS_PER_SPLIT, MAX_SPLITS, TILE_TOKENS, Size
from unladen.backends._gpu.target import ALIGNMENT, MAX_GROUPS, WORKGROUP_BYTES, Range
from unladen.backends.base import BackendOptions
from unladen.discover import PLUGIN_PATH
from unladen.graph.graph import Node, Value

Rng = np.random.Generator
every_op = pytest.mark.parametrize("op", sorted(registry()))
FEATURES = frozenset({"subgroups", "int_dot"})
MOST_TOKENS = 1000
"""More than a step of any case has."""
RUNNABLE = ("add", "clamp", "columns", "scale", "select_rows", "rms_norm", "embed", "linear")
"""Ops that the kernels in Python can compute."""


def benches(op: str, rng: Rng, features: frozenset[str] = FEATURES, **target: int
            ) -> Iterator[running.Bench]:
    """The cases of ``op``, compiled for a device of which everything is asked."""
    backend = EmulatedBackend(Texts(runs_all=True), features=features, **target)
    for case in cases.registry()[op](rng):
        if backend.supports(backend.target.device, case.node):
            yield running.Bench(backend, case)


def program(bench: running.Bench) -> EmulatedProgram:
    assert isinstance(bench.program, EmulatedProgram)
    return bench.program


def sizes(case: Case) -> list[Size]:
    """Steps from the smallest to the largest that the case's limits allow."""
    limits, found = case.limits, []
    n_shares = -(-limits.n_blocks_per_seq * case.layout.block_tokens // KEYS_PER_SPLIT)
    for n in range(1, limits.n_tokens + 1):
        tiles = -(-n // TILE_TOKENS)
        if n > 1:  # one token alone is a decode step
            found.append(Size(n, min(n, limits.n_outputs), tiles, 1, False, frozenset()))
        if n <= limits.n_seqs:
            found += [Size(n, min(n, limits.n_outputs), n, splits, True, frozenset())
                      for splits in {1, min(2, n_shares), min(MAX_SPLITS, n_shares)}]
    return found


def test_every_op_that_runs_somewhere_has_a_lowering() -> None:
    assert not found().left_out
    assert set(registry()) == set(cases.registry())


@every_op
def test_kernels_are_those_that_the_lowering_names(op: str, rng: Rng) -> None:
    """Both with all features of the hardware and with none."""
    for features in (FEATURES, frozenset[str]()):
        emitted = {d.kernel for b in benches(op, rng, features)
                   for d in program(b).lowered.dispatches}
        assert emitted <= registry()[op].kernels
        if features:
            assert emitted == registry()[op].kernels


@every_op
def test_bindings_are_in_bounds(op: str, rng: Rng) -> None:
    for bench in benches(op, rng):
        for d in program(bench).lowered.dispatches:
            memory = memory_of(d.ranges)
            for name, r in memory.items():
                assert 0 <= r.offset <= r.offset + r.nbytes <= r.buffer.nbytes, (d.kernel, name)
                assert r.nbytes > 0 and r.nbytes % 4 == r.offset % 4 == 0, (d.kernel, name)
            # One more are the words of the step, one the codebook of a format.
            assert len(memory) + 2 <= Emulated.max_storage_buffers
            for data in d.ranges.values():
                assert isinstance(data, Range) or 0 < len(data) <= ALIGNMENT
                assert isinstance(data, Range) or len(data) % 4 == 0


@every_op
def test_constants_are_names_and_numbers(op: str, rng: Rng) -> None:
    for bench in benches(op, rng):
        for d in program(bench).lowered.dispatches:
            for name, value in d.constants.items():
                assert re.fullmatch(r"[A-Z][A-Z0-9_]*", name), (d.kernel, name)
                assert isinstance(value, bool) or 0 <= value < 1 << 32, (d.kernel, name)
            assert 32 <= d.threads <= 256 and not d.threads & (d.threads - 1), d.kernel
            used = {name for name in FEATURES if d.constants.get(name.upper())}
            assert used <= registry()[op].features


@every_op
def test_grids_cover_what_a_step_makes(op: str, rng: Rng) -> None:
    """Whatever the size of a step, some dispatch writes each output, and the workgroups that bind
    an output are enough for its elements."""
    for bench in benches(op, rng):
        case, dispatches = bench.case, program(bench).lowered.dispatches
        for size in sizes(case):
            grids = [(d, d.grid(size)) for d in dispatches]
            ran = [(d, groups) for d, groups in grids if groups is not None]
            for d, groups in ran:
                assert len(groups) == 3 and all(0 < n <= MAX_GROUPS for n in groups), d.kernel
            for value in case.node.outputs:
                n = size.rows(str(value.shape[0])) * int(np.prod(value.shape[1:], dtype=int))
                at = bench.offsets[value]
                made = [int(np.prod(groups)) * elements(d, case.node, value) for d, groups in ran
                        if any(r.offset == at and name.startswith(("y", "spread", "places", "told"))
                               for name, r in memory_of(d.ranges).items())]
                assert sum(made) >= n, (op, size, value.shape, case.name)


@every_op
@pytest.mark.parametrize("features", [FEATURES, FEATURES | {"mma"}, frozenset()])
def test_grids_of_the_largest_steps(op: str, features: frozenset[str], rng: Rng) -> None:
    """No dimension is larger than devices allow, however many tokens a step has. Logits of so many
    rows would take more memory than a binding may have."""
    for bench in benches(op, rng, features):
        for n in (MAX_GROUPS + 1, 3 * MAX_GROUPS):
            for is_decode in (False, True):
                size = Size(n, MAX_GROUPS, -(-n // TILE_TOKENS), 1, is_decode, frozenset())
                for d in program(bench).lowered.dispatches:
                    assert max(d.grid(size) or (0,)) <= MAX_GROUPS, (d.kernel, n)


def elements(d: Dispatch, node: Node, value: Value) -> int:
    """Elements of an output that a workgroup writes at most."""
    c = d.constants
    cols = int(np.prod(value.shape[1:], dtype=int))
    by_kernel = {
        "embed": lambda: d.threads * 8,
        "matvec": lambda: c["R"] * c["NT"] * max(1, c.get("MATRICES", 1)),
        "matvec_mma": lambda: c["R"] * c["NT"] * max(1, c.get("MATRICES", 1)),
        "matmul": lambda: c["TM"] * c["TN"], "matmul_coded": lambda: c["TM"] * c["TN"],
        "moe_out": lambda: c["R"], "attention_join": lambda: c["VD"],
        # The first workgroup of a head copies the columns that stay.
        "head_linear": lambda: cols // node.weights["w"].shape[0],
        "attention": lambda: c["TILE_TOKENS"] * c["TILE_HEADS"] * c["VD"],
        "attention_wide": lambda: c["TILE_TOKENS"] * c["TILE_HEADS"] * c["VD"],
        "rms_norm": lambda: cols, "layer_norm": lambda: cols, "l2_norm": lambda: cols,
        "pooled_attention": lambda: cols // node.int_attr("n_heads"),
        "hyper_weights": lambda: d.threads * cols, "argmax": lambda: 1, "moe_route": lambda: cols,
        "top_k": lambda: node.int_attr("k")}
    if "slots" in d.ranges:  # a thread walks over the tokens of its sequence
        return d.threads * MOST_TOKENS
    return int(by_kernel.get(d.kernel, lambda: d.threads)())


@pytest.mark.parametrize("features", [FEATURES, frozenset()])
def test_what_a_workgroup_keeps_fits_its_memory(features: frozenset[str], rng: Rng) -> None:
    """Queries of the attention, and pairs that are sorted."""
    for bench in benches("attention", rng, features):
        for d in program(bench).lowered.dispatches:
            if d.kernel == "attention_wide":
                c = d.constants
                rows = c["TILE_TOKENS"] * c["TILE_HEADS"]
                assert 4 * rows * (c["KD"] + 2 * c["KT"]) + 16 * c["KT"] <= WORKGROUP_BYTES
    for bench in benches("top_k", rng, features):
        assert all(8 * d.constants["TILE"] <= WORKGROUP_BYTES
                   for d in program(bench).lowered.dispatches)


@pytest.mark.parametrize("target", [{}, {"max_storage_buffers": 8},
                                    {"max_binding": 212992}])
@pytest.mark.parametrize("op", RUNNABLE)
def test_a_second_family_computes_the_same(op: str, target: dict[str, int], rng: Rng) -> None:
    """Kernels in Python get nothing but the dispatches and the words of the step. Outputs hold NaN
    before, so what no workgroup reaches is noticed. A device that binds little at once gets large
    weights in pieces."""
    backend = EmulatedBackend(Texts(runs_all=False), **target)
    n_run = 0
    for case in cases.registry()[op](rng):
        if op == "linear" and "act" in case.node.attrs:
            continue
        bench = running.Bench(backend, case)
        running.check(case, bench.run(), precise=True, what="kernels in Python")
        n_run += 1
    assert n_run > 1


def test_what_has_no_text_is_not_run(rng: Rng) -> None:
    backend = EmulatedBackend(Texts(runs_all=False))
    for op, how in registry().items():
        case = next(iter(cases.registry()[op](rng)))
        has_all = how.kernels <= KERNELS.keys()
        assert backend.supports(backend.target.device, case.node) == has_all, op


def test_a_forgone_feature_is_not_used(rng: Rng) -> None:
    backend = EmulatedBackend(Texts(runs_all=True), features=FEATURES)
    m = Maker(rng, 20)
    case = m.case("linear", m.input("T", 256), weights={"w0": m.weight("w0", 9, 256, quant="Q4_K")})
    device = backend.devices()[0]
    bench = running.Bench(backend, case)
    assert backend.variant(device, case.node, BackendOptions()) == "int_dot, subgroups"
    assert "quantize" in {d.kernel for d in program(bench).lowered.dispatches}
    backend.forgo_variant(device, case.node)
    assert backend.variant(device, case.node, BackendOptions()) == ""
    assert "quantize" not in {d.kernel for d in program(running.Bench(backend, case)
                                                        ).lowered.dispatches}


def test_nothing_of_a_driver_is_loaded() -> None:
    code = ("import sys; from unladen.backends._gpu.lowering import registry; registry();"
            "print(*[m for m in sys.modules if 'wgpu' in m])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


STRANGER = '''
from unladen.backends._gpu.lowering.base import OpLowering, n_cols, numbers


class Squash(OpLowering):
    op = "squash"
    kernels = frozenset({"squash"})

    def lower(self, low, node):
        (x,), (y,) = node.inputs, node.outputs
        low.elements("squash", y, {"params": numbers(n_cols(y)), "x": low.value(x),
                                   "y": low.value(y)})
'''


def test_a_lowering_from_a_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lowering").mkdir()
    (tmp_path / "lowering/squash.py").write_text(STRANGER)
    (tmp_path / "lowering/bare.py").write_text(STRANGER.split("    def lower")[0])
    monkeypatch.setenv(PLUGIN_PATH, str(tmp_path))
    again = found.__wrapped__()
    assert set(again.named()) == {*registry(), "squash"}
    assert [(Path(each.where).name, "has no lower" in each.why) for each in again.left_out] == [
        ("bare.py", True)]
