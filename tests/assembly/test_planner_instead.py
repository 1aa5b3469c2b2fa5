"""Moves where the memory holds the old plans or the new ones, but not both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.faults import Faults, faults, from_on
from tests.tiny_model import N_VOCAB, write_tiny

from unladen import Model
from unladen.backends import backend_of
from unladen.backends.base import Buffer, Device, Use
from unladen.errors import OutOfMemory

GREEDY: Any = {"temperature": 0.0, "max_tokens": 24}
SMALL: Any = {"context_size": 160, "cache_tokens": 160}
LARGE: Any = {"context_size": 1600, "cache_tokens": 1600}


@dataclass
class Host:
    """The host's memory with room for ``n_bytes``. ``n_small`` and ``n_large``: the bytes of a
    model with each size."""

    fault: Faults
    n_small: int
    n_large: int
    n_bytes: int = 1 << 40

    def free_bytes(self, device: Device) -> int:
        return self.n_bytes - self.fault.live_bytes()


@pytest.fixture(autouse=True)
def no_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn probes off: they allocate and compute, but only once in a process."""
    monkeypatch.setenv("UNLADEN_PROBE", "0")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("model") / "tiny.gguf", np.random.default_rng(),
                      n_embd=128, context=2048)


@pytest.fixture
def prompt(rng: np.random.Generator) -> list[int]:
    return list(rng.integers(3, N_VOCAB, 70).tolist())


