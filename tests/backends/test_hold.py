"""Devices are shared by the plans of a process, and closed with the last one."""

from __future__ import annotations

import gc
import weakref
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from delayed import DelayedBackend
from delayed import delayed as delayed
from tiny_model import write_tiny
from tiny_plan import Tiny, fill, open_tiny
from unladen import Model
from unladen.backends import BackendOptions, Hold, backend_of
from unladen.backends.base import Device
from unladen.errors import BackendNotInitialised, Cancelled
from unladen.schedule.place import PlaceOptions

OPTIONS = BackendOptions()


@pytest.fixture
def tiny(tmp_path: Path, rng: np.random.Generator) -> Tiny:
    return open_tiny(write_tiny(tmp_path / "tiny.gguf", rng, n_layers=4))


def test_the_last_hold_closes(delayed: DelayedBackend) -> None:
    device = delayed.open("delayed:0", OPTIONS)
    first, second = Hold([device], OPTIONS), Hold([device], OPTIONS)
    thread = delayed.workers["delayed:0"].thread
    buffer = delayed.alloc(device, 64, "arena")
    for _ in range(2):
        first.release()
        assert delayed.n_closed == 0 and thread.is_alive()
    delayed.write(buffer, np.ones(64, np.uint8))
    second.release()
    assert delayed.n_closed == 1 and not thread.is_alive()
    for use in (lambda: delayed.alloc(device, 64, "arena"), lambda: delayed.read(buffer, 64)):
        with pytest.raises(BackendNotInitialised, match="closed") as caught:
            use()
        assert caught.value.hint


def test_it_ends_with_the_last_reference(delayed: DelayedBackend) -> None:
    device = delayed.open("delayed:0", OPTIONS)
    hold: Hold | None = Hold([device], OPTIONS)
    assert "released" not in repr(hold)
    del hold
    assert delayed.n_closed == 1
    again = Hold([device], OPTIONS)
    assert delayed.alloc(device, 1, "kv").nbytes == 1, "it was opened once more"
    again.release()
    assert "released" in repr(again) and delayed.n_closed == 2


def test_what_fails_holds_nothing(delayed: DelayedBackend) -> None:
    device = delayed.open("delayed:0", OPTIONS)
    with pytest.raises(BackendNotInitialised):
        Hold([device, Device("cpu:x", "", 0)], OPTIONS)
    assert delayed.n_closed == 1


@pytest.mark.parametrize("name", ["cpu", "delayed", "null", "reference", "wgpu"])
def test_closing_twice_and_opening_again(name: str, delayed: DelayedBackend) -> None:
    backend = backend_of(name)
    try:
        device = backend.open(f"{name}:7", OPTIONS)
    except BackendNotInitialised as error:
        pytest.skip(error.message)
    for _ in range(2):
        backend.close(device)
    assert backend.open(f"{name}:7", OPTIONS) == device
    assert backend.alloc(device, 64, "kv").nbytes == 64
    backend.close(device)


def test_two_plans_share_a_device(tiny: Tiny, delayed: DelayedBackend) -> None:
    both = [tiny.plans("delayed:0", "cpu:0", place=PlaceOptions(n_gpu_layers=2)) for _ in range(2)]
    both[0].close()
    fill(both[1].main, [5, 6, 7], 0)
    both[1].main.run()
    logits = both[1].main.output("logits").copy()
    assert np.isfinite(logits).all() and delayed.n_closed == 0
    del both[1:]
    assert delayed.n_closed == 1


@pytest.mark.parametrize("name", ["cpu:0", "delayed:0", "null:0", "reference:0", "wgpu:0"])
def test_a_closed_plan(tiny: Tiny, delayed: DelayedBackend, name: str) -> None:
    try:
        plans = tiny.plans(name)
    except BackendNotInitialised as error:
        pytest.skip(error.message)
    fill(plans.main, [5, 6, 7], 0)
    plans.main.run()
    for _ in range(2):
        plans.close()
    for use in (plans.main.run, lambda: plans.main.output("logits"),
                lambda: plans.main.fetch("logits")):
        with pytest.raises(Cancelled, match="closed"):
            use()


def test_a_closed_model_lets_go_of_its_device(tmp_path: Path, delayed: DelayedBackend,
                                              rng: np.random.Generator) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", rng)
    model = Model(path, devices=["delayed:0", "delayed:1"])
    model.generate([5, 6, 7], max_tokens=3)
    assert delayed.n_closed == 0
    model.place(devices=["delayed:1", "cpu"], n_gpu_layers="all")
    assert delayed.n_closed == 1, "delayed:0 has nothing to do any more"
    model.generate([5, 6, 7], max_tokens=3)
    model.close()
    model.close()
    assert delayed.n_closed == 2 and not delayed.workers


def test_a_graphics_card_is_free_after_its_last_model(tmp_path: Path, rng: np.random.Generator
                                                      ) -> None:
    backend = backend_of("wgpu")
    path = write_tiny(tmp_path / "tiny.gguf", rng)
    try:
        first, second = (Model(path, devices=["wgpu:5"]) for _ in range(2))
    except BackendNotInitialised as error:
        pytest.skip(error.message)
    gpu = weakref.ref(backend.gpu("wgpu:5"))  # type: ignore[attr-defined]
    device = backend.open("wgpu:5", OPTIONS)
    buffer = backend.alloc(device, 64, "arena")
    first.close()
    assert second.generate([5, 6, 7], max_tokens=3).stop_reason
    second.close()
    uses = [partial(backend.alloc, device, 64, "arena"), partial(backend.read, buffer, 64),
            partial(backend.sync, device), partial(backend.free_bytes, device)]
    for use in uses:
        with pytest.raises(BackendNotInitialised, match="wgpu:5 is closed"):
            use()
    del first, second, buffer, use, uses
    gc.collect()
    assert gpu() is None
