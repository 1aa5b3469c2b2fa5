"""Nodes with recurrent state, and what stands around them, to dispatches."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from unladen.backends.wgpu.gpu import Range
from unladen.backends.wgpu.lower import (
    NO_CONSTANTS,
    Lower,
    Lowering,
    activation_flag,
    n_cols,
    threads_for,
    whole,
)
from unladen.backends.wgpu.memory import of_gpu
from unladen.backends.wgpu.program import Groups, Size
from unladen.backends.wgpu.source import Constants
from unladen.graph.graph import Node
from unladen.graph.ops import ssm_scan as ssm
from unladen.graph.ops.linear_attention import Shapes

THREADS = 64


def scan(low: Lowering, node: Node, n_threads: int, ranges: Mapping[str, Range | int],
          constants: Constants = NO_CONSTANTS) -> None:
    """A kernel of the op's name, with so many threads for each sequence; those beyond the step's
    sequences, of which there are no more than tokens, find nothing to do."""
    n_groups, most = -(-n_threads // THREADS), low.segment.limits.n_seqs

    def grid(size: Size) -> Groups | None:
        return (n_groups, min(size.n_tokens, most), 1) if size.n_tokens else None

    low.emit(node.op, grid, {**ranges, "slots": whole(of_gpu(low.segment.slots[node.name])),
                             "y": low.value(node.outputs[0])}, constants)


def token_shift(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.token_shift.TokenShift`."""
    n = n_cols(node.inputs[0])
    scan(low, node, n, {"params": low.params(n), "x": low.value(node.inputs[0])})


def conv1d(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.conv1d.Conv1d`."""
    n_channels, n_taps = node.weights["w"].shape
    scan(low, node, n_channels, {
        "params": low.params(n_channels, n_taps), "x": low.value(node.inputs[0]),
        **{role: low.vector(node, role) for role in node.weights}},
        {"BIAS": "b" in node.weights, **activation_flag(node.attrs["act"])})


def ssm_scan(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.ssm_scan.SsmScan`."""
    n_heads, n_channels, n_state = ssm.sizes(node)
    values = dict(zip(("x", "dt", "b", "c"), map(low.value, node.inputs), strict=True))
    scan(low, node, n_heads * n_channels, {
        "params": low.params(n_heads, n_channels, n_state, node.int_attr("n_groups"),
                             node.weights["a"].shape[1]),
        **values, "a": low.vector(node, "a"), "d": low.vector(node, "d")})


def linear_attention(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.linear_attention.LinearAttention`."""
    s, fixed = Shapes.of(node), node.attrs.get("decay", ())
    assert isinstance(fixed, tuple)
    names = ["q", "k", "v"] + ["g"] * (not fixed) + ["beta"] * bool(node.attrs["delta"])
    values = dict(zip(names, map(low.value, node.inputs), strict=True))
    if fixed:
        values["decay"] = low.numbers(np.exp(fixed))
    per_row = not fixed and n_cols(node.inputs[3]) > s.n_heads
    scan(low, node, s.n_heads * s.v_dim, {
        "params": low.params(s.n_heads, s.n_k_heads, s.k_dim, s.v_dim, int(bool(
            node.attrs["tiled"])), int(per_row), node.float_attr("scale")),
        **values, **{role: low.vector(node, role) for role in node.weights}},
        {"DELTA": "beta" in values, "FIRST": "first" in node.weights, "FIXED": bool(fixed)})


def rwkv_mix(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.rwkv_mix.RwkvMix`."""
    n, n_heads = n_cols(node.inputs[0]), node.int_attr("n_heads")
    values = dict(zip("rgkvab", map(low.value, node.inputs), strict=True))
    scan(low, node, n, {"params": low.params(n_heads, n // n_heads), **values})


def l2_norm(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.l2_norm.L2Norm`."""
    (x,), (y,), dim = node.inputs, node.outputs, node.int_attr("head_dim")
    low.one_each("l2_norm", y, n_cols(y) // dim, {
        "params": low.params(n_cols(y), dim, node.float_attr("eps")), "x": low.value(x),
        "y": low.value(y)}, {"WG": threads_for(dim)})


def head_sum(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.head_sum.HeadSum`."""
    (x,), (y,) = node.inputs, node.outputs
    low.elements("head_sum", y, {"params": low.params(n_cols(y), node.int_attr("head_dim")),
                                 "x": low.value(x), "y": low.value(y)})


RECURRENT: Mapping[str, Lower] = MappingProxyType({
    "token_shift": token_shift, "conv1d": conv1d, "ssm_scan": ssm_scan,
    "linear_attention": linear_attention, "rwkv_mix": rwkv_mix, "l2_norm": l2_norm,
    "head_sum": head_sum})
"""By op."""