@pytest.fixture
def host(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """Room for the larger model, or for the smaller one, but not for both."""
    with faults("cpu") as fault:
        sizes = []
        for size in (SMALL, LARGE):
            with load(path, **size):
                sizes.append(fault.live_bytes())
        assert fault.live_bytes() == 0
        found = Host(fault, *sizes, sizes[1] + sizes[0] // 2)
        backend: Any = backend_of("cpu")
        alloc = backend.alloc

        def limited(device: Device, nbytes: int, use: Use, *rest: Any) -> Buffer:
            assert nbytes <= found.free_bytes(device), "plans check the room first"
            made: Buffer = alloc(device, nbytes, use, *rest)
            return made

        monkeypatch.setattr(backend, "alloc", limited)
        monkeypatch.setattr(backend, "free_bytes", found.free_bytes)
        yield found


def load(path: Path, **options: Any) -> Model:
    return Model(path, devices=["cpu"], kv_type="f32", speculate=False, **options)


def test_the_old_plans_go_first_where_the_new_ones_need_their_room(
        host: Host, path: Path, prompt: list[int]) -> None:
    with load(path, **SMALL) as model:
        expected = model.generate(prompt, **GREEDY).tokens
        streams = [model.stream(prompt, **GREEDY) for _ in range(2)]
        for stream in streams:
            next(stream)
        model.place(**LARGE)
        assert model.context_size == LARGE["context_size"]
        assert host.fault.live_bytes() == host.n_large
        assert [[*stream] and stream.result.tokens for stream in streams] == [expected] * 2
        stream = model.stream(prompt, **GREEDY)
        next(stream)
        model.place(**SMALL)
        assert host.fault.live_bytes() == host.n_small
        assert [*stream] and stream.result.tokens == expected
        del stream, streams
    assert host.fault.live_bytes() == 0


def test_a_cache_that_both_have_room_for_is_kept(host: Host, path: Path, prompt: list[int]) -> None:
    host.n_bytes = host.n_small + host.n_large
    with load(path, **SMALL) as model:
        expected = model.generate(prompt, **GREEDY)
        model.place(**LARGE)
        again = model.generate(prompt, **GREEDY)
        assert (again.tokens, expected.usage.n_cached) == (expected.tokens, 0)
        assert again.usage.n_cached > 0


def test_what_has_no_room_at_all_changes_nothing(host: Host, path: Path, prompt: list[int]) -> None:
    host.n_bytes = host.n_large - 1
    with load(path, **SMALL) as model:
        expected = model.generate(prompt, **GREEDY).tokens
        plans = model.engine.plans
        with pytest.raises(OutOfMemory) as caught:
            model.place(**LARGE)
        assert model.engine.plans is plans
        assert "context_size" in caught.value.hint
        assert caught.value.requested > caught.value.free
        again = model.generate(prompt, **GREEDY)
        assert again.tokens == expected and again.usage.n_cached > 0


def test_the_old_plans_come_back_whichever_allocation_fails(host: Host, path: Path,
                                                            prompt: list[int]) -> None:
    with load(path, **SMALL) as model:
        expected = model.generate(prompt, **GREEDY).tokens
        for k in range(1000):
            stream = model.stream(prompt, **GREEDY)
            next(stream)
            # One fails with the old cache at hand, the next one without it.
            failed = True
            with host.fault.failing_at({k, k + 1}), contextlib.suppress(OutOfMemory):
                model.place(**LARGE)
                failed = False
            if not failed:
                break
            assert host.fault.live_bytes() == host.n_small
            assert model.context_size == SMALL["context_size"]
            assert [*stream] and stream.result.tokens == expected
        assert k > 4
        assert host.fault.live_bytes() == host.n_large
        assert [*stream] and stream.result.tokens == expected


def test_without_memory_for_the_old_plans_either_the_model_says_so(
        host: Host, path: Path, prompt: list[int]) -> None:
    with load(path, **SMALL) as model:
        with host.fault.failing_at(from_on(0)), pytest.raises(OutOfMemory):
            model.place(**LARGE)
        assert model.engine.plans.is_ended
        with pytest.raises(OutOfMemory):
            model.generate(prompt, **GREEDY)
    assert host.fault.live_bytes() == 0


def test_an_integrated_gpu_gives_its_memory_back_to_the_host(path: Path,
                                                             monkeypatch: pytest.MonkeyPatch
                                                             ) -> None:
    """Weights move from the GPU to the host and back, where their memory doesn't hold both, and
    stay where a smaller step takes them over."""
    null: Any = backend_of("null")
    monkeypatch.setattr(null, "open", lambda *given, of=null.open: replace(
        of(*given), commits_host_memory=True))
    with faults("cpu", "null") as fault:
        n_bytes = 1 << 30
        for backend in (backend_of("cpu"), null):
            monkeypatch.setattr(backend, "free_bytes", lambda device: n_bytes - fault.live_bytes())
        with Model(path, devices=["null:0", "cpu"], n_gpu_layers="all", use_mmap=False,
                   speculate=False, stream_weights=False, **SMALL) as model:
            n_bytes = fault.live_bytes() * 3 // 2
            for n in (0, "all", 0, "all"):
                model.place(n_gpu_layers=n)
                assert bool(model.gpu_layers) == (n == "all")
            n_bytes = fault.live_bytes() + fault.live_bytes() // 5
            weights = set(model.engine.plans.keep().weights.values())
            model.place(batch_size=100)
            assert weights <= set(model.engine.plans.keep().weights.values())
            del weights
    assert fault.live_bytes() == 0


def test_layers_stay_on_the_gpu_where_only_sizes_change(path: Path, monkeypatch: pytest.MonkeyPatch
                                                        ) -> None:
    """The memory that the present plans hold on the GPU is not free for others, and needn't be."""
    null: Any = backend_of("null")
    with faults("null") as fault:
        n_bytes = 1 << 30
        monkeypatch.setattr(null, "free_bytes", lambda device: n_bytes - fault.live_bytes())
        with Model(path, devices=["null:0", "cpu"], speculate=False, stream_weights=False,
                   on_oom=["ubatch"], **SMALL) as model:
            layers = model.engine.plan.blueprint.layers
            assert {d.name for d in layers} == {"null:0"}
            n_bytes = fault.live_bytes() * 5 // 4
            for changes in ({"batch_size": 100}, {"kv_type": "f32"}, {"kv_type": "f16"},
                            {"context_size": 120, "cache_tokens": 128}):
                model.place(**changes)
                assert model.engine.plan.blueprint.layers == layers, changes
            shortage = OutOfMemory(device="null:0", requested=1, free=0, hint="it's a test")
            model.engine.between_steps(lambda: model._planner.relieve(model.engine, shortage))
            assert model.degradations and model.engine.plan.blueprint.layers == layers
            n_bytes = fault.live_bytes() // 2
            model.place(batch_size=16)
            assert model.engine.plan.blueprint.layers != layers
