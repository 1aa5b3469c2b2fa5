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
from cases.base import Case, Maker
from unladen.backends._gpu.dispatch import Dispatch
from unladen.backends._gpu.lowering import registry
from unladen.backends._gpu.target import WORKGROUP_BYTES, Range
from unladen.backends.wgpu import source
from unladen.graph.graph import KVSpec

Rng = np.random.Generator
SIZES = {"u32": 4, "f32": 4, "i32": 4, "vec2u": 8}
"""Bytes of the types of members."""
ELEMENTS = {**SIZES, **dict.fromkeys(("vec3f", "vec3u", "vec4f", "vec4u"), 16), "vec2f": 8}
"""Bytes of the elements of arrays."""


def dispatches(op: str, rng: Rng, **said: int) -> Iterator[Dispatch]:
    """Those of the op's cases, with all features of the hardware and with none. ``said``: what the
    target says besides."""
    for features in (frozenset({"subgroups", "int_dot"}), frozenset[str]()):
        backend = EmulatedBackend(source, features=features)
        vars(backend.target).update(said)
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


def shared_bytes(text: str) -> int:
    """Bytes of a workgroup's memory in a kernel's text."""
    terms = dict(re.findall(r"^const (\w+) = ([^;]*);", text, re.M))

    def number(term: str) -> int:
        plain = re.sub(r"\b(\d+)u\b", r"\1", term).replace("/", "//")
        names = {name: number(terms[name]) for name in re.findall(r"\b[A-Z]\w*", plain)}
        return int(eval(plain, {"min": min, "max": max}, names))

    shared = re.findall(r"^var<workgroup> \w+: (?:array<)?(\w+)(?:, ([^;]*)>)?;", text, re.M)
    return sum(ELEMENTS[kind] * number(length or "1u") for kind, length in shared)


def long_rows(rng: Rng, k_dim: int, v_dim: int, n_heads: int) -> Case:
    m = Maker(rng, 20, n_seqs=2, max_history=40, kv_types=("F16", "F16"))
    spec = KVSpec(0, 1, k_dim, v_dim)
    return m.case("attention", m.input("T", n_heads * k_dim), state=spec,
                  attrs={"n_heads": n_heads, "scale": k_dim ** -0.5}, kv=m.cache(spec))


@pytest.mark.parametrize(("k_dim", "v_dim", "limit", "tokens"), [
    (64, 64, 16, 8), (256, 256, 16, 8), (320, 256, 16, 8), (512, 512, 16, 4), (576, 512, 16, 4),
    (576, 512, 32, 8), (1024, 1024, 16, 2), (1024, 1024, 32, 4), (1024, 1024, 48, 8)])
@pytest.mark.parametrize("n_heads", [1, 3, 16])
def test_long_rows_fit_the_memory_of_a_workgroup(
        k_dim: int, v_dim: int, limit: int, tokens: int, n_heads: int, rng: Rng) -> None:
    """Tiles have fewer tokens where a device says that it has little."""
    backend = EmulatedBackend(source, workgroup_bytes=limit << 10)
    program = running.Bench(backend, long_rows(rng, k_dim, v_dim, n_heads)).program
    assert isinstance(program, EmulatedProgram)
    assert program.lowered.tile_tokens == tokens
    for d in program.lowered.dispatches:
        text = source.assemble(d.kernel, d.quant, d.constants).text
        assert 0 < shared_bytes(text) <= limit << 10, d.kernel
        assert d.constants.get("TILE_TOKENS", 1) in (1, tokens)


@pytest.mark.parametrize("op", sorted(registry()))
def test_what_a_workgroup_keeps_fits_its_memory(op: str, rng: Rng) -> None:
    """That which every device has."""
    for d in dispatches(op, rng, workgroup_bytes=WORKGROUP_BYTES):
        text = source.assemble(d.kernel, d.quant, d.constants).text
        assert shared_bytes(text) <= WORKGROUP_BYTES, (d.kernel, d.constants)


@pytest.mark.parametrize("op", sorted(registry()))
def test_devices_that_bind_little(op: str, rng: Rng) -> None:
    """No dispatch binds more than its device can, and a device that can bind less than the node
    needs doesn't run it."""
    how, n_run = registry()[op], 0
    for features in (frozenset({"subgroups", "int_dot"}), frozenset[str]()):
        for case in cases.registry()[op](rng):
            n = how.n_bindings(case.node)
            less = EmulatedBackend(source, features=features, max_storage_buffers=n - 1)
            assert not less.supports(less.target.device, case.node)
            backend = EmulatedBackend(source, features=features, max_storage_buffers=n)
            if not backend.supports(backend.target.device, case.node):
                continue
            program = running.Bench(backend, case).program
            assert isinstance(program, EmulatedProgram)
            for d in program.lowered.dispatches:
                bound = [kind for _, kind, _ in
                         source.assemble(d.kernel, d.quant, d.constants).bindings]
                # One more are the words of the step.
                assert 1 + sum(kind != "uniform" for kind in bound) <= n, (d.kernel, case.name)
            n_run += 1
    assert n_run
