"""Cuts a placed graph into segments of one device each, and finds what must be copied."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from unladen.backends import backend_of
from unladen.backends.base import Device
from unladen.errors import UnsupportedOp
from unladen.graph.graph import Graph, Node, Value
from unladen.schedule.cut.all_reduce import AllReduce
from unladen.schedule.cut.hot_experts import noted
from unladen.schedule.cut.order import is_product, others_first
from unladen.schedule.needs import Need
from unladen.schedule.place import Placement

log = logging.getLogger("unladen")

N_NAMED = 3
"""A warning names at most this many of the ops that a device lacks."""


@dataclass(frozen=True, slots=True)
class CopyStep:
    """``value`` is copied from one device's arena to another's."""

    value: Value
    source: Device
    target: Device


@dataclass(frozen=True, slots=True)
class RunStep:
    """Consecutive nodes of one device."""

    device: Device
    nodes: tuple[Node, ...]

    def __repr__(self) -> str:
        ends = " ... ".join(dict.fromkeys(n.name for n in (*self.nodes[:1], *self.nodes[-1:])))
        return f"<RunStep of {len(self.nodes)} nodes on {self.device.name}: {ends}>"


@dataclass(frozen=True, slots=True)
class FetchStep:
    """Weights for a later ``run`` are copied into a ``slot`` of its device's ring, each from the
    one of the ``hosts`` that holds it (see :mod:`~unladen.schedule.cut.through_device`)."""

    run: RunStep
    hosts: tuple[Device, ...]
    needs: tuple[Need, ...]
    slot: int

    @property
    def nbytes(self) -> int:
        """Bytes of the weights that go over the link."""
        return sum(n.nbytes for n in self.needs)


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """The host may change ``value``, which ``device`` has just made."""

    value: Value
    device: Device


@dataclass(frozen=True, slots=True)
class NoteStep:
    """The host notes ``value``, the experts that were chosen for ``node``, which it has just run
    (see :mod:`~unladen.schedule.cut.hot_experts`)."""

    value: Value
    device: Device
    node: Node


@dataclass(frozen=True, slots=True)
class ReduceStep:
    """A library adds up ``parts``, one on each of the ``devices``, into each of their ``totals``
    (see :mod:`~unladen.schedule.cut.all_reduce`)."""

    devices: tuple[Device, ...]
    parts: tuple[Value, ...]
    totals: tuple[Value, ...]


Step = CopyStep | RunStep | FetchStep | ChangeStep | NoteStep | ReduceStep

Runs = Callable[[Device, Node], bool]
"""Whether a device can compute a node."""


def assign(graph: Graph, placement: Placement, fallbacks: Sequence[Device], *, strict: bool,
           quiet: bool = False, runs: Runs | None = None, could_take: Runs | None = None
           ) -> dict[Node, tuple[Device, str]]:
    """The device that runs each node, and why: the placed one where it has the op, as ``runs`` says
    (None: the backends), or the first of ``fallbacks`` that can take the node, as ``could_take``
    says (None: ``runs``). Nodes that share a cache stay together.

    Fallbacks are reported in one line for each pair of devices, unless ``quiet``; with ``strict``
    one raises :class:`UnsupportedOp`, and so does an op that no device has.
    """
    result: dict[Node, tuple[Device, str]] = {}
    lacks: dict[tuple[Device, Device], dict[str, None]] = {}
    states = _state_groups(graph)
    runs = runs or _runs
    for node in graph.nodes:
        together = states.get(node.state.layer, [node]) if node.state else [node]
        wanted = placement.device_of[node]
        device = wanted
        if not all(runs(wanted, n) for n in together):
            device = _first_that_runs(together, [wanted, *fallbacks], could_take or runs)
        why = placement.why[node]
        if device != wanted:
            lacking = next(n for n in together if not runs(wanted, n))
            why = f"{wanted.name} has no {lacking.op}"
            if strict:
                raise UnsupportedOp(
                    f"{wanted.name} can't run {lacking.op} ({lacking.name})", node=lacking.name,
                    device=wanted.name, hint=f"place it on {device.name}, or give {wanted.name} a "
                                             "kernel for it")
            lacks.setdefault((wanted, device), {})[lacking.op] = None
        result[node] = (device, why)
    if not quiet:
        _report(lacks, fallbacks[-1] if fallbacks else None)
    return result


def split(graph: Graph, device_of: Mapping[Node, tuple[Device, str]],
          all_reduces: Sequence[AllReduce] = ()) -> list[Step]:
    """The runs and copies of a step, in the order in which they are started. The batch's own arrays
    are on every device and need no copies.

    Devices other than the host get their work as early as possible, so that all devices work at the
    same time; :mod:`~unladen.schedule.cut.order` says in which order nodes are taken. A run ends
    early where it needs a value that another device may not have finished, and after a value that
    may be changed. Where another device needs a value from the middle of a run, the value is copied
    before the rest of the run begins. The partial results of ``all_reduces`` are copied to all
    devices, or added by a library, before the first of these goes on.
    """
    splitter = _Splitter(graph, device_of, all_reduces)
    for node in others_first(graph, device_of):
        splitter.add(node)
    splitter.close()
    return splitter.steps


def inner_values(graph: Graph, steps: Sequence[Step]) -> dict[RunStep, frozenset[Value]]:
    """For each run, the values that it makes and that nothing else reads."""
    copied = {s.value for s in steps if isinstance(s, CopyStep)}
    runs = [s for s in steps if isinstance(s, RunStep)]
    read = [{v for n in r.nodes for v in n.inputs} for r in runs]
    n_runs = Counter(v for values in read for v in values)
    outside = (copied | set(graph.outputs.values()) | graph.changed
               | {v for v, n in n_runs.items() if n > 1})
    return {r: frozenset(v for n in r.nodes for v in n.outputs if v in values) - outside
            for r, values in zip(runs, read, strict=True)}


class _Splitter:
    def __init__(self, graph: Graph, device_of: Mapping[Node, tuple[Device, str]],
                 all_reduces: Sequence[AllReduce]) -> None:
        self.device_of = device_of
        self.all_reduce = {n: each for each in all_reduces for n in each.nodes}
        self.steps: list[Step] = []
        self.changed = graph.changed
        self.run: list[Node] = []
        self.current: Device | None = None
        self.where: dict[Value, set[str]] = {}
        self.home: dict[Value, Device] = {}
        self.busy: set[str] = set()
        self.readers: dict[Value, list[Device]] = {}
        for node in graph.nodes:
            for value in node.inputs:
                self.readers.setdefault(value, []).append(device_of[node][0])

    def add(self, node: Node) -> None:
        """Append ``node`` to the run under way, or begin another run with it."""
        device = self.device_of[node][0]
        all_reduce = self.all_reduce.get(node)
        if all_reduce is not None and all_reduce.by:
            self._reduce(all_reduce)
            return
        if all_reduce is not None:
            self._exchange([v for v in all_reduce.parts if v in self.home])
        copies = [v for v in dict.fromkeys(node.inputs)
                  if v in self.home and device.name not in self.where[v]]
        if device != self.current:
            self._cut({v for v in copies if self.home[v] == self.current})
            self.close()
        elif self.busy & {self.home[v].name for v in copies}:
            self.close()
        # Values of other devices were made before this run began: copy them before it.
        for value in copies:
            self._copy(value, device)
        self.current = device
        self.run.append(node)
        for value in node.outputs:
            self.home[value], self.where[value] = device, {device.name}
        changed = [v for v in node.outputs if v in self.changed]
        if changed:  # between the node that makes it and its readers
            self.close()
            self.steps += [ChangeStep(v, device) for v in changed]
            self.busy.discard(device.name)
        chosen = noted(node, device)
        if chosen is not None:
            self.close()
            self.steps.append(NoteStep(chosen, device, node))

    def close(self) -> None:
        """End the run under way, if there is one."""
        if self.run and self.current is not None:
            self.steps.append(RunStep(self.current, tuple(self.run)))
            self.busy |= set() if self.current.is_host else {self.current.name}
            self.run = []

    def _cut(self, wanted: set[Value]) -> None:
        """Copy ``wanted`` to all its readers before the rest of the run that makes it, if that rest
        is worth a segment of its own: it has a product, and its device runs without the host
        waiting for it."""
        made = [i for i, n in enumerate(self.run) if wanted & set(n.outputs)]
        rest = self.run[made[-1] + 1:] if made else []
        if self.current is None or self.current.is_host or not any(map(is_product, rest)):
            return
        del self.run[len(self.run) - len(rest):]
        self.close()
        for value in sorted(wanted, key=lambda v: v.name):
            self._copy(value, self.current)
        self.run = rest

    def _exchange(self, parts: Sequence[Value]) -> None:
        """Copy each of ``parts`` to all its readers."""
        for value in parts:
            for device in self.readers[value]:
                if device.name not in self.where[value]:
                    self.close()
                    self._copy(value, device)

    def _reduce(self, each: AllReduce) -> None:
        """Let the library add, once for all devices."""
        if each.totals[0] in self.home:
            return
        self.close()
        owner = {self.device_of[n][0]: v for n in each.nodes for v in n.outputs if v in each.totals}
        devices = tuple(self.home[v] for v in each.parts)
        self.steps.append(ReduceStep(devices, each.parts, tuple(owner[d] for d in devices)))
        for device, total in owner.items():
            self.home[total], self.where[total] = device, {device.name}

    def _copy(self, value: Value, device: Device) -> None:
        """Copy ``value`` to ``device``. Where the source runs without the host waiting for it, copy
        the value to all readers now: a later copy would wait for the work that the source got in
        the meantime."""
        home = self.home[value]
        for target in [device] if home.is_host else self.readers[value]:
            if target.name not in self.where[value]:
                self.steps.append(CopyStep(value, home, target))
                self.where[value].add(target.name)
        self.busy.discard(home.name)


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
    return backend_of(device.name).supports(device, node)


def _report(lacks: Mapping[tuple[Device, Device], Mapping[str, None]], slowest: Device | None
            ) -> None:
    """Warn in one line for each device that lacks ops and each other device that has them."""
    for (wanted, device), ops in lacks.items():
        count = f"{len(ops)} ops" if len(ops) > 1 else "the op"
        names = ", ".join(list(ops)[:N_NAMED]) + (", ..." if len(ops) > N_NAMED else "")
        they = "they run" if len(ops) > 1 else "it runs"
        log.warning("%s lacks %s (%s): %s on %s, %sslower (hint: --strict stops here; unladen plan "
                    "--explain lists them)", wanted.name, count, names, they, device.name,
                    "much " if device == slowest else "")
