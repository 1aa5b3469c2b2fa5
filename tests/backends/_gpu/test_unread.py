"""No dispatch of a step makes what nothing reads."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import cases
from backends._gpu.emulated import EmulatedBackend, memory_of
from backends._gpu.rounding import Rounding
from backends._gpu.storing import Norming, Storing
from cases import running
from cases.base import Maker
from emulator.build import PORT
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.dispatch import Dispatch
from unladen.backends._gpu.lowering import registry
from unladen.backends._gpu.lowering._matrix import FEW_ROWS
from unladen.backends._gpu.step import Size
from unladen.backends._gpu.target import Range
from unladen.backends.base import BackendOptions
from unladen.graph.graph import Value
from unladen.types import Limits

Rng = np.random.Generator
FEATURES = [frozenset(names) for names in (
    (), ("int_dot",), ("subgroups", "int_dot"), ("subgroups", "int_dot", "mma"), ("mma",),
    ("subgroups", "int_dot", "mma", "wgmma"), ("mma", "wgmma"))]
"""Those of devices, and what is left of them with precise activations."""
FORMATS = (("Q4_K",), ("F16",), ("BF16",), ("Q4_K", "F16"), ("Q6_K", "Q8_0", "BF16"),
           ("IQ2_XXS", "F16"), ("IQ2_XXS", "Q4_K"))
"""Formats of the weights of a product. IQ2_XXS has no tiles."""
ROWS = (1, 2, 5, 8, 9, 17, 40, 65, 131, 2048)


def named(features: frozenset[str]) -> str:
    """The name of a test's parameter."""
    return " ".join(sorted(features)) or "none"


def backend(features: frozenset[str], **target: int) -> EmulatedBackend:
    return EmulatedBackend(c_texts, features=features, **target)


def written(d: Dispatch) -> set[str]:
    """The names of what a dispatch writes."""
    on = frozenset(name for name, value in d.constants.items() if value)
    return {name for name in _outputs(d.kernel, d.quant, on) if name in d.ranges}


@functools.cache
def _outputs(kernel: str, quant: str, on: frozenset[str]) -> set[str]:
    source = c_texts.assemble(kernel, quant, dict.fromkeys(on, 1), PORT)
    return {b.name for b in source.bindings if b.kind == "out"}


def unread(dispatches: Sequence[Dispatch], size: Size, arena: Range, kept: Sequence[Range]
           ) -> list[str]:
    """Kernels of dispatches in a step that write to the arena alone, and nothing that a later
    dispatch of the step reads. ``kept``: ranges that are read after the step."""
    waiting: list[tuple[str, list[Range]]] = []
    for d in dispatches:
        if d.grid(size) is None:
            continue
        memory, outputs = memory_of(d.ranges), written(d)
        read = [r for name, r in memory.items() if name not in outputs]
        waiting = [(kernel, made) for kernel, made in waiting if not meet(made, read)]
        waiting.append((d.kernel, [memory[name] for name in outputs]))
    return [kernel for kernel, made in waiting
            if not meet(made, kept) and all(r.buffer is arena.buffer for r in made)]


def meet(some: Sequence[Range], others: Sequence[Range]) -> bool:
    """Whether a range of one list shares a byte with one of the other."""
    return any(a.buffer is b.buffer and a.offset < b.offset + b.nbytes
               and b.offset < a.offset + a.nbytes for a in some for b in others)


def steps(limits: Limits) -> Iterator[Size]:
    """Decode steps and prefills of up to so many tokens."""
    for n in (n for n in ROWS if n <= limits.n_tokens):
        for is_decode in {n == 1, n <= 64}:
            for n_splits in (1, 4) if is_decode else (1,):
                yield Size(n, min(n, limits.n_outputs), n, n_splits, is_decode, frozenset())


def check(program: Any, arena: Any, limits: Limits, offsets: Mapping[Value, int],
          outputs: Sequence[Value], what: object) -> None:
    """Nothing is unread in any step of the program."""
    (whole,) = arena.parts
    kept = [Range(whole.buffer, offsets[value], 4 * limits.count(value.shape)) for value in outputs]
    for size in steps(limits):
        found = unread(program.lowered.dispatches, size, whole, kept)
        assert not found, (what, size, found)


@pytest.mark.parametrize("features", FEATURES, ids=named)
@pytest.mark.parametrize("op", sorted(registry()))
def test_nodes(op: str, features: frozenset[str], rng: Rng) -> None:
    for target in ({}, {"max_storage_buffers": 8}):
        own = backend(features, **target)
        for case in cases.registry()[op](rng):
            if own.supports(own.target.device, case.node):
                bench = running.Bench(own, case)
                check(bench.program, bench.arena, case.limits, bench.offsets, case.node.outputs,
                      case.name)


@pytest.mark.parametrize("features", FEATURES, ids=named)
@pytest.mark.parametrize("formats", FORMATS, ids="-".join)
def test_products(formats: Sequence[str], features: frozenset[str], rng: Rng) -> None:
    """Weights in tiles and others, in steps of many sizes."""
    for n_out, precise in ((64, False), (37, False), (64, True)):
        m = Maker(rng, ROWS[-1])
        case = m.case("linear", m.input("T", 512), weights={
            f"w{i}": m.weight(f"w{i}", n_out if i else 64, 512, quant=quant)
            for i, quant in enumerate(formats)})
        bench = running.Bench(backend(features), case, BackendOptions(precise=precise))
        check(bench.program, bench.arena, case.limits, bench.offsets, case.node.outputs, formats)


@pytest.mark.parametrize("features", [f for f in FEATURES if "int_dot" in f], ids=named)
@pytest.mark.parametrize("formats", [["Q4_K"], ["Q8_0", "Q4_K"]], ids="-".join)
def test_norms_that_round(formats: Sequence[str], features: frozenset[str], rng: Rng) -> None:
    for n_tokens in (1, FEW_ROWS, ROWS[-1]):
        for n_out in ((64,), (5, 64)):
            for joined in (True, False):
                case = Rounding(rng, formats, n_tokens, n_out=n_out)
                program, arena, offsets = case.compiled(backend(features), joined=joined)
                check(program, arena, case.m.limits, offsets, case.outputs, (formats, joined))


@pytest.mark.parametrize("features", FEATURES, ids=named)
def test_writes_of_the_cache(features: frozenset[str], rng: Rng) -> None:
    for n_tokens in (1, 3, 40):
        for style in ("", "norm", "neox"):
            for joined in (True, False):
                case = Storing(rng, style, n_tokens, formats=("F32", "F16", "F16"))
                norming = Norming(rng, style, n_tokens)
                for each in (case, norming):
                    program, arena, at, _ = each.compiled(backend(features), joined=joined)
                    check(program, arena, each.m.limits, {each.queries: at}, [each.queries],
                          (style, joined))


def test_what_is_unread_is_told(rng: Rng) -> None:
    """A dispatch that a step needs no more."""
    m = Maker(rng, 20)
    case = m.case("linear", m.input("T", 512),
                  weights={"w0": m.weight("w0", 64, 512, quant="Q8_0")})
    bench = running.Bench(backend(FEATURES[2]), case)
    lowered = bench.program.lowered  # type: ignore[attr-defined]
    (whole,) = bench.arena.parts  # type: ignore[attr-defined]
    dispatches = [d for d in lowered.dispatches if d.kernel != "matmul_coded"]
    size = Size(20, 1, 3, 1, False, frozenset())
    assert unread(dispatches, size, whole, []) == ["quantize"]
