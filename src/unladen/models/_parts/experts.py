"""Builds mixtures of experts, and the experts that every token shares, from a layer's tensors."""

from __future__ import annotations

import math
from typing import ClassVar, Protocol

from unladen.errors import GGUFError
from unladen.gguf import HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, Value, Weight
from unladen.models._parts.layers import n_columns
from unladen.models._parts.load import Tensors

GATINGS = ("", "softmax", "sigmoid", "softmax_chosen", "sqrt_softplus")
"""The gating functions by their number in ``expert_gating_func``; 0 means that none is given."""
DAMAGED = "the metadata is damaged: convert or fetch the file again"
"""Hint for impossible numbers in the metadata."""


class WithExperts(Protocol):
    """What of a model decides its mixtures.

    ``expert_gating``: one of :data:`GATINGS`, where the file names none. ``expert_normalize``: the
    weights of the chosen experts sum to 1, where the file doesn't say. ``weigh_input``: they are
    applied to what experts get. ``gated``: an expert is expected to have a gate.
    """

    hparams: HParams
    tensors: Tensors
    n_embd: int
    expert_gating: ClassVar[str]
    expert_normalize: ClassVar[bool]
    weigh_input: ClassVar[bool]
    gated: ClassVar[bool]

    def name(self, g: GraphBuilder, part: str) -> str:
        """GGUF's name of ``part`` in the layer being built."""

    def unit_attrs(self, g: GraphBuilder) -> dict[str, Attr]:
        """Attributes of the hidden units of the layer being built."""

    def expert_size(self, g: GraphBuilder, suffix: str = "_exps") -> int:
        """Hidden units of each expert in the layer being built."""

    def dense(self, g: GraphBuilder, x: Value, n_ff: int, suffix: str = "") -> Value:
        """A feed-forward network of ``n_ff`` hidden units; ``suffix`` of its tensors' names."""


