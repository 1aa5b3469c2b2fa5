"""Values on their way between devices: when they must have arrived, and what they go through.

A device other than the host is told to send a value as soon as it has been told to make it. The
host goes on telling devices what to do, and waits for the value only before it starts the run that
may read it. Until then the value is in a staging buffer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unladen.schedule.cut.segments import CopyStep, RunStep, Step
from unladen.types import Limits


@dataclass(frozen=True, slots=True)
class Crossings:
    """What becomes of the copies of a way.

    * ``due``: by the index of a step, the copies that must have arrived before it.
    * ``slot``: by copy from a device other than the host, which staging buffer of that device the
      value goes through. The others arrive at once.
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
