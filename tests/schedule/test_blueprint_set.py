"""Several graphs on paper: placed one after another, counted together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from schedule.paper import graph_of, paper_file, random_devices, random_shape, sizes
from two_graphs import DRAFT, N_LAYERS, Pair
from unladen.backends.base import Device
from unladen.errors import OutOfMemory
from unladen.schedule.blueprint_set import (
    BlueprintSet,
    GraphWish,
    make_blueprints,
    retapped,
)
from unladen.schedule.cut.through_device import N_SLOTS
from unladen.schedule.fit import free_bytes
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions
from unladen.types import MAIN

HOST = Device("null:9", "a host", 1 << 40, 1e10, 1e11, is_host=True, is_pretend=True)


def card(nbytes: int, **changed: Any) -> Device:
    return Device("null:0", "a card", nbytes, **{
        "bandwidth": 1e12, "flops": 1e14, "link_bandwidth": 1e12, "link_latency_s": 1e-9,
        "launch_s": 1e-9, "is_pretend": True} | changed)


def on(wishes: dict[str, GraphWish], *devices: Device, **place: Any) -> BlueprintSet:
    """The set on other devices, copied there."""
    options = PlanOptions(devices, PlaceOptions(**{"stream_weights": False} | place),
                          use_mmap=False)
    return make_blueprints({n: replace(w, options=options) for n, w in wishes.items()})


def needed(made: BlueprintSet, device: str = "null:0") -> int:
    return made.memory.needed_on(device)


def places(made: BlueprintSet) -> dict[str, list[str]]:
    return {name: [d.name for d in b.layers] for name, b in made.members.items()}


def is_whole(made: BlueprintSet, graph: str) -> bool:
    """Whether all of a graph is on the card."""
    return {d.name for d, _ in made.members[graph].device_of.values()} == {"null:0"}


def test_whoever_comes_first_has_the_best_place(pair: Pair) -> None:
    """With room for one of two graphs, the second one stays on the host, in either order."""
    wishes = pair.wishes()
    room = needed(on({MAIN: wishes[MAIN]}, card(1 << 40), HOST))
    first = on(wishes, card(room), HOST)
    assert places(first)[MAIN] == ["null:0"] * N_LAYERS[MAIN]
    assert places(first)[DRAFT] == ["null:9"] * N_LAYERS[DRAFT]
    last = on(dict(reversed(wishes.items())), card(room), HOST)
    assert places(last)[DRAFT] == ["null:0"] * N_LAYERS[DRAFT]
    assert "null:9" in places(last)[MAIN]
    for made in (first, last):
        assert 0 < needed(made) <= room
        made.memory.check(free_bytes(made.devices))


@pytest.mark.parametrize("shared", [False, True])
def test_what_is_shared_needs_no_room(pair: Pair, *, shared: bool) -> None:
    """A draft model that shares embeddings and head with the model fits where only the rest of it
    has room."""
    wishes = pair.wishes(shared=shared)
    room = needed(on(pair.wishes(shared=True), card(1 << 40), HOST))
    made = on(wishes, card(room), HOST)
    assert is_whole(made, MAIN) and is_whole(made, DRAFT) == shared
    assert needed(made) <= room


def test_an_arena_of_its_own_needs_room(pair: Pair) -> None:
    room = needed(on(pair.wishes(), card(1 << 40), HOST))
    for arena in (MAIN, "its own"):
        made = on(pair.wishes(arena=arena), card(room), HOST)
        assert is_whole(made, DRAFT) == (arena == MAIN) and needed(made) <= room


def test_with_room_for_all_each_is_placed_as_alone(pair: Pair) -> None:
    wishes = pair.wishes()
    made = on(wishes, card(1 << 40), HOST)
    for name, wish in wishes.items():
        assert on({MAIN: wish}, card(1 << 40), HOST).main.choice == made.members[name].choice


@pytest.mark.parametrize("part", range(4))
def test_no_device_is_exceeded(rng: np.random.Generator, part: int) -> None:
    """Any two models on any devices; a host takes the layers that are left."""
    n = 0
    while n < 5:
        shapes = [random_shape(rng), random_shape(rng)]
        files = [paper_file(s, str(rng.choice(["F16", "Q8_0", "Q4_K"]))) for s in shapes]
        files[1].key = DRAFT
        devices = random_devices(rng, sum(t.nbytes for f in files for t in f.tensors.values()))
        if not any(d.is_host for d in devices):
            continue
        options = PlanOptions(devices, use_mmap=bool(rng.integers(2)))
        arenas = MAIN, str(rng.choice([MAIN, "its own"]))
        made = make_blueprints({
            name: GraphWish(graph_of(file), *sizes(rng, shape), options, arena)
            for name, file, shape, arena in zip((MAIN, DRAFT), files, shapes, arenas, strict=True)})
        left = made.memory.left({})
        assert all(n >= 0 for n in left.values()), (left, made.memory.alone)
        n += 1


def test_too_little_memory_names_the_graphs(pair: Pair) -> None:
    wishes = pair.wishes()
    made = on(wishes, card(4096), HOST, n_gpu_layers="all")
    with pytest.raises(OutOfMemory) as caught:
        made.memory.check({})
    alone = {name: needed(on({MAIN: wish}, card(4096), HOST, n_gpu_layers="all"))
             for name, wish in wishes.items()}
    error = caught.value
    assert (error.device, error.free, error.requested) == ("null:0", 4096, needed(made))
    assert error.graphs == error.again().graphs == alone
    assert max(alone.values()) < error.requested <= sum(alone.values())
    assert f"(main takes {alone[MAIN]}, draft takes {alone[DRAFT]})" in str(error)
    single = on({MAIN: wishes[MAIN]}, card(4096), HOST, n_gpu_layers="all")
    with pytest.raises(OutOfMemory) as caught:
        single.memory.check({})
    assert not caught.value.graphs and "takes" not in str(caught.value)


def test_bytes_by_file(pair: Pair) -> None:
    wishes = pair.wishes(shared=True)
    copied = on(wishes, card(1 << 40), HOST).file_bytes()
    mapped = make_blueprints(wishes).file_bytes()
    assert copied.keys() == mapped.keys() == {MAIN, DRAFT}
    for key, n in copied.items():
        assert (n.mapped, n.copied) == (0, mapped[key].mapped) and mapped[key].copied == 0
    tensors = {f.key: f.tensors for f in pair.files}
    assert mapped[MAIN].mapped == sum(t.nbytes for t in tensors[MAIN].values())
    assert mapped[DRAFT].mapped == sum(t.nbytes for name, t in tensors[DRAFT].items()
                                       if name not in ("token_embd.weight", "output.weight"))


def test_lines_say_which_graph(pair: Pair) -> None:
    made = on(pair.wishes(), card(1 << 40), HOST, n_gpu_layers=1)
    assert [line for line in made.offloaded() if "layers" in line] == [
        "main: offloaded 1/4 layers to null:0", "draft: offloaded 1/2 layers to null:0"]
    explained = made.explain().splitlines()
    assert explained[0] == "main:" and "draft:" in explained
    assert len(explained) == 2 + sum(len(b.graph.nodes) for b in made.members.values())
    assert made.n_offloaded() == 1
    alone = on({MAIN: pair.wishes()[MAIN]}, card(1 << 40), HOST, n_gpu_layers=1)
    assert alone.explain() == alone.main.explain() and alone.offloaded() == alone.main.offloaded()


def test_taps_move_nothing(pair: Pair) -> None:
    made = on(pair.wishes(), card(1 << 40), HOST, n_gpu_layers=1)
    tapped = retapped(made, ["blk.0.ffn_out"], {})
    assert tapped.is_tapped and not made.is_tapped
    assert "tap blk.0.ffn_out" in tapped.main.graph.outputs
    assert "tap blk.0.ffn_out" not in tapped.members[DRAFT].graph.outputs
    assert places(tapped) == places(made)
    back = retapped(tapped, [], {})
    assert back.memory == made.memory and not back.is_tapped


def test_layers_of_another_file_share_a_ring(pair: Pair) -> None:
    """Weights of every layer pass through the same buffers, whichever file they come from."""
    made = on(pair.wishes(), card(1 << 40), HOST, n_gpu_layers=0, stream_weights=True)
    for b in made.members.values():
        assert b.streamed is not None
        one_layer = {key[1].rpartition(":")[2] for key in b.streamed.slot}
        assert len(one_layer) == len(b.streamed.slot)
    rings = {name: sum(b.streamed.ring_bytes().values())
             for name, b in made.members.items() if b.streamed}
    assert rings[MAIN] == rings[DRAFT] == N_SLOTS * sum(
        need.nbytes for need in made.main.streamed.slot.values())  # type: ignore[union-attr]
    assert made.memory.devices[0].ring_bytes == sum(rings.values())
