"""Finds the placement whose decode step is predicted to be fastest, and that fits.

Layers stay in order and each device holds one range of them, so the best ranges follow from the
best ranges of all shorter beginnings (dynamic programming, exact). The search tries every case of
the other choices: at which end the host's layers are, where the embeddings and the head go, how
many layers keep their experts on the host.

Before a placement is complete, only a lower bound of a range's bytes is known. The search takes the
fastest placement that may fit and counts its bytes exactly. Where that placement doesn't fit, the
search rules out its ranges that are too large, and goes on. So it finds the fastest of all
placements that fit.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from unladen.backends.base import Device
from unladen.graph.graph import Graph, Value
from unladen.schedule import fit
from unladen.schedule.place import EXPERTS, Choice, PlaceOptions, choose, host_and_others
from unladen.schedule.search.cost import Costs
from unladen.schedule.search.units import Both, Groups, Sizes, Units

Floats = npt.NDArray[np.float64]

Excess = Callable[[Choice], Mapping[str, int]]
"""Returns the bytes by which a choice is too large, by device. An exact count, which takes longer
than an estimate."""

GROW = 1.25
"""Where nothing fits, the search takes all memory to be larger by this factor until something does.
"""


def best(graph: Graph, devices: Sequence[Device], options: PlaceOptions, costs: tuple[Costs, Costs],
         room: Mapping[str, int], sizes: Sizes, excess: Excess) -> Choice:
    """The choice with the fastest predicted decode step that fits; of equally fast ones, the choice
    with the fastest prefill step. ``costs``: the costs of both kinds of step. ``room``: bytes by
    device that the choice may use. Where no choice fits, the result is one that is too large by
    about the same factor everywhere: a count of its memory then says what is missing.
    """
    search = _Search(graph, devices, options, Both(*costs), sizes)
    exact = {name: float(n) for name, n in room.items()}
    for found, case in search.run(exact):
        over = {name for name, n in excess(found).items() if n > 0}
        if not over:
            return found
        search.rule_out(case, found, over)
    return search.run_somehow(exact)


def fastest(candidates: Sequence[Choice], seconds: Callable[[Choice], float], excess: Excess
            ) -> Choice:
    """The fastest of ``candidates`` that fits; where none does, the fastest of all."""
    ranked = sorted(candidates, key=seconds)
    return next((c for c in ranked if not any(n > 0 for n in excess(c).values())), ranked[0])


def candidates(n_layers: int, devices: Sequence[Device], options: PlaceOptions) -> list[Choice]:
    """All choices that ``options`` leave open. These options give the shares of the devices, or the
    number of offloaded layers but not at which end they are."""
    orders = ("first", "last") if options.offload_order == "cost" else (options.offload_order,)
    host, others = host_and_others(devices, options)
    open_number = options.n_gpu_layers == "auto" and host is not None and host not in others
    numbers = range(n_layers, -1, -1) if open_number else [None]
    return [choose(n_layers, devices, replace(options, offload_order=o), n)
            for o in orders for n in numbers]


@dataclass(frozen=True, slots=True)
class _Case:
    """Everything but the ranges: the order of the devices, where the embeddings and the head go
    (None: the head goes to the device of the last layer), how many layers keep their experts on the
    host."""

    order: Sequence[Device]
    embed: Device
    head: Device | None
    n_cpu_moe: int


_Held = tuple[str, int, int, bool, bool, int]
"""The parts of a graph that a device has: the device's name, the first of its layers and the one
after the last, whether it has the embeddings and the head, and the number of layers whose experts
stay on the host."""


def _held(case: _Case, choice: Choice, name: str) -> _Held:
    mine = [i for i, d in enumerate(choice.layers) if d.name == name] or [0]
    end = mine[-1] + any(d.name == name for d in choice.layers)
    return (name, mine[0], end, choice.embed.name == name, choice.head.name == name,
            case.n_cpu_moe)


class _Search:
    def __init__(self, graph: Graph, devices: Sequence[Device], options: PlaceOptions, both: Both,
                 sizes: Sizes) -> None:
        self.n_layers, self.both, self.sizes = graph.n_layers, both, sizes
        self.options, self.devices = options, devices
        self.host, self.others = host_and_others(devices, options)
        self.groups = Groups(graph)
        self.plain = Units(graph, devices, options, options.n_cpu_moe or 0, both, sizes)
        self.on_host = self.plain
        if self._open_experts(graph):
            self.on_host = Units(graph, devices, options, graph.n_layers, both, sizes)
        self.least = self._least()
        self._on_host = [d for d in devices if fit.is_on_host(d)]
        self._ruled_out: set[_Held] = set()

    def _open_experts(self, graph: Graph) -> bool:
        options = self.options
        return (options.n_cpu_moe is None and not options.cpu_moe
                and options.expert_split is None and self.host is not None
                and self.host not in self.others
                and any(EXPERTS.search(name) for name in graph.weights()))

    def run_somehow(self, room: Mapping[str, float]) -> Choice:
        """The best choice where none fits: with more room than the devices have."""
        self._ruled_out.clear()
        while True:
            room = {name: max(n, 1.0) * GROW for name, n in room.items()}
            for found, _ in self.run(room):
                return found

    def run(self, room: Mapping[str, float]) -> Iterator[tuple[Choice, _Case]]:
        """The best choice of all cases that fits. While the best one doesn't fit, its ranges are
        ruled out and the next best is tried.
        """
        heap: list[tuple[float, int, _Case, Choice | None]] = []
        for i, case in enumerate(self._cases()):
            least = self.least[case.n_cpu_moe if len(self.least) > 1 else 0]
            heap.append((float(least), i, case, None))
        heapq.heapify(heap)
        while heap:
            _, i, case, choice = heapq.heappop(heap)
            if choice is not None and not self._is_ruled_out(case, choice):
                yield choice, case
                if not self._is_ruled_out(case, choice):
                    continue
            seconds, choice = self._best_ranges(case, room)
            if choice is not None:
                heapq.heappush(heap, (seconds, i, case, choice))

    def rule_out(self, case: _Case, choice: Choice, over: Iterable[str]) -> None:
        """Never again give the devices ``over`` what they have in ``choice``."""
        self._ruled_out |= {_held(case, choice, name) for name in over}

    def _is_ruled_out(self, case: _Case, choice: Choice) -> bool:
        return not self._ruled_out.isdisjoint(_held(case, choice, d.name) for d in self.devices)

    def _least(self) -> Floats:
        """A lower bound of the seconds, whatever the ranges are, by the number of layers whose
        experts stay on the host."""
        host, plain = (np.min([u.seconds[d.name] for d in {*self.others, self.host} if d], axis=0)
                       for u in (self.on_host, self.plain))
        if self.on_host is self.plain:
            return np.array([plain.sum()])
        m = np.arange(self.n_layers + 1)
        sums = [np.concatenate([[0.0], np.cumsum(a)]) for a in (host, plain)]
        return np.asarray(sums[0][m] + sums[1][-1] - sums[1][m])

    def _cases(self) -> Iterator[_Case]:
        host: list[Device] = []
        if self.host is not None and self.host not in self.others:
            host = [self.host]
        orders = {"first": [[*self.others, *host]], "last": [[*host, *self.others]]}
        orders["cost"] = orders["first"] + orders["last"] * bool(host)
        embeds = self._named(self.options.embed_device) or [*self.others, *host]
        heads: list[Device | None] = [*self._named(self.options.head_device)] or [None, *host]
        n_open = self.n_layers if self.on_host is not self.plain else 0
        for order in orders[self.options.offload_order]:
            for embed in embeds:
                for head in heads:
                    for n in range(n_open + 1):
                        yield _Case(order, embed, head, n or self.options.n_cpu_moe or 0)

    def _named(self, name: str | None) -> list[Device]:
        full = name if name is None or ":" in name else f"{name}:0"
        return [d for d in self.devices if d.name == full]

    def _best_ranges(self, case: _Case, room: Mapping[str, float]) -> tuple[float, Choice | None]:
        """Seconds of the best ranges, and the choice; infinity where none fits.

        ``reach[k][j]``: the least time in which the first j layers are done, the last of them on
        the k-th device; ``start[k][j]``: the layer where that device's range then begins.
        """
        if self._overfull(case, room):
            return math.inf, None
        n = self.n_layers
        reach = np.full((len(case.order), n + 1), np.inf)
        start = np.zeros((len(case.order), n + 1), np.int64)
        before = np.zeros((len(case.order), n + 1), np.int64)
        found, at = math.inf, (0, 0)
        for k, device in enumerate(case.order):
            entry, before[k] = self._entries(case, k, reach)
            fits = self._ranges(case, device, entry, room, head=device == case.head)
            reach[k], start[k] = fits.min(axis=0), fits.argmin(axis=0)
            last = fits[:, n]
            if case.head is None:
                last = self._ranges(case, device, entry, room, head=True)[:, n]
            seconds = float(last.min()) + self._head(case, device)
            if seconds < found:
                found, at = seconds, (k, int(last.argmin()))
        if not math.isfinite(found):
            return math.inf, None
        return found + self._embed(case), self._choice(case, at, start, before)

    def _entries(self, case: _Case, k: int, reach: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
        """The least time after which device ``k`` of the order can begin with layer i, and the
        device that had the layer before, -1 for none."""
        device, both = case.order[k], self.both
        entry = np.full(self.n_layers + 1, np.inf)
        source = np.full(self.n_layers + 1, -1, np.int64)
        begin = 0.0 if device == case.embed else both.launch(device) + self._copies(
            self.groups.entering, case.embed, device)
        always = self._copies(self.groups.everywhere, case.embed, device)
        # The embeddings are on the host, with the first layer, or where options put them.
        if device == case.embed or case.embed == self.host or self.options.embed_device:
            entry[0] = begin + always * (device != case.embed)
        for p in range(k):
            cross = self._copies(self.groups.hidden, case.order[p], device)
            seconds = reach[p] + cross + always + both.launch(device)
            source = np.where(seconds < entry, p, source)
            entry = np.minimum(seconds, entry)
        entry[-1] = np.inf
        return entry, source

    def _ranges(self, case: _Case, device: Device, entry: Floats, room: Mapping[str, float], *,
                head: bool) -> Floats:
        """Time [i, j] until layers i to j are done on ``device``; infinity where they don't fit."""
        time, size = (self._mixed(case, device, what) for what in ("seconds", "nbytes"))
        totals = entry[:, None] + time[None, :] - time[:, None]
        left = room[device.name] - self._fixed(case, device, layers=True, head=head)
        i, taken = np.arange(self.n_layers + 1), size[None, :] - size[:, None]
        totals[(i[:, None] >= i[None, :]) | (taken > left)] = np.inf
        if device in self._on_host and len(self._on_host) > 1:
            shared = self._shared(room) - self._fixed(case, device, layers=True, head=head)
            totals[taken + self._beside(case, room) > shared] = np.inf
        about = device == case.embed, head, case.n_cpu_moe
        for name, begin, end, *rest in self._ruled_out:
            if name == device.name and tuple(rest) == about:
                totals[begin, end] = np.inf
        return totals

    def _shared(self, room: Mapping[str, float]) -> float:
        """The bytes that devices on the host's memory have together."""
        hosts = [room[d.name] for d in self._on_host if d.is_host]
        return min(hosts) if hosts else max(room[d.name] for d in self._on_host)

    def _beside(self, case: _Case, room: Mapping[str, float]) -> Floats:
        """A lower bound of the bytes [i, j] of the host's memory that all layers but i to j take:
        other devices hold as many of them as they have room for."""
        each = [np.diff(self._mixed(case, d, "nbytes")) for d in case.order]
        sums = np.concatenate([[0.0], np.cumsum(np.min(each, axis=0))])
        elsewhere = sum(max(0.0, room[d.name]) for d in case.order if d not in self._on_host)
        outside = sums[-1] - (sums[None, :] - sums[:, None])
        return np.asarray(np.maximum(0.0, outside - elsewhere))

    def _mixed(self, case: _Case, device: Device, what: str) -> Floats:
        """Running sums over the layers, where the first ones keep their experts on the host, as
        many as the case says."""
        m = case.n_cpu_moe if self.on_host is not self.plain else 0
        host, plain = (getattr(u, what)[device.name] for u in (self.on_host, self.plain))
        return np.concatenate([[0.0], np.cumsum(np.concatenate([host[:m], plain[m:]]))])

    def _fixed(self, case: _Case, device: Device, *, layers: bool, head: bool) -> float:
        """A lower bound of the bytes that ``device`` needs for everything except its range of
        layers."""
        embed = device == case.embed
        total = float(self._mixed(case, device, "pinned")[-1])
        total += self.plain.arena(device, layers=layers, embed=embed, head=head)
        if embed:
            total += self.sizes.weights(self.groups.embed, device)
        if head:
            names = self.groups.embed if embed else ()
            total += (self.sizes.weights([*names, *self.groups.head], device)
                      - self.sizes.weights(names, device))
        return total

    def _overfull(self, case: _Case, room: Mapping[str, float]) -> bool:
        """Whether a device has too little room even for its parts outside of the layers."""
        return any(self._fixed(case, d, layers=False, head=d == case.head) > room[d.name]
                   or (d.name, 0, 0, d == case.embed, d == case.head, case.n_cpu_moe)
                   in self._ruled_out for d in self.devices)

    def _embed(self, case: _Case) -> float:
        return self.both.launch(case.embed) + self.both.nodes(self.groups.embed, case.embed)

    def _head(self, case: _Case, last: Device) -> float:
        """Seconds of the nodes after the last layer, where that layer is on the device ``last``."""
        head = case.head or last
        seconds = self.both.nodes(self.groups.head, head)
        seconds += sum(self.both.read(v, head) for v in self.groups.outputs)
        if head != last:
            seconds += self._copies(self.groups.hidden, last, head) + self.both.launch(head)
        return seconds

    def _copies(self, values: Sequence[Value], source: Device, target: Device) -> float:
        if source == target:
            return 0.0
        return sum(self.both.copy(v, source, target) for v in values)

    def _choice(self, case: _Case, at: tuple[int, int], start: npt.NDArray[np.int64],
                before: npt.NDArray[np.int64]) -> Choice:
        k, first = at
        layers: list[Device] = [case.order[k]] * (self.n_layers - first)
        while first > 0:
            end, k = first, int(before[k][first])
            first = int(start[k][end])
            layers = [case.order[k]] * (end - first) + layers
        return Choice(tuple(layers), case.embed, case.head or layers[-1], case.n_cpu_moe)
