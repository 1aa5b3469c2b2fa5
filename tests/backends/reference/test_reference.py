"""The reference backend itself: its cache, and that it computes what the ops say."""

from __future__ import annotations

import numpy as np
import pytest

from cases.base import Maker
from cases.running import Bench
from unladen import quants
from unladen.backends import backend_of
from unladen.backends._host import HostBuffer
from unladen.backends.base import Device, KVLayout, PlacedKV
from unladen.backends.reference.kv import PagedKV
from unladen.graph.batch import Batch
from unladen.graph.graph import KVSpec, Node, Value
from unladen.graph.ops import registry
from unladen.types import Limits

DEVICE = Device("reference:0", "", 0, is_host=True)


def test_it_runs_every_op_and_no_other() -> None:
    reference = backend_of("reference")
    x = Value("x", ("T", 4))
    assert all(reference.supports(DEVICE, Node("n", op, (x,), ())) for op in registry())
    assert not reference.supports(DEVICE, Node("n", "levitate", (x,), ()))


def test_a_sum_and_nothing_else(rng: np.random.Generator) -> None:
    m = Maker(rng, 6)
    a, b = m.input("T", 10), m.input("T", 10)
    (y,) = Bench(backend_of("reference"), m.case("add", a, b)).run()
    np.testing.assert_array_equal(y, m.inputs[a] + m.inputs[b])


@pytest.mark.parametrize("types", [("F32", "F32"), ("F16", "Q8_0")])
def test_a_cache_remembers_by_position(types: tuple[str, str], rng: np.random.Generator) -> None:
    """Rows written in pieces and out of order of the blocks come back in order of position."""
    spec, n_blocks, block_tokens = KVSpec(0, 2, 8, 32), 9, 3
    layout = KVLayout(block_tokens, n_blocks, *types)
    sizes = [n_blocks * block_tokens * 2 * quants.get(t).row_bytes(d)
             for t, d in zip(types, (8, 32), strict=True)]
    k_buffer, v_buffer = (HostBuffer(DEVICE, np.zeros(n, np.uint8)) for n in sizes)
    paged = PagedKV(PlacedKV(spec, layout, k_buffer, v_buffer))
    rows = [(rng.standard_normal((7, 2, 8)), rng.standard_normal((7, 2, 32))) for _ in range(2)]
    batch = Batch.empty(Limits(6, 1, 2, 4, n_blocks))
    batch.block_table[:2] = rng.permutation(n_blocks)[:8].reshape(2, 4)
    for start, stop in [(0, 2), (2, 5), (5, 7)]:
        n = stop - start
        batch.n_tokens = 2 * n
        batch.seq_of[:2 * n] = np.repeat([0, 1], n)
        batch.positions[:2 * n] = np.tile(np.arange(start, stop), 2)
        batch.kv_len[:2] = stop
        paged.store(batch, *(np.concatenate([rows[s][i][start:stop] for s in range(2)])
                             for i in range(2)))
    for s in range(2):
        for got, wanted, kind in zip(paged.load(batch, s), rows[s], types, strict=True):
            as_stored = quants.dequantize(
                kind, quants.quantize(kind, wanted.astype(np.float32)), wanted.shape)
            np.testing.assert_array_equal(got, as_stored)