def mixture(model: WithExperts, g: GraphBuilder, x: Value, seen: Value | None = None, *,
            given: Value | None = None, suffix: str = "_exps", fold: int = 1) -> Value:
    """The output of the experts for x f32 [T, n_embd].

    ``seen``: the router's input, by default x. ``given`` f32 [T, n_used]: experts that are chosen
    before others. ``suffix``: the end of the experts' tensor names. ``fold``: how many of the
    router's choices share one expert. Raises :class:`GGUFError` for impossible numbers.
    """
    n_choices = model.hparams.int("expert_count", minimum=1)
    if fold < 1 or n_choices % fold:
        raise GGUFError(f"{n_choices} experts in groups of {fold}", path=model.hparams.path,
                        hint=DAMAGED)
    attrs = routing_attrs(model.hparams, model.expert_gating, model.expert_normalize, n_choices)
    attrs |= model.unit_attrs(g) | ({"weigh_input": True} if model.weigh_input else {})
    if fold > 1:
        n_used = min(n_choices // fold, model.hparams.int("expert_used_count", minimum=1))
        attrs |= {"fold": fold, "n_used": n_used}
    seen = x if seen is None else seen
    t, name = model.tensors, model.name(g, "ffn_gate_inp")
    weights = {"router": t.weight(f"{name}.weight", n_choices, n_columns(seen)),
               **_matrices(model, g, n_choices // fold, suffix)}
    # Some converters leave out the suffix of the bias.
    for role, bias in (("router_b", f"{name}.bias"), ("select_b", model.name(g, "exp_probs_b")),
                       ("select_b", model.name(g, "exp_probs_b.bias"))):
        if bias in t:
            weights[role] = t.weight(bias, n_choices)
    inputs = (x,) if seen is x else (x, seen)
    if given is not None:
        inputs, attrs = (*inputs, given), {**attrs, "given": True}
    return g.one("moe", *inputs, name=f"ffn{suffix}", weights=weights, attrs=attrs)


def routing_attrs(hp: HParams, gating: str, normalize: bool, n_experts: int) -> dict[str, Attr]:
    """Attributes of a ``moe`` node from the ``expert_*`` keys; raises :class:`GGUFError`."""
    number = hp.int("expert_gating_func", 0)
    if number >= len(GATINGS):
        raise GGUFError(f"the experts' gating function {number} isn't known", path=hp.path,
                        hint=f"known: 1 to {len(GATINGS) - 1}")
    n_used = hp.int("expert_used_count", minimum=1)
    n_groups = hp.int("expert_group_count", 0) or 1
    n_groups_used = hp.int("expert_group_used_count", 0) or n_groups
    if (n_used > n_experts or n_experts % n_groups or n_groups_used > n_groups
            or n_used > n_experts // n_groups * n_groups_used):
        raise GGUFError(f"{n_used} of {n_experts} experts, from {n_groups_used} of {n_groups} "
                        "groups, are to be used", path=hp.path, hint=DAMAGED)
    attrs: dict[str, Attr] = {
        "n_used": n_used, "gating": GATINGS[number] or gating,
        "normalize": hp.bool("expert_weights_norm", normalize),
        "scale": hp.float("expert_weights_scale", 0.0) or 1.0}
    if n_groups_used < n_groups:
        attrs |= {"n_groups": n_groups, "n_groups_used": n_groups_used}
    return attrs


def _matrices(model: WithExperts, g: GraphBuilder, n_experts: int, suffix: str
              ) -> dict[str, Weight]:
    t, n = model.tensors, model.n_embd
    n_ff = model.expert_size(g, suffix)
    shapes = {"gate": (n_experts, n_ff, n), "up": (n_experts, n_ff, n),
              "down": (n_experts, n, n_ff)}
    names = {role: model.name(g, f"ffn_{role}{suffix}") for role in (*shapes, "gate_up")}
    weights: dict[str, Weight] = {}
    if f"{names['gate_up']}.weight" in t:
        weights["gate_up"] = t.weight(f"{names['gate_up']}.weight", n_experts, 2 * n_ff, n)
        del shapes["gate"], shapes["up"]
    elif not model.gated and f"{names['gate']}.weight" not in t:
        del shapes["gate"]
    for role, shape in shapes.items():
        weights[role] = t.weight(f"{names[role]}.weight", *shape)
        bias = t.optional(f"{names[role]}.bias", *shape[:2])
        if bias is not None:
            weights[f"{role}_b"] = bias
    scale = t.optional(f"{names['down']}.scale", n_experts)
    return weights if scale is None else {**weights, "down_scale": scale}


def shared(model: WithExperts, g: GraphBuilder, x: Value) -> Value | None:
    """The output of the experts that every token shares, if the layer has them; times the sigmoid
    of a gate where the file has one."""
    t, name = model.tensors, model.name(g, "ffn_down_shexp.weight")
    if name not in t:
        return None
    y = model.dense(g, x, t.shape(name)[-1], "_shexp")
    if model.name(g, "ffn_gate_inp_shexp.weight") not in t:
        return y
    row = t.stacked(model.name(g, "ffn_gate_inp_shexp.weight"), 1, model.n_embd)
    (gate,) = g.add("linear", (x,), name="ffn_gate_shexp", weights={"w0": row})
    return g.one("glu", gate, y, name="ffn_gated_shexp", attrs={"act": "sigmoid"})


def silu_limit_attrs(hp: HParams, limit: float) -> dict[str, Attr]:
    """:func:`limit_attrs` where ``limit`` clamps the silu of the gate: the gate itself is clamped
    at the number whose silu is ``limit``."""
    attrs = limit_attrs(hp, limit)
    if limit:
        low, high = limit, limit + 1  # silu(x) < x, and more than x - 0.28
        for _ in range(60):
            middle = (low + high) / 2
            below = middle / (1 + math.exp(-middle)) < limit
            low, high = (middle, high) if below else (low, middle)
        attrs["gate_limit"] = high
    return attrs


def limit_attrs(hp: HParams, limit: float) -> dict[str, Attr]:
    """Attributes of hidden units that are clamped at ``limit``; 0: they aren't. Raises
    :class:`GGUFError`."""
    if not 0 <= limit < math.inf:
        raise GGUFError(f"hidden units are clamped at {limit}", path=hp.path, hint=DAMAGED)
    return {"limit": limit} if limit else {}
