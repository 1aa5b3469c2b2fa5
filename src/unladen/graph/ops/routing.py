"""How a mixture of experts chooses and weighs its experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array

LEAST_SUM = 2.0 ** -14
"""The least divisor when weights are normalized by their sum: the least normal number of float16,
the type in which these models were trained."""


@dataclass(frozen=True, slots=True)
class Routing:
    """The way from a router's logits to ``n_used`` experts and a weight for each.

    * ``gating`` names the function in :data:`GATINGS` that turns logits into probabilities. The
      experts with the largest probabilities are chosen, after weight ``select_b`` is added if there
      is one (DeepSeek V3, 2024). The lower index wins a tie.
    * ``n_groups`` g > 1: experts are in groups of E / g neighbours. Only the ``n_groups_used``
      groups with the largest sums of their two best experts take part.
    * The weights are the probabilities without ``select_b``. With ``gating`` "softmax_chosen" they
      are the softmax of the chosen logits alone. ``normalize`` divides them by their sum; then they
      are multiplied by ``scale``.
    * ``fold`` f > 1: f neighbours of the E share a network, weighed by the probability at the
      network's own number (GroveMoE, 2025).
    """

    n_used: int
    gating: str = "softmax"
    normalize: bool = False
    scale: float = 1.0
    n_groups: int = 1
    n_groups_used: int = 1
    fold: int = 1

    @classmethod
    def of(cls, node: Node) -> Routing:
        """The routing that the attributes of ``node`` describe."""
        given = {name: node.attrs[name] for name in cls.__slots__ if name in node.attrs}
        routing = cls(**given)  # type: ignore[arg-type]
        n_experts = node.weights["router"].shape[0]
        assert 1 <= routing.n_used <= n_experts and routing.gating in GATINGS, routing
        assert 1 <= routing.n_groups_used <= routing.n_groups, routing
        assert n_experts % routing.n_groups == n_experts % routing.fold == 0, routing
        assert routing.n_used <= n_experts // routing.n_groups * routing.n_groups_used, routing
        return routing

    def choose(self, logits: Array, select_b: Array | None, given: Array | None = None
               ) -> tuple[Array, Array]:
        """The experts chosen for ``logits`` [T, E], int [T, n_used], best first, and their weights,
        float64 [T, n_used]. The experts with the numbers ``given`` [T, m] are chosen before all
        others."""
        p = GATINGS[self.gating](logits)
        chosen = self.best(self.scores(p, select_b, given)) // self.fold
        picked = np.take_along_axis(p, chosen, axis=-1)
        if self.gating == "softmax_chosen":
            picked = _softmax(picked)
        if self.normalize:
            picked = picked / np.maximum(picked.sum(axis=-1, keepdims=True), LEAST_SUM)
        return chosen, picked * self.scale

    def scores(self, p: Array, select_b: Array | None, given: Array | None) -> Array:
        """By what the router's choices are compared: ``p`` [T, E], the numbers that the gating
        makes of its logits, with the bias; infinite for the choices ``given``."""
        score = np.asarray(p + (0.0 if select_b is None else select_b))
        if given is not None:
            first = np.clip(given, 0, p.shape[-1] - 1).astype(np.int64)
            np.put_along_axis(score, first, np.inf, axis=-1)
        return score

    def best(self, score: Array) -> Array:
        """The router's ``n_used`` choices of the largest scores [T, E], best first: int
        [T, n_used]."""
        if self.n_groups > 1:
            groups = score.reshape(len(score), self.n_groups, -1)
            worth = np.sort(groups, axis=-1)[..., -2:].sum(axis=-1)
            kept = np.argsort(-worth, axis=-1, kind="stable")[:, :self.n_groups_used]
            is_kept = np.zeros(worth.shape, bool)
            np.put_along_axis(is_kept, kept, True, axis=-1)
            score = np.where(is_kept[..., None], groups, -np.inf).reshape(score.shape)
        return np.argsort(-score, axis=-1, kind="stable")[:, :self.n_used]


def _softmax(logits: Array) -> Array:
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(p / p.sum(axis=-1, keepdims=True))


GATINGS: Mapping[str, Callable[[Array], Array]] = MappingProxyType({
    "softmax": _softmax,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softmax_chosen": lambda x: x,
    "sqrt_softplus": lambda x: np.sqrt(np.logaddexp(0, x))})
"""The functions, by name, that turn logits float64 [T, E] into the numbers experts are chosen
by."""
