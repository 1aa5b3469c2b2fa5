"""Predicts how long a step takes: each node by the slower of arithmetic and memory, plus the start
of each segment, plus the copies between devices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unladen.backends import backend_of
from unladen.backends.base import Device, KVLayout
from unladen.graph.graph import Graph, Node, Value
from unladen.graph.ops import get_op
from unladen.schedule import fit
from unladen.schedule.cut.segments import (
    ChangeStep,
    CopyStep,
    FetchStep,
    ReduceStep,
    RunStep,
    Step,
)
from unladen.schedule.search import device_speed
from unladen.types import Limits

CONTEXT = 4096
"""Predictions assume at most this many tokens in a sequence; a model's longest context is rarely
full."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of one step of ``n_tokens``. ``terms``: seconds by what they are spent on: "memory",
    "arithmetic" and "starts" of each device, and "copies"."""

    n_tokens: int
    seconds: float
    terms: Mapping[str, float]

    @property
    def per_second(self) -> float:
        """Tokens a second."""
        return self.n_tokens / self.seconds if self.seconds > 0 else math.inf

    @property
    def bound(self) -> str:
        """The term that takes longest."""
        return max(self.terms, key=lambda name: self.terms[name], default="nothing")


def decode_step(limits: Limits, layout: KVLayout) -> Limits:
    """A step of one token of one sequence, for predictions of decoding."""
    return _step(1, limits, layout)


def prefill_step(limits: Limits, layout: KVLayout, n_tokens: int | None = None) -> Limits:
    """A step of ``n_tokens`` of one prompt, for predictions of prefill; None: as many as a step
    takes."""
    return _step(limits.n_tokens if n_tokens is None else n_tokens, limits, layout)


def _step(n_tokens: int, limits: Limits, layout: KVLayout) -> Limits:
    per_seq = min(limits.n_blocks_per_seq, -(-CONTEXT // layout.block_tokens))
    return Limits(n_tokens, 1, 1, per_seq, limits.n_blocks, layout.block_tokens)


@dataclass(frozen=True, slots=True)
class NodeCost:
    """Seconds of a node on a device for arithmetic and for memory, which overlap."""

    arithmetic: float
    memory: float

    @property
    def seconds(self) -> float:
        """Seconds of both together: the larger one, since they overlap."""
        return max(self.arithmetic, self.memory)


@dataclass
class Costs:
    """Costs of a step of the size ``step``. The costs of equal nodes are computed once."""

    step: Limits
    layout: KVLayout
    _devices: dict[str, Device] = field(default_factory=dict)
    _nodes: dict[object, NodeCost] = field(default_factory=dict)

    def node(self, node: Node, device: Device) -> NodeCost:
        """The cost of ``node`` on ``device``."""
        key = (device.name, node.op, tuple(v.shape for v in (*node.inputs, *node.outputs)),
               tuple((role, w.shape, w.quant) for role, w in node.weights.items()),
               tuple((k, v) for k, v in node.attrs.items() if isinstance(v, int)),
               node.state and (node.state.n_kv_heads, node.state.k_dim, node.state.v_dim))
        if key not in self._nodes:
            known = self.known(device)
            self._nodes[key] = NodeCost(get_op(node.op).flops(node, self.step) / known.flops,
                                        self._bytes(node, device) / known.bandwidth)
        return self._nodes[key]

    def known(self, device: Device) -> Device:
        """``device`` with an estimate for each speed that it doesn't tell."""
        if device.name not in self._devices:
            self._devices[device.name] = device_speed.known(device)
        return self._devices[device.name]

    def launch(self, device: Device) -> float:
        """Seconds that the start of a segment takes."""
        return self.known(device).launch_s

    def copy(self, value: Value, source: Device, target: Device) -> float:
        """Seconds of a copy of ``value`` from one device to another."""
        nbytes = 4 * self.step.count(value.shape)
        ends = [self.known(d) for d in (source, target) if not d.is_host]
        over_links = [d.link_latency_s + nbytes / d.link_bandwidth for d in ends]
        if not over_links:
            return 2 * nbytes / self.known(source).bandwidth
        alike = source.name.partition(":")[0] == target.name.partition(":")[0]
        # Devices of one backend copy directly; copies between others go through the host.
        return max(over_links) if alike else sum(over_links)

    def read(self, value: Value, device: Device) -> float:
        """Seconds that the host takes to read an output of ``device``."""
        if device.is_host:
            return 0.0
        known = self.known(device)
        return known.link_latency_s + 4 * self.step.count(value.shape) / known.link_bandwidth

    def predict(self, graph: Graph, steps: Sequence[Step]) -> Prediction:
        """The time of ``steps`` as a plan runs them, and of reading the outputs."""
        clock = self.play(steps)
        home = {v: s.device for s in steps if isinstance(s, RunStep)
                for n in s.nodes for v in n.outputs}
        home |= {v: d for s in steps if isinstance(s, ReduceStep)
                 for d, v in zip(s.devices, s.totals, strict=True)}
        for value in graph.outputs.values():
            clock.copy(home[value], self.read(value, home[value]))
        return Prediction(self.step.n_tokens, clock.now, clock.terms)

    def play(self, steps: Sequence[Step]) -> Clock:
        """The clock after ``steps``. Devices other than the host work on without waiting until a
        value is copied from them."""
        clock = Clock()
        for step in steps:
            if isinstance(step, CopyStep):
                clock.copy(step.source, self.copy(step.value, step.source, step.target))
            elif isinstance(step, FetchStep):
                self._fetch(step, clock)
            elif isinstance(step, ChangeStep):
                clock.copy(step.device, 2 * self.read(step.value, step.device))
            elif isinstance(step, ReduceStep):
                self._reduce(step, clock)
            elif isinstance(step, RunStep):
                self._run(step, clock)
        return clock

    def _reduce(self, step: ReduceStep, clock: Clock) -> None:
        """The devices wait for one another, not the host for them. Each sends its part in as many
        pieces as there are devices, once to be added and once added."""
        n, known = len(step.devices), [self.known(d) for d in step.devices]
        nbytes = 8 * self.step.count(step.parts[0].shape) * (n - 1) / n
        over = max(d.link_latency_s + nbytes / d.link_bandwidth for d in known)
        end = max(map(clock.until, step.devices)) + over
        clock.free_at |= {d.name: end for d in step.devices}
        clock.spend("copies", over)

    def _fetch(self, step: FetchStep, clock: Clock) -> None:
        """The host reads and writes each byte while the device works on. The bytes go over the link
        after the device's earlier work if it has only one queue. Otherwise its driver moves them:
        after those before them, and after the run that used the slot."""
        device = self.known(step.run.device)
        over = device.link_latency_s + step.nbytes / device.link_bandwidth
        if device.writes_ahead:
            clock.send(step, over)
        else:
            host = self.known(step.hosts[0])
            clock.run(host, 2 * step.nbytes / host.bandwidth)
            clock.run(device, over)
        clock.spend(f"{device.name} weights over the link", over)

    def _run(self, step: RunStep, clock: Clock) -> None:
        costs = [self.node(n, step.device) for n in step.nodes]
        launch, name = self.launch(step.device), step.device.name
        clock.run(step.device, sum(c.seconds for c in costs) + launch, step)
        clock.spend(f"{name} starts", launch)
        for cost in costs:
            by = "arithmetic" if cost.arithmetic > cost.memory else "memory"
            clock.spend(f"{name} {by}", cost.seconds)

    def _bytes(self, node: Node, device: Device) -> float:
        backend, op = backend_of(device.name), get_op(node.op)
        sizes = {w.name: w.nbytes_in(backend.weight_format(device, node, w) or w.quant)
                 for w in node.weights.values()}
        total = op.bytes_moved(node, self.step, sizes.__getitem__)
        if node.state is not None:
            one_block = sum(fit.kv_bytes(node.state, KVLayout(1, 1, self.layout.k_type,
                                                              self.layout.v_type)))
            total += one_block * op.cache_tokens(node, self.step)
        return total


