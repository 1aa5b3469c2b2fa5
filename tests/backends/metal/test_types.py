"""Every text for Metal has right types and address spaces, without a Mac."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import cases
import ran
from backends._gpu.emulated import EmulatedBackend, EmulatedProgram
from backends.metal import language
from cases import running
from cases.base import Case, Maker
from unladen import quants
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.lowering import registry
from unladen.backends.metal.device import PORT, Gpu

Rng = np.random.Generator
OPS = sorted(op for op, how in registry().items() if all(map(c_texts.has_kernel, how.kernels)))
MOST_ARGUMENTS, MOST_STRUCT_BYTES = 31, 4096
"""What Metal takes: numbers of arguments, and bytes that setBytes copies."""
MOST = 40
"""Texts of an op that are checked, drawn each time."""
WRONG = {
    "a type": ("  if (i >=", "  const u32 wrong = y;\n  if (i >=", "cannot initialize"),
    "a name": ("clamp_f32(x[i]", "clamp_f16(x[i]", "clamp_f16"),
    "an address space": ("  if (i >=", "  PRIVATE float *near = y;\n  if (i >=",
                         "address_space(1)")}


def sources(made: Iterable[Case], features: frozenset[str]) -> Iterator[c_texts.Source]:
    """Those of cases; arguments are counted."""
    backend = EmulatedBackend(c_texts, features=features, alignment=16,
                              max_storage_buffers=Gpu.max_storage_buffers)
    for case in made:
        if backend.supports(backend.target.device, case.node):
            program = running.Bench(backend, case).program
            assert isinstance(program, EmulatedProgram)
            for d in program.lowered.dispatches:
                source = c_texts.assemble(d.kernel, d.quant, d.constants, PORT)
                assert len(source.bindings) <= MOST_ARGUMENTS
                structs = [len(r) for r in d.ranges.values() if isinstance(r, bytes)]
                assert max(structs, default=0) <= MOST_STRUCT_BYTES
                yield source


def check(found: Iterable[c_texts.Source], rng: Rng) -> None:
    """Check some of the texts."""
    language.compiler()
    texts = sorted({source.text for source in found})
    assert texts
    with ThreadPoolExecutor(2) as pool:
        some = [texts[i] for i in rng.permutation(len(texts))[:MOST]]
        for said in pool.map(language.said_of, some):
            assert not said, said


@pytest.mark.parametrize("op", OPS)
def test_every_op(op: str, rng: Rng, record_property: Callable[[str, object], None]) -> None:
    check((source for features in (frozenset({"subgroups"}), frozenset[str]())
           for source in sources(cases.registry()[op](rng), features)), rng)
    record_property(ran.TYPES, ("metal", "clang with Metal's address spaces", op))


@pytest.mark.parametrize("quant", [q for q in sorted(quants.registry()) if c_texts.has_format(q)])
def test_every_format(quant: str, rng: Rng) -> None:
    """Rows, and products of one row, of a few and of many; with integer products where the format
    has codes."""
    n = 2 * quants.get(quant).block_size

    def made() -> Iterator[Case]:
        for n_tokens in (1, 3, 17):
            m = Maker(rng, n_tokens)
            yield m.case("linear", m.input("T", n),
                         weights={"w0": m.weight("w0", 21, n, quant=quant)})
        m = Maker(rng, 5)
        m.batch.tokens[:5] = rng.integers(0, 9, 5)
        yield m.case("embed", m.g.inputs["tokens"],
                     weights={"w": m.weight("w", 9, n, quant=quant)})
    check((source for features in (frozenset({"int_dot"}), frozenset({"subgroups"}))
           for source in sources(made(), features)), rng)


@pytest.mark.parametrize("what", WRONG)
def test_a_planted_error_is_told(what: str) -> None:
    old, new, told = WRONG[what]
    text = c_texts.assemble("clamp", "", {"WG": 256, "ROW_KIND": 0}, PORT).text
    assert text.count(old) == 1 and not language.said_of(text)
    assert told in language.said_of(text.replace(old, new))
