"""Which experts are in a device's memory: those that tokens choose most.

After each layer's experts, the host notes which of them the step's tokens chose. Between steps it
replaces experts on the device that are used little by others that are used more
(:mod:`unladen.schedule.cut.hot_experts` divides the work). The rule, for a layer:

* An expert's use is the share of a step's tokens that chose it, added up over the steps; with each
  step that is noted, older use counts :data:`DECAY` times as much.
* The most used expert outside replaces the least used one inside if its use is larger than
  :data:`FACTOR` times the other's and :data:`LEAST`. The lower number wins a tie.
* A step waits for at most one replacement in a layer, for :data:`LAYERS_AT_ONCE` layers in turn,
  and for :data:`MOST_BYTES`, though always for one expert.

So the contents follow from the steps before, and the results of a step from its tokens and the
contents: where an expert is computed changes only how its numbers are rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends.base import Placed
from unladen.graph.ops.moe import EXPERT_ROLES
from unladen.graph.ops.routing import Routing
from unladen.quants import convert
from unladen.schedule.cut.hot_experts import CachedLayer

DECAY = 0.5 ** (1 / 64)
"""After 64 steps use counts half."""
FACTOR, LEAST = 1.25, 1.0
"""How much more an expert must be used than the one that it replaces, and how much at least. A
replacement costs the link as much as several uses cost the host."""
LAYERS_AT_ONCE = 4
"""How many layers are looked at before a step. Looking at one takes about ten microseconds."""
MOST_BYTES = 32 << 20
"""Bytes of replacements before a step: 2 or 3 ms over PCI Express 4.0 with eight lanes."""

Bytes = npt.NDArray[np.uint8]


class ExpertCounts(NamedTuple):
    """``n_kept`` of ``n_experts`` are on devices. The devices computed ``n_hits`` of the
    ``n_chosen`` choices so far. ``n_moved`` experts were replaced, with ``moved_bytes``."""

    n_experts: int = 0
    n_kept: int = 0
    n_chosen: int = 0
    n_hits: int = 0
    n_moved: int = 0
    moved_bytes: int = 0

    @property
    def hit_rate(self) -> float:
        """The share of choices that devices computed; 0 before the first."""
        return self.n_hits / self.n_chosen if self.n_chosen else 0.0


@dataclass(slots=True)
class LayerCache:
    """The cache of one layer. Plans that follow one another share it, with its memory.

    ``device`` and ``host``: the experts' weights by role. ``tables``: the weights that say which
    expert is where. ``resident``: the expert in each slot, -1 for none.
    """

    paper: CachedLayer
    device: Mapping[str, Placed]
    host: Mapping[str, Placed]
    tables: tuple[Placed, Placed]
    resident: npt.NDArray[np.int64]
    use: npt.NDArray[np.float64]
    counts: ExpertCounts
    is_stale: bool = False

    @classmethod
    def of(cls, paper: CachedLayer, placed: Mapping[tuple[str, str], Placed]) -> LayerCache:
        """The cache as it is loaded. ``placed``: weights by the names of device and weight."""
        def weights(node_weights: Mapping[str, str], device: str) -> dict[str, Placed]:
            return {role: placed[device, name] for role, name in node_weights.items()}
        hot, cold = ({role: w.name for role, w in node.weights.items()}
                     for node in (paper.hot, paper.cold))
        mine, theirs = weights(hot, paper.device.name), weights(cold, paper.host.name)
        return cls(paper, {r: p for r, p in mine.items() if r in EXPERT_ROLES},
                   {r: p for r, p in theirs.items() if r in EXPERT_ROLES},
                   (mine["slot_of"], theirs["slot_of"]), np.arange(paper.n_slots),
                   np.zeros(paper.n_experts), ExpertCounts(paper.n_experts, paper.n_slots))

    def note(self, choices: npt.NDArray[np.float32]) -> None:
        """Count the router's ``choices`` [T, n_used] of a step."""
        if not len(choices):
            return
        numbers = choices.astype(np.int64).reshape(-1) // Routing.of(self.paper.cold).fold
        n = np.bincount(numbers, minlength=len(self.use))
        self.use *= DECAY
        self.use += n / len(choices)
        counts, hits = self.counts, int(n[self.resident[self.resident >= 0]].sum())
        self.counts = counts._replace(n_chosen=counts.n_chosen + len(numbers),
                                      n_hits=counts.n_hits + hits)

    def wanted(self) -> tuple[int, int] | None:
        """The slot and the expert of the next replacement; None: all stays as it is."""
        outside = self.use.copy()
        outside[self.resident[self.resident >= 0]] = -1.0
        inside = np.where(self.resident >= 0, self.use[self.resident], 0.0)
        slot, expert = int(inside.argmin()), int(outside.argmax())
        enough = outside[expert] > max(LEAST, FACTOR * inside[slot])
        return (slot, expert) if enough else None

    def replace(self, slot: int, expert: int) -> int:
        """Copy ``expert`` into ``slot`` and return the bytes. Until the tables are written, and if
        this is interrupted, no step may run without :meth:`mend`."""
        self.is_stale = True
        self.resident[slot] = -1
        total = 0
        for role, target in self.device.items():
            data = _expert(self.host[role], expert, target.quant)
            backend_of(target.buffer.device.name).write(target.buffer, data,
                                                        target.offset + slot * data.nbytes)
            total += data.nbytes
        self.resident[slot] = expert
        counts = self.counts
        self.counts = counts._replace(n_moved=counts.n_moved + 1,
                                      moved_bytes=counts.moved_bytes + total)
        return total

    def mend(self) -> None:
        """Write the tables if they don't say what is resident."""
        if not self.is_stale:
            return
        hot = np.full(len(self.use), -1, np.float32)
        slots = np.flatnonzero(self.resident >= 0)
        hot[self.resident[slots]] = slots
        cold = np.where(hot < 0, np.arange(len(hot), dtype=np.float32), np.float32(-1))
        for table, values in zip(self.tables, (hot, cold), strict=True):
            backend_of(table.buffer.device.name).write(table.buffer, values.view(np.uint8),
                                                       table.offset)
        self.is_stale = False


