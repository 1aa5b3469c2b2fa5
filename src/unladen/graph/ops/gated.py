"""The gated unit that glu, linear and moe share: its definition and its error bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.activation import ACTIVATIONS, activation_error, activation_slope
from unladen.graph.ops.base import EPS32, Array


@dataclass(frozen=True, slots=True)
class GatedUnit:
    """``act(gate) * (up + up_offset)`` (Shazeer 2020). ``limit`` l > 0 first clamps up to [-l, l]
    and the gate to at most l, or to at most ``gate_limit`` where that isn't 0 (gpt-oss, 2025)."""

    act: str
    limit: float = 0.0
    up_offset: float = 0.0
    gate_limit: float = 0.0

    @classmethod
    def of(cls, node: Node) -> GatedUnit:
        """The unit that the attributes of ``node`` describe."""
        given = {name: node.attrs[name] for name in cls.__slots__ if name in node.attrs}
        unit = cls(**given)  # type: ignore[arg-type]
        assert unit.act in ACTIVATIONS and unit.limit >= 0 and unit.gate_limit >= 0, node.name
        return unit

    @property
    def is_plain(self) -> bool:
        """Whether the unit has neither limit nor offset."""
        return self == GatedUnit(self.act)

    @property
    def gate_cut(self) -> float:
        """The largest gate; larger ones are clamped to it. Only with a ``limit``."""
        return self.gate_limit or self.limit

    def __call__(self, gate: Array, up: Array) -> Array:
        gate, up = self._cut(gate, up)
        return np.asarray(ACTIVATIONS[self.act](gate) * (up + self.up_offset))

    def error(self, gate: Array, up: Array, off_gate: Array, off_up: Array) -> Array:
        """A bound of the error where the two inputs are off by ``off_gate`` and ``off_up``.
        Clamping reduces an input's error to the distance between the clamped ends of its
        interval."""
        ends = [self._cut(gate + s * off_gate, up + s * off_up) for s in (-1, 1)]
        off_gate, off_up = (np.minimum(off, high - low) for off, low, high in zip(
            (off_gate, off_up), *ends, strict=True))
        gate, up = self._cut(gate, up)
        off = activation_slope(self.act, gate, off_gate) * off_gate + activation_error(
            self.act, gate)
        value = np.abs(ACTIVATIONS[self.act](gate))
        factor = np.abs(up) + abs(self.up_offset)
        bound = off * (factor + off_up) + value * off_up + 2 * EPS32 * value * factor
        return np.asarray(bound)

    def _cut(self, gate: Array, up: Array) -> tuple[Array, Array]:
        if not self.limit:
            return gate, up
        return np.minimum(gate, self.gate_cut), np.clip(up, -self.limit, self.limit)
