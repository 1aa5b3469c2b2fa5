"""When values must have arrived, and which buffers they go through meanwhile."""

from __future__ import annotations

import numpy as np
import pytest

from unladen.backends.base import Device
from unladen.graph.graph import Node, Value
from unladen.schedule.cut.crossings import crossings
from unladen.schedule.cut.segments import CopyStep, RunStep, Step
from unladen.types import Limits

HOST = Device("null:9", "", 0, is_host=True)
FAR = [Device(f"null:{i}", "", 0) for i in range(3)]
LIMITS = Limits(16, 4, 1, 1, 1)


def value(name: str, n: int) -> Value:
    return Value(name, ("T", n))


def run(device: Device, name: str = "n") -> RunStep:
    return RunStep(device, (Node(name, "add", (), ()),))


def test_they_arrive_before_the_next_run_of_their_target() -> None:
    x, y, z = value("x", 8), value("y", 16), value("z", 4)
    steps: list[Step] = [
        run(FAR[0], "a"), CopyStep(x, FAR[0], HOST), CopyStep(y, FAR[0], FAR[1]),
        run(FAR[0], "b"), run(FAR[1], "c"), CopyStep(z, FAR[0], HOST), run(HOST, "d"),
        CopyStep(value("w", 2), HOST, FAR[0]), run(FAR[0], "e")]
    found = crossings(steps, LIMITS)
    assert found.due == {4: [steps[2]], 6: [steps[1], steps[5]]}
    assert found.slot == {steps[1]: 0, steps[2]: 1, steps[5]: 1}
    assert found.staging == {"null:0": [4 * 16 * 8, 4 * 16 * 16]}


@pytest.mark.parametrize("_", range(20))
def test_no_two_share_a_buffer_at_once(_: int, rng: np.random.Generator) -> None:
    devices = [HOST, *FAR]
    steps: list[Step] = []
    for i in range(60):
        source, target = (devices[j] for j in rng.permutation(4)[:2])
        if rng.integers(2):
            steps.append(run(source, f"n{i}"))
        else:
            steps.append(CopyStep(value(f"v{i}", int(rng.integers(1, 50))), source, target))
    steps += [run(device) for device in devices]
    found = crossings(steps, LIMITS)
    copies = [s for s in steps if isinstance(s, CopyStep)]
    assert set(found.slot) == {c for c in copies if not c.source.is_host}
    arrivals = {copy: i for i, due in found.due.items() for copy in due}
    for copy, slot in found.slot.items():
        sent = steps.index(copy)
        following = [i for i, s in enumerate(steps)
                     if i > sent and isinstance(s, RunStep) and s.device == copy.target]
        assert arrivals[copy] == following[0]
        assert found.staging[copy.source.name][slot] >= 4 * LIMITS.count(copy.value.shape)
        for other, its in found.slot.items():
            if other != copy and (other.source, its) == (copy.source, slot):
                assert not sent <= steps.index(other) < arrivals[copy]
