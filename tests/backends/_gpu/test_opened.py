"""Devices are opened once, whoever asks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from backends._gpu.emulated import Emulated, EmulatedBackend, Texts
from engine.test_fork import in_child
from unladen.backends._gpu.opened import Forgone, OpeningBackend
from unladen.backends.base import BackendOptions, Device


class Card(Emulated):
    """A device that is never lost."""

    is_closed = is_lost = False

    def wait(self) -> None:
        """Do nothing."""


class Opening(OpeningBackend[Any]):
    """Opens devices by calling ``opens`` first."""

    name = "opening"
    family = Texts(runs_all=True)
    devices = alloc = write = read = compile = EmulatedBackend.devices  # type: ignore[assignment]

    def __init__(self, opens: Callable[[], object]) -> None:
        super().__init__()
        self.opens = opens

    def check_process(self) -> None:
        """Every process is right."""

    def make(self, name: str, number: int, forgone: Forgone) -> Any:
        self.opens()
        return Card(self.family, name=name, forgone=forgone)


def test_two_threads_that_open_a_device() -> None:
    n_made, others = [], threading.Event()

    def opens() -> None:
        n_made.append(1)
        if len(n_made) > 1:
            others.set()
        others.wait(0.3)  # without a lock the other thread comes here, too
    backend = Opening(opens)
    with ThreadPoolExecutor(2) as pool:
        opened = [pool.submit(backend.open, "opening:0", BackendOptions()) for _ in range(2)]
        devices: list[Device] = [each.result() for each in opened]
    assert len(n_made) == 1 and devices[0] == devices[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_forked_while_a_device_is_opened() -> None:
    """Nobody would give back a lock that a thread of the parent holds."""
    inside, may_end = threading.Event(), threading.Event()

    def opens() -> None:
        inside.set()
        may_end.wait()
    backend = Opening(opens)
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(backend.open, "opening:0", BackendOptions())
        inside.wait()

        def child() -> None:
            backend.opens = lambda: None
            backend.open("opening:0", BackendOptions())
        try:
            in_child(child)
        finally:
            may_end.set()
        opened.result()
