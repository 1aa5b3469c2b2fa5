"""Pairs of tokens and experts in the order of the experts, and their tiles."""

from __future__ import annotations

import numpy as np
import pytest

from backends._gpu.emulated import EmulatedBackend
from cases import moe, running
from cases.base import Array
from emulator.backend import ORDERS, run
from emulator.build import PORT
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.lowering.moe import ROWS_PER_TILE, Shape
from unladen.backends._gpu.step import Size
from unladen.backends._gpu.step_header import WORDS

Rng = np.random.Generator


def grouped(chosen: Array, n_experts: int, tile: int, order: int) -> tuple[Array, Array]:
    """``order`` and ``tiles`` as the kernel writes them; what it doesn't write is 0xffffffff."""
    n_tokens, n_used = chosen.shape
    n_tiles = chosen.size // tile + n_experts
    source = c_texts.assemble("moe_group", "", {
        "WG": 64, "EXPERTS": n_experts, "TILE": tile, "ROW_KIND": WORDS["n_tokens"]}, PORT)
    step = np.zeros(len(WORDS) + 8, np.int32)
    step[WORDS["n_tokens"]] = n_tokens
    memory = {"step": step, "params": np.array([n_used], np.uint32), "chosen": chosen.reshape(-1),
              "order": np.full(chosen.size, -1, np.int32),
              "tiles": np.full(1 + 3 * n_tiles, -1, np.int32)}
    run(source, {name: array.view(np.uint8) for name, array in memory.items()}, (n_experts, 1, 1),
        64, order, 1)
    return memory["order"], memory["tiles"]


@pytest.mark.parametrize("n_experts", [1, 3, 40])
@pytest.mark.parametrize(("n_tokens", "n_used"), [(1, 1), (9, 3), (33, 8), (150, 2)])
def test_pairs_are_sorted_by_expert(n_tokens: int, n_used: int, n_experts: int, rng: Rng) -> None:
    """Each pair of an expert that is held is in one tile, the expert's own, in the order of the
    tokens. Numbers beyond the experts are of others; some experts have most of the pairs."""
    for way in range(len(ORDERS)):
        size = n_tokens, n_used
        chosen = rng.integers(0, n_experts + 2, size, dtype=np.uint32)
        chosen[rng.random(size) < 0.5] = rng.integers(0, n_experts)
        chosen[rng.random(size) < 0.1] = 0xffffffff
        order, tiles = grouped(chosen, n_experts, 4, way)
        found: list[tuple[int, int]] = []
        for expert, first, n in tiles[1:1 + 3 * tiles[0]].reshape(-1, 3):
            assert 0 <= n <= 4 and expert < n_experts
            found += [(int(expert), int(pair)) for pair in order[first:first + n]]
        wanted = sorted((int(e), p) for p, e in enumerate(chosen.reshape(-1)) if e < n_experts)
        assert found == wanted


def test_experts_are_counted_side_by_side(rng: Rng) -> None:
    """Each expert has a workgroup, and no thread reads all pairs; all tiles have room."""
    case = moe.one(rng, 40, 8, 3, "silu", "F32", "F32", (2, 4))
    own = EmulatedBackend(c_texts, features=frozenset())
    lowered = running.Bench(own, case).program.lowered  # type: ignore[attr-defined]
    (group,) = [d for d in lowered.dispatches if d.kernel == "moe_group"]
    (tile,) = {d.grid for d in lowered.dispatches if d.kernel == "moe_tile" and
               d.constants.get("HIDDEN")}
    size = Size(40, 1, 5, 1, False, frozenset())
    assert group.grid(size) == (4, 1, 1)
    n_tiles = 40 * 3 // ROWS_PER_TILE + 4
    assert Shape.of(case.node, case.limits).n_tiles(40) == n_tiles and tile(size)[2] == n_tiles
