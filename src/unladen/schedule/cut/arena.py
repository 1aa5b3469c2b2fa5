"""Lays out a device's arena: finds the lifetime of each value there, then its offset."""

from __future__ import annotations

import bisect
import operator
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from unladen.graph.graph import Graph, Value
from unladen.schedule.cut.segments import (
    ChangeStep,
    CopyStep,
    NoteStep,
    ReduceStep,
    RunStep,
    Step,
)
from unladen.types import Limits, size_text

ALIGNMENT = 256
"""Offsets are multiples of this many bytes: cache lines and the widest vectors need 64, a range
that a GPU's kernel binds needs 256."""


class ArenaPlan(NamedTuple):
    """One device's arena: the offsets of values, a scratch range after them, and the total bytes.
    ``stored``: the bytes of each value whose numbers don't take 4 bytes each. ``passed``: the
    values that pass from node to node within one dispatch."""

    offsets: Mapping[Value, int]
    scratch_offset: int
    scratch_bytes: int
    nbytes: int
    stored: Mapping[Value, int]
    passed: Set[Value] = frozenset()

    def __repr__(self) -> str:
        return f"<ArenaPlan of {size_text(self.nbytes)} for {len(self.offsets)} values>"


@dataclass(slots=True)
class _Life:
    value: Value
    nbytes: int
    first: int
    last: int


def plan_arena(graph: Graph, steps: Sequence[Step], device: str, limits: Limits,
               scratch_bytes: int, stored: Mapping[Value, int], passed: Set[Value] = frozenset()
               ) -> ArenaPlan:
    """Lay out the arena of ``device``. A value keeps its bytes for itself from the step that makes
    it or copies it in until its last use there; an output of the graph keeps them to the end. The
    nodes from the one that makes one of ``passed`` to the last one that reads it run at one time,
    so no values of theirs share bytes. ``stored`` and ``passed`` as in :class:`ArenaPlan`."""
    lives = _lives(graph, steps, device, limits, stored, passed)
    offsets, top = _first_fit(lives)
    return ArenaPlan(offsets, top, scratch_bytes, _align(top + scratch_bytes), stored, passed)


def _lives(graph: Graph, steps: Sequence[Step], device: str, limits: Limits,
           stored: Mapping[Value, int], passed: Set[Value]) -> list[_Life]:
    lives: dict[Value, _Life] = {}
    to_read = Counter(value for step in steps if isinstance(step, RunStep)
                      for node in step.nodes for value in passed & {*node.inputs})
    on_the_way: set[Value] = set()
    time = 0

    def touch(value: Value, *, born: bool) -> None:
        if born:
            nbytes = _align(stored.get(value, 4 * limits.count(value.shape)))
            lives[value] = _Life(value, nbytes, time, time)
        elif value in lives:
            lives[value].last = time

    for step in steps:
        if isinstance(step, RunStep):
            for node in step.nodes:
                time += not on_the_way
                to_read.subtract(passed & {*node.inputs})
                on_the_way = {v for v in on_the_way | (passed & {*node.outputs}) if to_read[v]}
                if step.device.name == device:
                    for value in node.inputs:
                        touch(value, born=False)
                    for value in node.outputs:
                        touch(value, born=True)
        elif isinstance(step, CopyStep):
            time += 1
            if step.source.name == device:
                touch(step.value, born=False)
            if step.target.name == device:
                touch(step.value, born=True)
        elif isinstance(step, ReduceStep):
            time += 1
            for at, part, total in zip(step.devices, step.parts, step.totals, strict=True):
                if at.name == device:
                    touch(part, born=False)
                    touch(total, born=True)
        elif isinstance(step, ChangeStep | NoteStep):
            time += 1
            if step.device.name == device:
                touch(step.value, born=False)
    for value in graph.outputs.values():
        if value in lives:
            lives[value].last = time + 1
    return list(lives.values())


def _first_fit(lives: Sequence[_Life]) -> tuple[dict[Value, int], int]:
    """Place the largest values first, each at the lowest offset that is free for all its life.
    Returns the offsets, and the end of the last value."""
    placed: list[tuple[int, _Life]] = []  # sorted by offset
    for life in sorted(lives, key=lambda x: (-x.nbytes, x.first)):
        offset = 0
        for start, other in placed:
            if start >= offset + life.nbytes:
                break
            if life.last >= other.first and other.last >= life.first:
                offset = max(offset, start + other.nbytes)
        bisect.insort(placed, (offset, life), key=operator.itemgetter(0))
    offsets = {life.value: start for start, life in placed}
    return offsets, max((start + life.nbytes for start, life in placed), default=0)


def _align(n: int) -> int:
    return (n + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
