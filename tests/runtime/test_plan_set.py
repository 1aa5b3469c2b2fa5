"""Several graphs in memory: each gives the same results as alone, and together they take less
memory."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tiny_model import N_VOCAB
from tiny_plan import Allocated, fill
from two_graphs import DRAFT, SIZES, Pair, open_pair, write_pair
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions
from unladen.backends.cpu import moving
from unladen.backends.cpu.features import isa_levels
from unladen.errors import GGUFError, OutOfMemory
from unladen.runtime import saved
from unladen.runtime.plan import Plan
from unladen.runtime.plan_set import PlanSet
from unladen.schedule.blueprint_set import make_blueprints
from unladen.schedule.place import PlaceOptions
from unladen.storage.packed import PackedCache
from unladen.types import MAIN, NO_SLOT

Rows = dict[str, npt.NDArray[np.float32]]
STEPS = (0, 9, 13, 14, 21)
"""Where steps of 21 tokens begin and end."""


def by_turns(plans: Mapping[str, Plan], tokens: list[int]) -> Rows:
    """The logits of ``tokens`` by every plan; the plans run their steps in turns."""
    found: dict[str, list[Any]] = {name: [] for name in plans}
    for start, end in itertools.pairwise(STEPS):
        for name, plan in plans.items():
            fill(plan, tokens[start:end], start)
            plan.run()
            found[name].append(plan.output("logits").copy())
    return {name: np.concatenate(rows) for name, rows in found.items()}


def last_rows(plans: Mapping[str, Plan], tokens: list[int]) -> Rows:
    """The logits of the last token; the tokens before it are in the caches already."""
    rows = {}
    for name, plan in plans.items():
        fill(plan, tokens[-1:], len(tokens) - 1)
        plan.run()
        rows[name] = plan.output("logits")[0].copy()
    return rows


def check_equal(got: Rows, expected: Rows, *, exactly: bool = True) -> None:
    assert got.keys() == expected.keys()
    for name, rows in expected.items():
        off = np.abs(got[name] - rows).max()
        # A few thousand float32 roundings, each 2**-24 of values of the size of the logits.
        assert off <= (0 if exactly else 1e-4 * np.abs(rows).max()), name


PLACES: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("cpu:0",), {}),
    (("cpu:0", "cpu:1"), {"place": PlaceOptions(tensor_split=[1, 3])}),
    (("cpu:0",), {"use_mmap": False}),
    (("reference:0", "cpu:0"), {"place": PlaceOptions(override_tensor={"draft:": "cpu"})}),
    (("cpu:0", "cpu:1"), {"place": PlaceOptions(split_mode="tensor", tensor_split=[1, 1])}))


@pytest.mark.parametrize("arena", [MAIN, "its own"])
@pytest.mark.parametrize(("devices", "options"), PLACES)
def test_each_graph_computes_what_it_computes_alone(
        pair: Pair, tokens: list[int], devices: tuple[str, ...], options: dict[str, Any],
        arena: str) -> None:
    wishes = pair.wishes(*devices, arena=arena, **options)
    plans = pair.plans(wishes)
    got = by_turns(plans.members, tokens)
    alone = {name: one.main for name, one in pair.alone(wishes).items()}
    check_equal(got, by_turns(alone, tokens))
    assert np.abs(got[MAIN] - got[DRAFT]).max() > 0.1, "these are two models"


def test_a_file_of_its_own_has_a_place_of_its_own(pair: Pair) -> None:
    plans = pair.plans(pair.wishes("cpu:0", "cpu:1", place=PlaceOptions(
        tensor_split=[3, 1], override_tensor={"draft:": "cpu:1"})))
    where = {name: {d.name for n, (d, _) in plan.blueprint.device_of.items() if n.weights}
             for name, plan in plans.members.items()}
    assert "cpu:0" in where[MAIN] and where[DRAFT] == {"cpu:1"}


def test_shared_weights_are_there_once(pair: Pair, tokens: list[int]) -> None:
    """The draft's embeddings and head are the model's: the same memory, and the same results as
    with two copies of them."""
    wishes = pair.wishes(shared=True, use_mmap=False)
    plans, apart = pair.plans(wishes), pair.alone(wishes)
    check_equal(by_turns(plans.members, tokens),
                by_turns({name: one.main for name, one in apart.items()}, tokens))
    (memory,) = plans.memory().devices
    copies = sum(m.weight_bytes for one in apart.values() for m in one.memory().devices)
    twice = {n.key: n.nbytes for n in apart[DRAFT].blueprint.needs if n.weight.file == MAIN}
    assert len(twice) == 2
    assert memory.weight_bytes == copies - sum(twice.values())
    assert memory.taken_bytes == memory.allocated_bytes
    for key in twice:
        buffers = {id(plan._placed[key.device, key.weight].buffer)
                   for plan in plans.members.values()}
        assert len(buffers) == 1


def test_one_file_for_both(pair: Pair, tokens: list[int]) -> None:
    """A second graph of the same weights takes memory for its cache, and no other."""
    one = pair.wishes(use_mmap=False)[MAIN]
    both = pair.plans({MAIN: one, "again": one})
    rows = by_turns(both.members, tokens)
    assert np.array_equal(rows[MAIN], rows["again"])
    ((alone,), (together,)) = (p.memory().devices for p in (pair.plans({MAIN: one}), both))
    assert together == replace(alone, kv_bytes=2 * alone.kv_bytes,
                               taken_bytes=together.allocated_bytes)


@pytest.mark.parametrize("use_mmap", [True, False])
@pytest.mark.parametrize("arena", [MAIN, "its own"])
@pytest.mark.parametrize("names", [
    ("cpu:0",), ("cpu:0", "cpu:1"), ("cpu:0", "null:0", "null:1"), ("reference:0", "cpu:0")])
def test_counts_are_what_is_allocated(pair: Pair, allocated: Allocated, names: tuple[str, ...],
                                      arena: str, use_mmap: bool) -> None:
    plans = pair.plans(pair.wishes(*names, arena=arena, shared=True, use_mmap=use_mmap,
                                   place=PlaceOptions(n_gpu_layers=2)))
    counted = {}
    for memory in plans.blueprint.memory.devices:
        for use, n in (("weights", memory.weight_bytes + memory.ring_bytes),
                       ("kv", memory.kv_bytes), ("arena", memory.arena_bytes)):
            if n:
                counted[memory.device.name, use] = n
    staging = sum(allocated.pop(key) for key in list(allocated) if key[1] == "staging")
    assert counted == allocated
    assert staging == sum(plans.blueprint.staging_bytes().values())
    assert (staging > 0) == any(not m.device.is_host for m in plans.blueprint.memory.devices)
    assert staging <= sum(m.staging_bytes for m in plans.blueprint.memory.devices)
    for memory in plans.memory().devices:
        assert memory.taken_bytes == memory.allocated_bytes


def test_graphs_that_take_turns_share_an_arena(pair: Pair) -> None:
    sizes = {arena: pair.plans(pair.wishes(arena=arena)).memory().devices[0].arena_bytes
             for arena in (MAIN, "its own")}
    alone = [one.memory().devices[0].arena_bytes for one in pair.alone(pair.wishes()).values()]
    assert sizes == {MAIN: max(alone), "its own": sum(alone)}


def test_a_shared_arena_is_overwritten(pair: Pair, tokens: list[int]) -> None:
    """A shared arena is overwritten, so no step may start from another step's values there."""
    def first_row(plans: PlanSet) -> Any:
        fill(plans.main, tokens[:8], 0)
        plans.main.run()
        return plans.main.output("logits")[0]
    together = pair.plans(pair.wishes())
    row = first_row(together)
    before = row.copy()
    by_turns({DRAFT: together.members[DRAFT]}, tokens)
    assert not np.array_equal(row, before)
    apart = pair.plans(pair.wishes(arena="its own"))
    row = first_row(apart)
    by_turns({DRAFT: apart.members[DRAFT]}, tokens)
    assert np.array_equal(row, before)
    assert not any(plan.runs_ahead for plan in together.members.values())


