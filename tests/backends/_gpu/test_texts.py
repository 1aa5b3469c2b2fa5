"""Every dispatch meets a text that takes it: constants, bindings and structs, device or not."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import numpy as np
import pytest

import cases
from backends._gpu.emulated import EmulatedBackend, EmulatedProgram
from cases import running
from unladen.backends._gpu.dispatch import Dispatch
from unladen.backends._gpu.lowering import registry
from unladen.backends._gpu.target import Range
from unladen.backends.wgpu import source

Rng = np.random.Generator
SIZES = {"u32": 4, "f32": 4, "i32": 4, "vec2u": 8}
"""Bytes of the types of members."""


def dispatches(op: str, rng: Rng) -> Iterator[Dispatch]:
    """Those of the op's cases, with all features of the hardware and with none."""
    for features in (frozenset({"subgroups", "int_dot"}), frozenset[str]()):
        backend = EmulatedBackend(source, features=features)
        for case in cases.registry()[op](rng):
            if backend.supports(backend.target.device, case.node):
                program = running.Bench(backend, case).program
                assert isinstance(program, EmulatedProgram)
                yield from program.lowered.dispatches


def struct_bytes(text: str, name: str) -> int:
    """Bytes of the struct, or the array of structs, that is bound as ``name``."""
    found = re.search(rf"var<uniform> {name}: (?:array<)?(\w+)(?:, (\w+))?", text)
    assert found, name
    body = re.search(rf"struct {found[1]} {{(.*?)\n}}", text, re.S)
    assert body, found[1]
    members = re.findall(r"^ *(@size\((\d+)\) )?\w+: (\w+),", body[1], re.M)
    size = sum(int(padded or SIZES[kind]) for _, padded, kind in members)
    if not found[2]:  # the last member is followed by nothing
        return size - sum(int(padded) - SIZES[kind] for _, padded, kind in members[-1:] if padded)
    times = re.search(rf"const {found[2]} = (\d+)u;", text)
    assert times, found[2]
    return size * int(times[1])


@pytest.mark.parametrize("op", sorted(registry()))
def test_wgsl_takes_every_dispatch(op: str, rng: Rng) -> None:
    seen = set()
    for d in dispatches(op, rng):
        key = (d.kernel, d.quant, tuple(sorted(d.constants.items())), tuple(sorted(d.ranges)))
        if key in seen:
            continue
        seen.add(key)
        made = source.assemble(d.kernel, d.quant, d.constants)
        text = re.sub(r"//.*", "", made.text)
        declared = set(re.findall(r"\bconst (\w+)", text))
        assert set(re.findall(r"\b[A-Z][A-Z0-9_]*\b", text)) <= declared, d.kernel
        assert re.findall(r"@workgroup_size\((\w+)\)", text) == ["WG"], d.kernel
        kinds = {name: kind for _, kind, name in made.bindings if name != "grid"}
        assert kinds.keys() == d.ranges.keys(), d.kernel
        for name, what in d.ranges.items():
            assert isinstance(what, bytes) == (kinds[name] == "uniform"), (d.kernel, name)
            if isinstance(what, bytes):
                assert len(what) == struct_bytes(text, name), (d.kernel, name)
    assert seen


@pytest.mark.parametrize("op", sorted(registry()))
def test_no_range_is_bound_twice_where_it_is_written(op: str, rng: Rng) -> None:
    """WebGPU forbids that."""
    for d in dispatches(op, rng):
        kinds = {name: kind for _, kind, name in
                 source.assemble(d.kernel, d.quant, d.constants).bindings}
        bound = [(name, r) for name, r in d.ranges.items() if isinstance(r, Range)]
        for (name, a), (other, b) in itertools.combinations(bound, 2):
            meet = a.buffer is b.buffer and max(a.offset, b.offset) < min(
                a.offset + a.nbytes, b.offset + b.nbytes)
            written = "storage" in (kinds[name], kinds[other])
            assert not (meet and written), (d.kernel, name, other)
