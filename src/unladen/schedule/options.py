"""The options that decide a graph's plan, and how its weights are loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends.base import BackendOptions, Device
from unladen.graph.batch import Batch
from unladen.graph.graph import Value
from unladen.schedule.place import PlaceOptions
from unladen.types import LoadProgress

Change = Callable[[Value, npt.NDArray[Any], Batch], npt.NDArray[Any] | None]
"""A function that gets a value, its array in a step, read-only, and the step's batch. It returns a
replacement for the array, or None to leave it."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How weights are loaded. ``progress`` is called during the loading and at its end; an
    exception that it raises ends the loading. ``use_mlock``: keep the host's weights from being
    swapped or dropped."""

    progress: Callable[[LoadProgress], object] | None = None
    use_mlock: bool = False


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Everything, except the graph, that decides a graph's plan.

    ``devices``: full names, or devices themselves, as pretended ones are given. ``probe``: try each
    kernel on its device first. ``looked``: names of values that become outputs of the plan
    (:mod:`unladen.graph.taps`). ``changes``: functions that change values, by the values' names.
    """

    devices: Sequence[str | Device] = ("cpu:0",)
    place: PlaceOptions = field(default_factory=PlaceOptions)
    backend: BackendOptions = field(default_factory=BackendOptions)
    use_mmap: bool = True
    strict: bool = False
    probe: bool = False
    loading: LoadOptions = field(default_factory=LoadOptions)
    looked: Sequence[str] = ()
    changes: Mapping[str, Change] = field(default_factory=dict)

    @property
    def is_tapped(self) -> bool:
        """Whether a tap looks at values of the graph, or changes some."""
        return bool(self.looked or self.changes)

    def open_devices(self) -> list[Device]:
        """Open the devices and return them; raises :class:`BackendNotInitialised`."""
        return [d if isinstance(d, Device) else backend_of(d).open(d, self.backend)
                for d in self.devices]