@pytest.mark.parametrize("devices", [("cpu:1",), ("cpu:0", "cpu:1"), ("reference:0", "cpu:0")])
def test_both_go_elsewhere_with_their_past(pair: Pair, tokens: list[int], devices: tuple[str, ...]
                                           ) -> None:
    old = pair.plans(pair.wishes("cpu:0"))
    by_turns(old.members, tokens)
    expected = last_rows(old.members, tokens)
    new = pair.plans(pair.wishes(*devices), old.keep())
    assert all(plan.continues_cache for plan in new.members.values())
    check_equal(last_rows(new.members, tokens), expected, exactly=False)
    check_equal(last_rows(old.members, tokens), expected), "the old ones still work"


def test_what_stays_is_neither_read_nor_allocated_again(pair: Pair, allocated: Allocated) -> None:
    wishes = pair.wishes("cpu:0", "null:0", use_mmap=False, place=PlaceOptions(n_gpu_layers=2))
    old, blueprint = pair.plans(wishes), make_blueprints(wishes)
    shared = old.keep().shared_bytes(blueprint)
    allocated.clear()
    pair.made(blueprint, old.keep())
    assert {use for _, use in allocated} == {"arena", "staging"}
    for memory in blueprint.memory.devices:
        assert shared[memory.device.name] == memory.weight_bytes + memory.kv_bytes


