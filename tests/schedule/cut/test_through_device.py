"""Weights of the host's layers are streamed through another device in large steps."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from delayed import DelayedBackend, Event
from delayed import delayed as delayed
from factory import Shape, write_model
from schedule.cut.test_shard import ROUNDINGS
from schedule.paper import graph_of, paper_file
from tiny_plan import Feed, Tiny, fill, steady
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions, Buffer, Device, KVLayout, Program
from unladen.errors import BackendNotInitialised, Cancelled, InvalidArgument
from unladen.graph.graph import Graph
from unladen.schedule.blueprint import Blueprint, make_blueprint
from unladen.schedule.cut.segments import FetchStep, RunStep
from unladen.schedule.cut.through_device import N_SLOTS, slot_keys
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions
from unladen.types import Limits

SHAPE = Shape("llama", n_layers=6, n_embd=512, n_heads=8, n_kv_heads=4, k_dim=64, n_rot=64,
              n_ff=1536, n_vocab=1000)
LARGE = Limits(512, 8, 1, 32, 32, 32)
CACHE = KVLayout(32, 32, "F16", "F16")


def host(**changed: Any) -> Device:
    return Device("null:9", "a host", 1 << 40, **{
        "bandwidth": 5e10, "flops": 1e12, "is_host": True, "is_pretend": True} | changed)


def card(number: int = 0, **changed: Any) -> Device:
    return Device(f"null:{number}", "a card", **{
        "memory_bytes": 1 << 40, "bandwidth": 1e12, "flops": 1e14, "link_bandwidth": 2e10,
        "link_latency_s": 1e-6, "launch_s": 1e-6, "is_pretend": True} | changed)


def paper(*devices: Device, graph: Graph | None = None, **place: Any) -> Blueprint:
    return make_blueprint(graph or graph_of(paper_file(SHAPE, "Q8_0")), LARGE, CACHE,
                 PlanOptions(devices, PlaceOptions(**place)))


def test_predicted_to_be_faster_from_some_size_on() -> None:
    made = paper(card(), host(), n_gpu_layers=2)
    assert made.streamed is not None
    n = made.streamed.n_tokens
    assert 2 < n <= LARGE.n_tokens
    plain = paper(card(), host(), n_gpu_layers=2, stream_weights=False)
    assert plain.streamed is None
    (decode, prefill), (same, slower) = made.predict(), plain.predict()
    assert decode.seconds == same.seconds and prefill.seconds < slower.seconds
    # By hand: a matrix's time on the host against the link's, on the larger side of both.
    matrix = SHAPE.n_embd * SHAPE.n_ff
    assert 2 * n * matrix / 1e12 > matrix * 34 / 32 / 2e10 / 4


@pytest.mark.parametrize(("devices", "place"), [
    ((card(link_bandwidth=1e7), host()), {"n_gpu_layers": 2}),
    ((card(flops=1e10), host()), {"n_gpu_layers": 2}), ((host(),), {}),
    ((card(), host()), {"n_gpu_layers": "all"}), ((card(), card(1)), {})])
def test_not_where_it_would_be_slower(devices: tuple[Device, ...], place: dict[str, Any]) -> None:
    assert paper(*devices, **place).streamed is None


def test_only_where_there_is_room() -> None:
    made = paper(card(), host(), n_gpu_layers=2)
    needed = {m.device.name: m for m in made.memory.devices}["null:0"]
    assert made.streamed is not None and needed.ring_bytes == made.streamed.ring_bytes()["null:0"]
    exact = card(memory_bytes=needed.needed_bytes)
    assert paper(exact, host(), n_gpu_layers=2).streamed is not None
    tight = card(memory_bytes=needed.needed_bytes - 1)
    assert paper(tight, host(), n_gpu_layers=2).streamed is None
    # With stream_weights=True the plan is too large, or "auto" makes room.
    forced = paper(tight, host(), n_gpu_layers=2, stream_weights=True)
    assert min(forced.memory.left({}).values()) < 0
    auto = paper(tight, host(), stream_weights=True)
    assert auto.streamed is not None and min(auto.memory.left({}).values()) >= 0
    assert 0 < auto.n_offloaded() < SHAPE.n_layers


def test_what_moves_and_what_stays() -> None:
    made = paper(card(), host(), n_gpu_layers=2, stream_weights=True)
    large = made.streamed
    assert large is not None and large.n_tokens == 2
    for node, (device, _) in made.device_of.items():
        now = large.device_of[node][0].name
        if node.state is not None or node.layer < 0 or not device.is_host:
            assert now == device.name
        else:
            assert now == "null:0"
    assert "in steps of 2 tokens or more" in made.explain()
    (line,) = large.lines()
    assert "null:0 computes products of 4 more layers" in line and line in made.offloaded()
    assert made.memory.devices[0].ring_bytes == sum(large.ring_bytes().values()) > 0


def test_each_run_has_its_weights_and_a_free_slot() -> None:
    """A fetch for a run comes right after the run before it, and goes into the other slot."""
    made = paper(card(), host(), n_gpu_layers=1, stream_weights=True)
    assert made.streamed is not None
    steps = list(made.streamed.steps)
    fetches = [i for i, s in enumerate(steps) if isinstance(s, FetchStep)]
    assert fetches[0] == 0 and len(fetches) == SHAPE.n_layers
    for i, after in itertools.pairwise(fetches):
        this, following = steps[i], steps[after]
        assert isinstance(this, FetchStep) and isinstance(following, FetchStep)
        assert following.slot == (this.slot + 1) % N_SLOTS
        assert steps[after - 1] == this.run and following.run in steps[after:]
        assert len(set(slot_keys(this.needs))) == len(this.needs)
    resident = {n.weight.name for n in made.needs if n.device.name == "null:0"}
    by_run = {s.run: {n.weight.name for n in s.needs} for s in steps if isinstance(s, FetchStep)}
    for step in steps:
        if isinstance(step, RunStep) and step.device.name == "null:0":
            wanted = {w.name for n in step.nodes for w in n.weights.values()}
            fetched = by_run.get(step, set())
            assert wanted <= resident | fetched and not resident & fetched


def test_experts_kept_on_the_host_go_to_their_layers_device() -> None:
    shape = Shape("qwen3moe", n_layers=4, n_embd=256, n_experts=8, k_dim=64, n_ff=512)
    made = paper(card(), card(1), host(), graph=graph_of(paper_file(shape, "Q8_0")),
                   n_gpu_layers="all", cpu_moe=True, stream_weights=True)
    assert made.streamed is not None
    for node, (device, _) in made.device_of.items():
        if node.op == "moe":
            assert device.is_host
            assert made.streamed.device_of[node][0] == made.layers[node.layer]


class Recorder:
    """Records the order of a backend's calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.calls: list[tuple[str, object]] = []
        backend = backend_of(name)
        write, run, read = backend.write, backend.run, backend.read

        def recorded_write(dst: Buffer, src: npt.NDArray[np.uint8], offset: int = 0) -> None:
            self.calls.append(("write", dst))
            write(dst, src, offset)

        def recorded_run(program: Program) -> None:
            self.calls.append(("run", program))
            run(program)

        def recorded_read(src: Buffer, nbytes: int, offset: int = 0) -> npt.NDArray[np.uint8]:
            self.calls.append(("read", src))
            return read(src, nbytes, offset)
        for method in (recorded_write, recorded_run, recorded_read):
            monkeypatch.setattr(backend, method.__name__.removeprefix("recorded_"), method)