@dataclass(slots=True)
class ExpertCache:
    """The caches of a plan's layers, by the name of the cold node."""

    layers: Mapping[str, LayerCache]
    _next: int = field(default=0, init=False)

    @classmethod
    def of(cls, paper: Sequence[CachedLayer], placed: Mapping[tuple[str, str], Placed],
           kept: Mapping[str, LayerCache]) -> ExpertCache:
        """The caches of ``paper``. Those of ``kept`` whose memory is among the ``placed`` weights
        go on as they are."""
        layers = {}
        for each in paper:
            fresh, old = LayerCache.of(each, placed), kept.get(each.cold.name)
            is_same = old is not None and all(
                a.buffer is b.buffer for a, b in zip(old.tables, fresh.tables, strict=True))
            layers[each.cold.name] = old if old is not None and is_same else fresh
        return cls(layers)

    def before_step(self) -> None:
        """Replace experts, within the limits of the module's rule."""
        layers = list(self.layers.values())
        left = MOST_BYTES
        for layer in layers:
            layer.mend()  # a step before may have been interrupted here
        for i in range(min(LAYERS_AT_ONCE, len(layers))):
            layer = layers[(self._next + i) % len(layers)]
            wanted = layer.wanted() if left > 0 else None
            if wanted is not None:
                left -= layer.replace(*wanted)
                layer.mend()
        self._next = (self._next + LAYERS_AT_ONCE) % max(1, len(layers))

    def counts(self) -> ExpertCounts:
        """The counts of all layers together."""
        each = [layer.counts for layer in self.layers.values()]
        return ExpertCounts(*map(sum, zip(*each, strict=True)))


def _expert(placed: Placed, expert: int, quant: str) -> Bytes:
    """The weights of ``expert`` among the host's, in format ``quant``."""
    one = placed.weight.rows(expert, 1)
    n = one.nbytes_in(placed.quant)
    data = backend_of(placed.buffer.device.name).read(placed.buffer, n, placed.offset + expert * n)
    return convert(placed.quant, quant, data, one.shape)
