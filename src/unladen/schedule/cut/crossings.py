"""Values on their way between devices: when they must have arrived, and which staging buffers they
go through.

As soon as the host has started the run that makes a value, it starts the copy of the value too.
Then the host goes on to start other work, and waits for the value only before it starts the run
that may read it. Until then the value is in a staging buffer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from unladen.schedule.cut.segments import CopyStep, RunStep, Step
from unladen.types import Limits


class Crossings(NamedTuple):
    """When the copies of a way must have arrived, and which staging buffers they use.

    * ``due``: by the index of a step, the copies that must have arrived before it.
    * ``slot``: by copy from a device other than the host, which staging buffer of that device the
      value goes through. Copies without a slot arrive at once.
    * ``staging``: by device name, the bytes of each of its staging buffers.
    """

    due: Mapping[int, Sequence[CopyStep]]
    slot: Mapping[CopyStep, int]
    staging: Mapping[str, Sequence[int]]


def crossings(steps: Sequence[Step], limits: Limits) -> Crossings:
    """The crossings of ``steps``. Values that are on their way at the same time go through
    different buffers."""
    due: dict[int, list[CopyStep]] = {}
    slot: dict[CopyStep, int] = {}
    staging: dict[str, list[int]] = {}
    under_way: list[CopyStep] = []
    for i, step in enumerate(steps):
        if isinstance(step, RunStep):
            arrived = [copy for copy in under_way if copy.target.name == step.device.name]
            if arrived:
                due[i] = arrived
                under_way = [copy for copy in under_way if copy not in arrived]
        elif isinstance(step, CopyStep) and not step.source.is_host:
            name = step.source.name
            taken = {slot[copy] for copy in under_way if copy.source.name == name}
            sizes = staging.setdefault(name, [])
            number = next(n for n in range(len(sizes) + 1) if n not in taken)
            sizes += [0] * (number == len(sizes))
            sizes[number] = max(sizes[number], 4 * limits.count(step.value.shape))
            slot[step] = number
            under_way.append(step)
    return Crossings(due, slot, staging)