@dataclass(slots=True)
class Clock:
    """``now``, the host's time; ``free_at``, when each other device will be free; ``link_at``, when
    its link will be; ``slot_at``, when a slot of its ring will be; ``sent``, the slot of a run's
    weights, and when they arrive; ``terms``, what the time was spent on."""

    now: float = 0.0
    free_at: dict[str, float] = field(default_factory=dict)
    link_at: dict[str, float] = field(default_factory=dict)
    slot_at: dict[tuple[str, int], float] = field(default_factory=dict)
    sent: dict[RunStep, tuple[int, float]] = field(default_factory=dict)
    terms: dict[str, float] = field(default_factory=dict)

    def until(self, device: Device) -> float:
        """The time when ``device`` is done with all its work."""
        return max(self.now, self.free_at.get(device.name, 0.0))

    def send(self, step: FetchStep, seconds: float) -> None:
        """Let weights go over the link for ``seconds`` while the device and the host work."""
        name = step.run.device.name
        end = seconds + max(self.now, self.link_at.get(name, 0.0),
                            self.slot_at.get((name, step.slot), 0.0))
        self.link_at[name] = end
        self.sent[step.run] = step.slot, end

    def run(self, device: Device, seconds: float, step: RunStep | None = None) -> None:
        """Let ``device`` work for ``seconds``: on ``step``, once its weights have arrived."""
        slot, arrived = self.sent.get(step, (-1, 0.0)) if self.sent and step else (-1, 0.0)
        end = max(self.until(device), arrived) + seconds
        self.free_at[device.name] = end
        self.slot_at[device.name, slot] = end
        if device.is_host:
            self.now = end

    def copy(self, source: Device, seconds: float) -> None:
        """Let the host wait for ``source`` and then copy for ``seconds``."""
        self.now = self.until(source) + seconds
        if seconds:
            self.spend("copies", seconds)

    def spend(self, term: str, seconds: float) -> None:
        """Add ``seconds`` to ``term``."""
        self.terms[term] = self.terms.get(term, 0.0) + seconds
