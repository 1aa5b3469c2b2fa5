"""Cuts a placed graph into segments of one device each, and finds what must be copied."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unladen.backends import backend_of
from unladen.backends.base import Device, Support
from unladen.errors import UnsupportedOp
from unladen.graph.graph import Graph, Node, Value
from unladen.schedule.place import Placement

log = logging.getLogger("unladen")


@dataclass(frozen=True, slots=True)
class CopyStep:
    """``value`` goes from one device's arena to another's."""

    value: Value
    source: Device
    target: Device


@dataclass(frozen=True, slots=True)
class RunStep:
    """Consecutive nodes of one device."""

    device: Device
    nodes: tuple[Node, ...]


Step = CopyStep | RunStep

Runs = Callable[[Device, Node], bool]
"""Whether a device can compute a node."""


def assign(graph: Graph, placement: Placement, fallbacks: Sequence[Device], *, strict: bool,
           runs: Runs | None = None) -> dict[Node, tuple[Device, str]]:
    """The device that runs each node, and why: the placed one, or the first of ``fallbacks`` that
    has the op, as ``runs`` says (None: the backends). Nodes that share a cache stay together.

    A fallback is reported once for each op and device; with ``strict`` it raises
    :class:`UnsupportedOp`, as does an op that no device has.
    """
    result: dict[Node, tuple[Device, str]] = {}
    reported: set[tuple[str, str]] = set()
    states = _state_groups(graph)
    runs = runs or _runs
    for node in graph.nodes:
        together = states.get(node.state.layer, [node]) if node.state else [node]
        wanted = placement.device_of[node]
        device = _first_that_runs(together, [wanted, *fallbacks], runs)
        why = placement.why[node]
        if device != wanted:
            lacking = next(n for n in together if not runs(wanted, n))
            why = f"{wanted.name} has no {lacking.op}"
            _report(lacking, wanted, device, reported, strict=strict)
        result[node] = (device, why)
    return result


def split(graph: Graph, device_of: dict[Node, tuple[Device, str]]) -> list[Step]:
    """Runs and copies in program order. The batch's own arrays are known everywhere: no copies."""
    steps: list[Step] = []
    run: list[Node] = []
    where: dict[Value, set[str]] = {}
    home: dict[Value, Device] = {}
    current: Device | None = None
    for node in graph.nodes:
        device = device_of[node][0]
        copies = [v for v in dict.fromkeys(node.inputs)
                  if v in home and device.name not in where[v]]
        if current is not None and device != current:
            _close(steps, run, current)
        # What comes from elsewhere was made before this run began, so it is copied before it.
        steps += [CopyStep(v, home[v], device) for v in copies]
        for value in copies:
            where[value].add(device.name)
        current = device
        run.append(node)
        for value in node.outputs:
            home[value], where[value] = device, {device.name}
    if current is not None:
        _close(steps, run, current)
    return steps


def _close(steps: list[Step], run: list[Node], device: Device) -> None:
    if run:
        steps.append(RunStep(device, tuple(run)))
        run.clear()


def _state_groups(graph: Graph) -> dict[int, list[Node]]:
    groups: dict[int, list[Node]] = {}
    for node in graph.nodes:
        if node.state is not None:
            groups.setdefault(node.state.layer, []).append(node)
    return groups


def _first_that_runs(nodes: Sequence[Node], candidates: Sequence[Device], runs: Runs) -> Device:
    for device in candidates:
        if all(runs(device, n) for n in nodes):
            return device
    raise UnsupportedOp(f"no device runs {nodes[0].op}", node=nodes[0].name,
                        device=candidates[0].name, hint="add the device reference")


def _runs(device: Device, node: Node) -> bool:
    return backend_of(device.name).supports(node) is not Support.NO


def _report(node: Node, wanted: Device, device: Device, reported: set[tuple[str, str]], *,
            strict: bool) -> None:
    message = f"{wanted.name} can't run {node.op} ({node.name})"
    hint = f"place it on {device.name}, or give {wanted.name} a kernel for it"
    if strict:
        raise UnsupportedOp(message, node=node.name, device=wanted.name, hint=hint)
    if (node.op, wanted.name) not in reported:
        reported.add((node.op, wanted.name))
        log.warning("%s: it runs on %s instead, which is slower (hint: %s)", message, device.name,
                    hint)