def test_one_leaves_and_one_stays(pair: Pair, tokens: list[int]) -> None:
    old = pair.plans(pair.wishes())
    by_turns(old.members, tokens)
    expected = last_rows({MAIN: old.main}, tokens)
    kept = old.keep()
    alone = make_blueprints({MAIN: pair.wishes()[MAIN]})
    kept.restrict(alone)
    assert kept.states.keys() == {MAIN}
    assert {key.weight.partition(":")[0] for key in kept.weights}.isdisjoint({DRAFT})
    new = pair.made(alone, kept)
    assert new.main.continues_cache
    check_equal(last_rows(new.members, tokens), expected)


def test_a_cache_of_another_size(pair: Pair, tokens: list[int]) -> None:
    """One graph's cache is taken over, the other's is not: each plan's continues_cache says so."""
    old = pair.plans(pair.wishes())
    by_turns(old.members, tokens)
    limits, layout = SIZES[DRAFT]
    wishes = pair.wishes()
    wishes[DRAFT] = replace(wishes[DRAFT], limits=replace(limits, n_blocks=5),
                            layout=replace(layout, n_blocks=5))
    new = pair.plans(wishes, old.keep())
    assert {n: p.continues_cache for n, p in new.members.items()} == {MAIN: True, DRAFT: False}


def test_surrendered(pair: Pair, tokens: list[int]) -> None:
    plans = pair.plans(pair.wishes())
    by_turns(plans.members, tokens)
    expected = last_rows(plans.members, tokens)
    kept = plans.surrender(OutOfMemory(device="cpu:0", requested=5, free=3, hint="try"))
    for plan in plans.members.values():
        with pytest.raises(OutOfMemory, match="asked for 5 bytes, 3 free"):
            plan.run()
    again = pair.made(plans.blueprint, kept)
    check_equal(last_rows(again.members, tokens), expected)


def test_memory_is_given_back(pair: Pair) -> None:
    null: Any = backend_of("null")
    plans: PlanSet | None = pair.plans(pair.wishes("cpu:0", "null:0"))
    assert plans is not None
    needed = {m.device.name: m.allocated_bytes for m in plans.blueprint.memory.devices}
    assert null.used_bytes("null:0") == needed["null:0"] > 0
    del plans
    assert null.used_bytes("null:0") == 0


def test_the_state_of_either(pair: Pair, tokens: list[int]) -> None:
    """A state that was saved from one graph can be loaded into that graph; the other graph refuses
    it."""
    plans, fresh = pair.plans(pair.wishes()), pair.plans(pair.wishes())
    by_turns(plans.members, tokens)
    expected = last_rows(plans.members, tokens)
    for name, plan in plans.members.items():
        state = saved.SavedState.read(saved.pack(plan, tokens[:-1], (3, 1, 5, 0), NO_SLOT))
        state.check(fresh.members[name])
        arrays = state.arrays(fresh.members[name], 3)
        state.put_blocks(fresh.members[name], arrays, (3, 1, 5))
        with pytest.raises(ValueError, match="another model"):
            state.check(fresh.members[DRAFT if name == MAIN else MAIN])
    check_equal(last_rows(fresh.members, tokens), expected)


def test_a_tensor_that_its_file_lacks(pair: Pair) -> None:
    wishes = pair.wishes(shared=True)
    graph = wishes[DRAFT].graph
    nodes = [replace(n, weights={role: replace(w, file=MAIN, tensor="output.wieght")
                                 if w.tensor == "output.weight" else w
                                 for role, w in n.weights.items()}) for n in graph.nodes]
    wishes[DRAFT] = replace(wishes[DRAFT], graph=graph.replace_nodes(nodes))
    with pytest.raises(GGUFError, match=r"main\.gguf: the tensor output\.wieght is missing"):
        pair.plans(wishes)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("level", [x for x in isa_levels() if x in ("avx512", "vbmi")])
def test_weights_that_move_or_are_kept_packed(
        tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, level: str, *,
        shared: bool) -> None:
    """Where kernels want interleaved rows, the rows of each file are interleaved, and those that
    both graphs read; no logit changes."""
    monkeypatch.setattr(backend_of("cpu"), "_level", level)
    monkeypatch.delenv(moving.VARIABLE, raising=False)
    paths = write_pair(tmp_path, rng, n_embd=256, quant="Q8_0")
    tokens, seen, folder = rng.integers(3, N_VOCAB, 21).tolist(), list[Rows](), tmp_path / "packed"
    for cache in (None, PackedCache(folder), PackedCache(folder)):
        opened = open_pair(paths)
        plans = opened.plans(opened.wishes(shared=shared,
                                           backend=BackendOptions(packed_cache=cache)))
        seen.append(by_turns(plans.members, tokens))
        for plan in plans.members.values():
            plan.settle()
        seen.append(by_turns(plans.members, tokens))
        del plans
        for file in opened.files:
            file.close()
        copies = {path.name for path in folder.iterdir()} if cache else set()
        assert len(copies) == (2 if cache else 0), "each graph's rows, made once and found again"
    for rows in seen[1:]:
        check_equal(rows, seen[0])