def test_the_next_weights_are_written_while_the_device_runs(
        tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writes come between a run's start and the first read that waits for the run."""
    calls = Recorder(monkeypatch, "null").calls
    plan = tiny.plan("null:0", "cpu:0", place=PlaceOptions(n_gpu_layers=1, stream_weights=True))
    calls.clear()
    plan.batch.n_tokens, plan.batch.n_outputs, plan.batch.n_seqs = 4, 1, 1
    plan.batch.q_start[1] = plan.batch.kv_len[0] = 4
    plan.run()
    ring = set(map(id, plan._ring.values()))
    kinds = ["fetch" if kind == "write" and id(what) in ring else kind for kind, what in calls]
    order = [k for i, k in enumerate(kinds) if i == 0 or k != kinds[i - 1]]
    streamed = plan.blueprint.streamed
    assert streamed is not None
    n = sum(isinstance(s, FetchStep) for s in streamed.steps)
    assert order.count("fetch") == n == 4
    assert order[0] == "fetch" and " ".join(order).count("run fetch read") == n - 1
    calls.clear()
    plan.batch.n_tokens = plan.batch.q_start[1] = plan.batch.kv_len[0] = 1
    plan.run()
    assert not any(id(what) in ring for _, what in calls)


def test_the_next_weights_arrive_while_the_device_is_at_work(
        tiny: Tiny, tokens: list[int], feed: Feed, delayed: DelayedBackend) -> None:
    """The trace of a step: the device is held up before its first run until the weights of two runs
    have arrived. Later weights wait for the run that has their slot."""
    place = PlaceOptions(n_gpu_layers=1, stream_weights=True)
    plan = tiny.plan("delayed:0", "cpu:0", place=place, backend=BackendOptions(precise=True))
    expected = feed(tiny.plan("reference:0"), tokens)
    assert nmse(feed(plan, tokens), expected) < (ROUNDINGS * 2.0 ** -24) ** 2
    assert plan.blueprint.streamed is not None
    steps = plan.blueprint.streamed.steps
    fetches = [s for s in steps if isinstance(s, FetchStep)]
    assert len(fetches) > 2 and list(steps[:2]) == fetches[:2]
    n = sum(len(s.needs) for s in fetches[:2])

    def n_arrived() -> int:
        return delayed.log.count(Event("done", "delayed:0 copies", "write ahead"))

    def hold() -> None:
        give_up = time.monotonic() + 60
        while n_arrived() < n:
            assert time.monotonic() < give_up, "weights wait for the device's later work"
            time.sleep(1e-3)
        time.sleep(0.02)
        assert n_arrived() == n, "a slot was filled while a run had it"
    fill(plan, tokens[:16], 0)
    delayed.log.clear()
    delayed.worker(steps[0].run.device).start("hold", hold)  # type: ignore[union-attr]
    plan.run()
    assert nmse(plan.output("logits"), expected[:16]) < (ROUNDINGS * 2.0 ** -24) ** 2


@pytest.mark.parametrize("device", ["delayed:0", "opencl:0"])
def test_after_a_step_that_ended_early(tiny: Tiny, tokens: list[int], feed: Feed, device: str,
                                       delayed: DelayedBackend, rng: np.random.Generator) -> None:
    """Weights that were on their way do the next step no harm."""
    place = PlaceOptions(n_gpu_layers=1, stream_weights=True)
    try:
        plan = tiny.plan(device, "cpu:0", place=place, backend=BackendOptions(precise=True))
    except BackendNotInitialised as error:
        pytest.skip(error.message)
    expected = feed(tiny.plan("reference:0"), tokens)
    way = plan._ways[-1]
    for _ in range(5):
        stop = int(rng.integers(len(way.actions)))

        def cancelled() -> None:
            plan.cancel()
        plan._ways[-1] = way._replace(actions=[*way.actions[:stop], cancelled, *way.actions[stop:]])
        fill(plan, tokens[:16], 0)
        with pytest.raises(Cancelled):
            plan.run()
        plan._ways[-1] = way
        assert nmse(feed(plan, tokens), expected) < (ROUNDINGS * 2.0 ** -24) ** 2


def test_what_is_predicted_where_weights_arrive_ahead() -> None:
    """The link works beside the device and the host: a step takes the longest of the three, and
    both ends of the pipe."""
    ahead, after = (paper(card(writes_ahead=a), host(), n_gpu_layers=0, stream_weights=True)
                    for a in (True, False))
    assert ahead.streamed is not None
    link = sum(s.nbytes for s in ahead.streamed.steps if isinstance(s, FetchStep)) / 2e10
    faster, slower = ahead.predict()[1].seconds, after.predict()[1].seconds
    assert link < faster < slower


def test_memory_is_what_was_planned(tiny: Tiny) -> None:
    for n in range(4):
        place = PlaceOptions(n_gpu_layers=n, stream_weights=True)
        plans = tiny.plans("null:0", "cpu:0", place=place)
        for m in plans.memory().devices:
            assert m.taken_bytes == m.allocated_bytes
        assert plans.memory().devices[0].ring_bytes > 0


def test_bad_wish(tiny: Tiny) -> None:
    with pytest.raises(InvalidArgument, match="stream_weights='yes'"):
        tiny.plan("cpu:0", place=PlaceOptions(stream_weights="yes"))  # type: ignore[arg-type]


@pytest.fixture(params=["opencl", "wgpu"])
def gpu(request: pytest.FixtureRequest) -> str:
    backend = backend_of(request.param)
    if not backend.devices():
        pytest.skip(backend.why_none())
    return f"{request.param}:0"


@pytest.mark.parametrize(("shape", "quant"), [
    (Shape("llama", n_layers=5, n_embd=64), "F32"), (Shape("llama", n_layers=5, n_embd=64), "Q8_0"),
    (Shape("qwen3moe", n_layers=3, n_embd=64, n_experts=4, k_dim=16), "Q8_0")],
    ids=["llama-F32", "llama-Q8_0", "qwen3moe-Q8_0"])
def test_same_logits_on_a_gpu(tmp_path: Path, rng: np.random.Generator, tokens: list[int],
                              feed: Feed, gpu: str, shape: Shape, quant: str) -> None:
    """The same logits whatever is offloaded, also in a small step after large ones, which reads
    their cache."""
    tokens = [t % shape.n_vocab for t in tokens]
    tiny = steady(lambda: write_model(tmp_path / "m.gguf", rng, shape, quant=quant), tokens, feed,
                  rng, ROUNDINGS * 2.0 ** -24)
    whole = feed(tiny.plan("reference:0"), tokens)
    for n in range(shape.n_layers):
        options = PlaceOptions(n_gpu_layers=n, stream_weights=True)
        plan = tiny.plan(gpu, "cpu:0", place=options, backend=BackendOptions(precise=True))
        assert plan.blueprint.streamed is not None
        assert nmse(feed(plan, tokens), whole) < (ROUNDINGS * 2.0 ** -24) ** 2, n


def nmse(got: npt.NDArray[np.float32], wanted: npt.NDArray[np.float32]) -> float:
    return float(((got.astype(np.float64) - wanted) ** 2).sum() / (wanted.astype(float) ** 2).sum())
