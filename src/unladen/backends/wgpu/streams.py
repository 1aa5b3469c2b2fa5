"""Residual streams, and rows of the cache that stand for groups of tokens, to dispatches."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from unladen.backends.wgpu.attend import cache_of
from unladen.backends.wgpu.gpu import Range
from unladen.backends.wgpu.lower import Lower, Lowering, n_cols, row_bytes, whole
from unladen.backends.wgpu.memory import of_gpu
from unladen.backends.wgpu.recurrent import scan
from unladen.graph.graph import Node
from unladen.graph.ops.hyper_mix import stream_counts
from unladen.graph.ops.hyper_weights import Sizes
from unladen.graph.ops.pool_tokens import pool_sizes

THREADS = 128


def hyper_weights(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.hyper_weights.HyperWeights`."""
    (x,), (y, *spread), sizes = node.inputs, node.outputs, Sizes.of(node)
    ranges: dict[str, Range | int] = {
        "params": low.params(node.int_attr("n_rounds"), node.float_attr("eps"),
                             node.float_attr("magnitude"), node.float_attr("out_eps")),
        "x": low.value(x), "y": low.value(y),
        **{role: low.vector(node, role) for role in node.weights}}
    if spread:
        ranges["spread"] = low.value(spread[0])
    low.elements("hyper_weights", y, ranges, {
        "N": sizes.n, "M": n_cols(x), "SPREADS": sizes.spreads, "MIXES": sizes.mixes}, cols=1)


def hyper_mix(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.hyper_mix.HyperMix`: one dispatch for each input."""
    *xs, w = node.inputs
    (y,), width, first = node.outputs, node.int_attr("width"), 0
    for x in xs:
        count = n_cols(x) // width
        low.elements("hyper_mix", y, {
            "params": low.params(width, *stream_counts(node), first, count), "x": low.value(x),
            "w": low.value(w), "y": low.value(y)}, {"FURTHER": first > 0})
        first += count


def pool_tokens(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.pool_tokens.PoolTokens`."""
    x, scores, _ = node.inputs
    sizes = pool_sizes(node)
    scan(low, node, sizes[-1], {
        "params": low.params(*sizes), "x": low.value(x), "scores": low.value(scores),
        "place": low.vector(node, "place")})


def pooled_attention(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.pooled_attention.PooledAttention`."""
    (q,), (y,), n_heads, placed = node.inputs, node.outputs, node.int_attr("n_heads"), cache_of(
        low, node)
    spec, layout = placed.spec, placed.layout
    ranges: dict[str, Range | int] = {
        "params": low.params(n_heads, layout.block_tokens, row_bytes(layout.k_type, spec.k_dim),
                             row_bytes(layout.v_type, spec.v_dim), node.int_attr("window"),
                             node.int_attr("ratio"), node.float_attr("scale")),
        "keys": whole(of_gpu(placed.k)), "values": whole(of_gpu(placed.v)),
        "q": low.value(q), "y": low.value(y),
        **{role: low.vector(node, role) for role in node.weights}}
    low.one_each("pooled_attention", y, n_heads, ranges, {
        "WG": THREADS, "KD": spec.k_dim, "SINKS": "sinks" in node.weights,
        f"K_{layout.k_type}": True, f"V_{layout.v_type}": True})


STREAMS: Mapping[str, Lower] = MappingProxyType({
    "hyper_weights": hyper_weights, "hyper_mix": hyper_mix, "pool_tokens": pool_tokens,
    "pooled_attention": pooled_attention})
"""By op."""
