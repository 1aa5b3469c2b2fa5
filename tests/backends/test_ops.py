"""Every case of every op on every backend that computes, against the op's reference and bound."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest

import cases
from cases import running
from unladen.backends._gpu.backend import GpuBackend
from unladen.backends.base import Backend, BackendOptions
from unladen.graph.ops import registry

every_op = pytest.mark.parametrize("op", sorted(registry()))
PARTS = {"attention": 4, "linear": 4, "moe": 4}
"""Tests that an op's cases are divided into: on a busy machine whose GPU is software, all of them
in one test take longer than a test may."""
SLOW_COMPILERS = ("opencl",)
"""Backends that run the first part of the cases in make test, and the others in make long."""
every_part = pytest.mark.parametrize(("backend", "op", "part"), [
    pytest.param(backend, op, slice(i, None, n),
                 id=f"{backend}-{op}-{i + 1}of{n}" if n > 1 else f"{backend}-{op}",
                 marks=[pytest.mark.long] if i and backend in SLOW_COMPILERS else [])
    for backend in running.computing() for op in sorted(registry())
    for n in [PARTS.get(op, 1)] for i in range(n)], indirect=["backend"])


@pytest.fixture(params=running.computing())
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with running.opened(request.param) as backend:
        yield backend


def of(op: str, backend: Backend, rng: np.random.Generator, part: slice = slice(None)
       ) -> Iterator[cases.Case]:
    """The op's cases, or skip where the backend says that it can't run them."""
    n, device = 0, running.device_of(backend)
    for case in islice(cases.registry()[op](rng), part.start, part.stop, part.step):
        if backend.supports(device, case.node):
            n += 1
            yield case
    if n == 0:
        pytest.skip(f"{backend.name} has no {op}")


def test_every_op_has_cases_and_every_file_an_op() -> None:
    assert set(cases.registry()) == set(registry())


@every_part
def test_within_the_bound(op: str, part: slice, backend: Backend, rng: np.random.Generator
                          ) -> None:
    """The results, what is left in the cache, and a second run of the same program: to compile a
    case's kernels takes longer than all of its runs."""
    for case in of(op, backend, rng, part):
        bench = running.Bench(backend, case)
        first = bench.run()
        running.check(case, first, precise=False, what=bench.device.name)
        if case.kv is not None:
            for mine, wanted in zip(bench.cache(), running.on_paper(case)[2], strict=True):
                np.testing.assert_array_equal(mine, wanted, err_msg=case.name)
        if case.slots is not None:
            running.check_slots(case, bench.slots(), bench.device.name)
        run_with_one_output(bench)
        for a, b in zip(first, bench.run(), strict=True):
            assert np.array_equal(a, b), case.name
        if op in ("linear", "moe"):
            check_precise(bench)


def run_with_one_output(bench: running.Bench) -> None:
    """A shorter step, of which nothing may be left over for the next one."""
    batch = bench.case.batch
    whole = batch.n_tokens, batch.n_outputs, batch.n_seqs
    kept = batch.out_rows.copy()
    batch.n_tokens, batch.n_outputs, batch.n_seqs = int(batch.q_start[1]), 1, 1
    batch.out_rows[0] = 0
    bench.backend.run(bench.program)
    bench.backend.sync(bench.device)
    batch.n_tokens, batch.n_outputs, batch.n_seqs = whole
    batch.out_rows[:] = kept


def check_precise(bench: running.Bench) -> None:
    """Activations keep their float32 where that is wished."""
    precise = running.Bench(bench.backend, bench.case, BackendOptions(precise=True))
    running.check(bench.case, precise.run(), precise=True, what=bench.device.name)


@every_op
def test_threads_change_no_bit(op: str, backend: Backend, rng: np.random.Generator) -> None:
    if isinstance(backend, GpuBackend):
        pytest.skip("no option says how many threads a GPU uses")
    for case in of(op, backend, rng):
        results = []
        for n in (1, 2, 3):
            bench = running.Bench(backend, case, BackendOptions(n_threads=n, n_threads_batch=n))
            outputs = bench.run()
            results.append([*outputs, *(bench.cache() if case.kv is not None else ()),
                            *([bench.slots()] if case.slots is not None else ())])
        for other in results[1:]:
            for a, b in zip(results[0], other, strict=True):
                assert np.array_equal(a.view(np.uint8), b.view(np.uint8)), case.name
