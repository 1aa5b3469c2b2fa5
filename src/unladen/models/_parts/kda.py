"""Kimi Delta Attention (Kimi team 2025): a gated delta net with a decay for each channel."""

from __future__ import annotations

import math
from collections.abc import Callable

from unladen.errors import GGUFError
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, Value
from unladen.models._parts.delta_net import log_decay, state_decay, unit, with_dt
from unladen.models._parts.layers import Layers
from unladen.models._parts.mamba import convolved


def delta_attention(model: Layers, g: GraphBuilder, x: Value, n_heads: int,
                    log_decay: LogDecay = log_decay) -> Value:
    """The delta attention of x f32 [T, n_embd] with ``n_heads`` heads of ``kda.head_dim``, whose
    state decays by ``log_decay``; raises :class:`GGUFError`."""
    hp, t = model.hparams, model.tensors
    dim, n_taps = hp.int("kda.head_dim", minimum=1), hp.int("ssm.conv_kernel", minimum=2)
    n = n_heads * dim
    if n == 0:
        raise GGUFError("delta attention needs heads, got 0", path=hp.path,
                        hint="the metadata is damaged: convert or fetch the file again")
    q, k, v = (convolved(model, g, f"ssm_conv1d_{part}", n_taps, [value])[0]
               for part, value in zip("qkv", _projected(model, g, x, n), strict=True))
    q, k = unit(g, q, "q_unit", dim, model.eps), unit(g, k, "k_unit", dim, model.eps)
    decay = log_decay(model, g, _twice(model, g, x, "ssm_f", dim, n), n_heads)
    rows = t.stacked(model.name(g, "ssm_beta.weight"), n_heads, model.n_embd)
    (beta,) = g.add("linear", (x,), name="ssm_beta", weights={"w0": rows})
    beta = g.one("activation", beta, name="ssm_beta_sigmoid", attrs={"act": "sigmoid"})
    attrs: dict[str, Attr] = {"n_heads": n_heads, "n_k_heads": n_heads, "delta": True,
                              "tiled": False, "scale": dim ** -0.5}
    y = g.one("linear_attention", q, k, v, decay, beta, name="kda", attrs=attrs)
    norm = t.weight(model.name(g, "ssm_norm.weight"), dim)
    y = g.one("rms_norm", y, name="ssm_norm", weights={"w": norm}, attrs={"eps": model.eps})
    gate = _twice(model, g, x, "ssm_g", dim, n)
    y = g.one("glu", gate, y, name="ssm_gated", attrs={"act": "sigmoid"})
    return model.linear(g, y, {"attn_output": model.n_embd}, "attn_out")[0]


LogDecay = Callable[[Layers, GraphBuilder, Value, int], Value]
"""A function from alpha f32 [T, n_heads * dim] to the logarithm of the state's decay."""


def bounded_decay(sign: float) -> LogDecay:
    """``bound * sigmoid(sign * ssm_a * (alpha + ssm_dt))`` with the bound ``kda.gate_lower_bound``
    (Kimi K3, 2026)."""
    def decay(model: Layers, g: GraphBuilder, alpha: Value, n_heads: int) -> Value:
        bound = model.hparams.float("kda.gate_lower_bound")
        if not -math.inf < bound < 0:
            raise GGUFError(f"states decay by {bound}", path=model.hparams.path,
                            hint="the metadata is damaged: convert or fetch the file again")
        alpha = g.one("scale", with_dt(model, g, alpha), name="ssm_decay_scaled",
                      weights={"w": state_decay(model, g, n_heads)}, attrs={"s": sign})
        alpha = g.one("activation", alpha, name="ssm_decay_sigmoid", attrs={"act": "sigmoid"})
        return g.one("scale", alpha, name="ssm_decay", attrs={"s": bound})
    return decay


def _projected(model: Layers, g: GraphBuilder, x: Value, n: int) -> tuple[Value, ...]:
    # Biases of these matrices aren't part of the architecture, even if a file has them.
    names = ["attn_q", "attn_k", "attn_v"]
    weights = {f"w{i}": model.tensors.weight(model.name(g, f"{name}.weight"), n, model.n_embd)
               for i, name in enumerate(names)}
    return g.add("linear", (x,), name="attn_qkv", weights=weights)


def _twice(model: Layers, g: GraphBuilder, x: Value, part: str, dim: int, n: int) -> Value:
    """A product of low rank, by ``part``_a and then ``part``_b; of full rank where there is no _b.
    """
    if not model.has(g, f"{part}_b"):
        return model.linear(g, x, {f"{part}_a": n}, part)[0]
    n_hidden = model.tensors.shape(model.name(g, f"{part}_a.weight"))[0]
    (x,) = model.linear(g, x, {f"{part}_a": n_hidden}, f"{part}_a")
    return model.linear(g, x, {f"{part}_b": n}, f"{part}_b")[0]
