"""Nodes to native operations: one small function per op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from unladen._native import cpu as native
from unladen.backends._host import host
from unladen.backends.base import Segment
from unladen.backends.cpu.joining import joined
from unladen.graph.graph import Node, Value
from unladen.graph.ops import get_op, linear_attention, ssm_scan
from unladen.graph.ops.attention import Scoring
from unladen.graph.ops.columns import column_attrs
from unladen.graph.ops.concat import head_count, head_parts
from unladen.graph.ops.gated import GatedUnit
from unladen.graph.ops.head_linear import head_width
from unladen.graph.ops.hyper_mix import stream_counts
from unladen.graph.ops.hyper_weights import Sizes
from unladen.graph.ops.linear import n_weights
from unladen.graph.ops.moe import first_expert, has_gate, n_held, seen_by_router, weighs_input
from unladen.graph.ops.norm_groups import group_of
from unladen.graph.ops.pool_tokens import pool_sizes
from unladen.graph.ops.rope import first_rotated, positions_back
from unladen.graph.ops.routing import Routing
from unladen.quants import get
from unladen.types import Limits

Matrix = tuple[int, str, int, int, int]
"""Address, type, rows, columns, address of the bias or 0."""


def _address(array: npt.NDArray[np.int32]) -> int:
    return int(array.ctypes.data)


class Addresses:
    """Where a segment's values, weights and caches lie in this process."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        # What has its room in the arena accordingly, whatever would be decided now.
        stored = segment.stored
        self.chosen_from = {n.inputs[0] for n in segment.nodes if n.op == "argmax"}
        self.joined = joined(segment.nodes, frozenset(stored), lambda n: stored.get(n.inputs[0]))
        self._arena = host(segment.arena).address
        self.scratch = self._arena + segment.scratch[0]

    def __call__(self, value: Value) -> int:
        """The address of ``value``: in the arena, or of the batch's array."""
        name = self.segment.batch_inputs.get(value)
        if name is not None:
            return _address(getattr(self.segment.batch, name))
        return self._arena + self.segment.offsets[value]

    def weight(self, node: Node, role: str) -> int:
        """The address of the weight in ``role``, 0 where the node has none."""
        if role not in node.weights:
            return 0
        placed = self.segment.weights[node.weights[role].name]
        return host(placed.buffer).address + placed.offset

    def matrix(self, node: Node, role: str, bias: str = "") -> Matrix:
        """The weight in ``role`` as rows of its last dimension, with the bias in role ``bias``."""
        weight = node.weights[role]
        n_cols = weight.shape[-1]
        quant = self.segment.weights[weight.name].quant
        return (self.weight(node, role), quant, weight.n_elements // n_cols, n_cols,
                self.weight(node, bias))

    def kv(self, node: Node) -> tuple[int, int, str, str, int, int, int, int]:
        """The cache of the node's layer."""
        assert node.state is not None
        placed = self.segment.kv[node.state.layer]
        spec, layout = placed.spec, placed.layout
        types = layout.k_type.lower(), layout.v_type.lower()
        return (host(placed.k).address, host(placed.v).address, *types, spec.n_kv_heads,
                spec.k_dim, spec.v_dim, layout.block_tokens)


    def slots(self, node: Node) -> tuple[int, int]:
        """The recurrent state of ``node``: address, and floats of a slot."""
        return (host(self.segment.slots[node.name]).address, get_op(node.op).state_size(node))


Lowering = Callable[[native.Program, Node, Addresses], None]


def _rows(value: Value) -> str:
    assert isinstance(value.shape[0], str), value
    return value.shape[0]


def _cols(value: Value) -> int:
    assert len(value.shape) == 2 and isinstance(value.shape[1], int), value
    return value.shape[1]


def _embed(p: native.Program, node: Node, at: Addresses) -> None:
    (ids,), (y,) = node.inputs, node.outputs
    p.embed(at.matrix(node, "w"), at(ids), _rows(y), at(y))


def _select_rows(p: native.Program, node: Node, at: Addresses) -> None:
    x, which = node.inputs
    p.select_rows(at(x), _cols(x), at(which), at(node.outputs[0]))


def _norm_weights(node: Node, at: Addresses) -> tuple[int, int, int]:
    size = next((w.n_elements for w in node.weights.values()), 0)
    return at.weight(node, "w"), at.weight(node, "b"), size


def _rms_norm(p: native.Program, node: Node, at: Addresses) -> None:
    (x,), (y,) = node.inputs, node.outputs
    if y in at.joined.norms:
        return
    p.rms_norm(at(x), _norm_weights(node, at), at(y), _rows(x), _cols(x), group_of(node),
               node.float_attr("eps"))


def _layer_norm(p: native.Program, node: Node, at: Addresses) -> None:
    (x,), (y,) = node.inputs, node.outputs
    p.layer_norm(at(x), _norm_weights(node, at), at(y), _rows(x), _cols(x), group_of(node),
                 node.float_attr("eps"))


def _rope_table(p: native.Program, node: Node, at: Addresses) -> None:
    freqs = node.attrs["freqs"]
    assert isinstance(freqs, tuple)
    p.rope_table(list(freqs), node.float_attr("magnitude"), positions_back(node),
                 at(node.outputs[0]))


def _rope(p: native.Program, node: Node, at: Addresses) -> None:
    *xs, table = node.inputs
    head_dim = node.int_attr("head_dim")
    for x, y in zip(xs, node.outputs, strict=True):
        p.rope(at(x), at(table), at(y), _cols(x) // head_dim, head_dim, first_rotated(node),
               _cols(table), node.attrs["style"] == "neox")


def _position_scale(p: native.Program, node: Node, at: Addresses) -> None:
    p.position_scale(node.float_attr("scale"), node.int_attr("length"), node.int_attr("offset"),
                     at(node.outputs[0]))


def _argmax(p: native.Program, node: Node, at: Addresses) -> None:
    (x,), (y,) = node.inputs, node.outputs
    p.argmax(at(x), _cols(x), at(y))


def _add(p: native.Program, node: Node, at: Addresses) -> None:
    a, (y,) = node.inputs[0], node.outputs
    b = at.weight(node, "b") or at(node.inputs[1])
    p.add(at(a), b, "b" in node.weights, at(y), _rows(y), _cols(y))


def _scale(p: native.Program, node: Node, at: Addresses) -> None:
    (x,), (y,) = node.inputs, node.outputs
    size = node.weights["w"].n_elements if "w" in node.weights else 0
    p.scale(at(x), node.float_attr("s"), at.weight(node, "w"), size,
            bool(node.attrs.get("divide")), at(y), _rows(y), _cols(y))


def _clamp(p: native.Program, node: Node, at: Addresses) -> None:
    (x,), (y,) = node.inputs, node.outputs
    p.clamp(at(x), node.float_attr("limit"), at(y), _rows(y), _cols(y))


def _softcap(p: native.Program, node: Node, at: Addresses) -> None:
    (x,), (y,) = node.inputs, node.outputs
    p.softcap(at(x), node.float_attr("cap"), at(y), _rows(y), _cols(y))


def _columns(p: native.Program, node: Node, at: Addresses) -> None:
    (x,), (y,) = node.inputs, node.outputs
    p.columns(at(x), *column_attrs(node), at(y), _rows(y), _cols(x))


def _activation(p: native.Program, node: Node, at: Addresses) -> None:
    (x,), (y,) = node.inputs, node.outputs
    p.activation(at(x), str(node.attrs["act"]), at(y), _rows(y), _cols(y))


def _glu(p: native.Program, node: Node, at: Addresses) -> None:
    (gate, up), (y,) = node.inputs, node.outputs
    p.glu(at(gate), _cols(gate), at(up), _unit(node), at(y), _rows(y), _cols(y))


def _unit(node: Node) -> tuple[str, float, float, float]:
    unit = GatedUnit.of(node)
    return unit.act, unit.limit, unit.up_offset, unit.gate_cut


def _concat(p: native.Program, node: Node, at: Addresses) -> None:
    (y,) = node.outputs
    parts = [(at(x), *part) for x, part in zip(node.inputs, head_parts(node), strict=True)]
    p.concat(parts, head_count(node), at(y), _rows(y))


def _kv_write(p: native.Program, node: Node, at: Addresses) -> None:
    k, v = node.inputs
    p.kv_write(at.kv(node), at(k), at(v))


def _attention(p: native.Program, node: Node, at: Addresses) -> None:
    scoring, n_heads = Scoring.of(node), node.int_attr("n_heads")
    slopes = scoring.slopes(n_heads).tolist() if scoring.alibi else []
    p.attention(at.kv(node), at(node.inputs[0]), at(node.outputs[0]), n_heads,
                (scoring.causal, scoring.window, scoring.window_kind), scoring.scale,
                scoring.softcap, slopes, at.weight(node, "sinks"))


def _linear(p: native.Program, node: Node, at: Addresses) -> None:
    x, y = node.inputs[0], node.outputs[0]
    norm, reader = at.joined.norms.get(x), at.joined.readers.get(y)
    matrices = [at.matrix(node, f"w{i}", f"b{i}") for i in range(n_weights(node))]
    act = node.attrs.get("act")
    residual = at(node.inputs[1]) if "residual" in node.attrs else 0
    p.linear(matrices, at(norm.inputs[0] if norm else x), x in at.joined.readers,
             (at.weight(norm, "w"), norm.float_attr("eps")) if norm else None, at.scratch,
             [at(y) for y in node.outputs], None if act is None else str(act), residual, _rows(x),
             (at.matrix(reader, "w0")[1], at.segment.stored[y]) if reader else None,
             y in at.chosen_from and len(matrices) == 1 and act is None and not residual)


def _head_linear(p: native.Program, node: Node, at: Addresses) -> None:
    (x,), (y,) = node.inputs, node.outputs
    p.head_linear(at.matrix(node, "w"), node.weights["w"].shape[0], head_width(node), at(x), at(y),
                  _rows(x), at.scratch)


def _moe(p: native.Program, node: Node, at: Addresses) -> None:
    (y,), given = node.outputs, bool(node.attrs.get("given"))
    p.moe(_expert_matrices(node, at.matrix), _experts(node),
          ("gate_up" in node.weights, weighs_input(node)),
          _routing(node, at.weight(node, "router_b"), at.weight(node, "select_b")), _unit(node),
          at.weight(node, "down_scale"), at(node.inputs[0]), at(node.inputs[seen_by_router(node)]),
          at(node.inputs[-1]) if given else 0, at(y), _rows(y), at.scratch)


def _experts(node: Node) -> tuple[int, int, int]:
    return node.weights["router"].shape[0], first_expert(node), n_held(node)


def _routing(node: Node, router_b: int = 0, select_b: int = 0
             ) -> tuple[int, str, bool, float, int, int, int, int, int]:
    r = Routing.of(node)
    return (r.n_used, r.gating, r.normalize, r.scale, r.n_groups, r.n_groups_used, r.fold,
            router_b, select_b)


def _expert_matrices(node: Node, matrix: Callable[[Node, str, str], Matrix]) -> list[Matrix]:
    """Router, gate, up and down; no rows: there is none."""
    if "gate_up" in node.weights:
        gate = matrix(node, "gate_up", "gate_b")
        address, quant, n_rows, n_cols, bias = matrix(node, "gate_up", "up_b")
        address += node.weights["down"].shape[-1] * get(quant).row_bytes(n_cols)
        up = address, quant, n_rows, n_cols, bias
    else:
        gate = matrix(node, "gate", "gate_b") if has_gate(node) else (0, "", 0, 0, 0)
        up = matrix(node, "up", "up_b")
    return [matrix(node, "router", ""), gate, up, matrix(node, "down", "down_b")]


def _head_sum(p: native.Program, node: Node, at: Addresses) -> None:
    (x,), (y,) = node.inputs, node.outputs
    p.head_sum(at(x), at(y), _rows(x), _cols(x), node.int_attr("head_dim"))


def _l2_norm(p: native.Program, node: Node, at: Addresses) -> None:
    (x,), (y,) = node.inputs, node.outputs
    p.l2_norm(at(x), at(y), _rows(x), _cols(x), node.int_attr("head_dim"), node.float_attr("eps"))


def _token_shift(p: native.Program, node: Node, at: Addresses) -> None:
    p.token_shift(at.slots(node), at(node.inputs[0]), at(node.outputs[0]))


def _conv1d(p: native.Program, node: Node, at: Addresses) -> None:
    n_channels, n_taps = node.weights["w"].shape
    p.conv1d(at.slots(node), at(node.inputs[0]), at.weight(node, "w"), at.weight(node, "b"),
             at(node.outputs[0]), n_channels, n_taps, str(node.attrs["act"]))


def _ssm_scan(p: native.Program, node: Node, at: Addresses) -> None:
    x, dt, b, c = map(at, node.inputs)
    p.ssm_scan(at.slots(node), x, dt, b, c, at.weight(node, "a"), at.weight(node, "d"),
               at(node.outputs[0]), *ssm_scan.sizes(node), node.int_attr("n_groups"),
               node.weights["a"].shape[1])


def _linear_attention(p: native.Program, node: Node, at: Addresses) -> None:
    shapes, decay = linear_attention.Shapes.of(node), node.attrs.get("decay", ())
    assert isinstance(decay, tuple)
    q, k, v, *rest = map(at, node.inputs)
    g = 0 if decay else rest.pop(0)
    g_per_row = not decay and _cols(node.inputs[3]) > shapes.n_heads
    p.linear_attention(at.slots(node), q, k, v, g, rest.pop(0) if rest else 0,
                       at.weight(node, "first"), at(node.outputs[0]),
                       (shapes.n_heads, shapes.n_k_heads, shapes.k_dim, shapes.v_dim), g_per_row,
                       decay, bool(node.attrs["tiled"]), node.float_attr("scale"))


def _rwkv_mix(p: native.Program, node: Node, at: Addresses) -> None:
    n_heads = node.int_attr("n_heads")
    p.rwkv_mix(at.slots(node), list(map(at, node.inputs)), at(node.outputs[0]), n_heads,
               _cols(node.inputs[0]) // n_heads)


def _hyper_weights(p: native.Program, node: Node, at: Addresses) -> None:
    (x,), sizes = node.inputs, Sizes.of(node)
    into, *spread = map(at, node.outputs)
    p.hyper_weights(at(x), at.weight(node, "scale"), at.weight(node, "base"), into,
                     spread[0] if spread else 0, _rows(x),
                     (sizes.n, node.int_attr("n_rounds"), sizes.mixes, node.float_attr("eps"),
                      node.float_attr("magnitude"), node.float_attr("out_eps")))


def _hyper_mix(p: native.Program, node: Node, at: Addresses) -> None:
    *xs, w = node.inputs
    width = node.int_attr("width")
    p.hyper_mix([(at(x), _cols(x) // width) for x in xs], at(w), at(node.outputs[0]), _rows(w),
                  width, stream_counts(node)[1])


def _pool_tokens(p: native.Program, node: Node, at: Addresses) -> None:
    x, scores, _ = node.inputs
    p.pool_tokens(at.slots(node), at(x), at(scores), at.weight(node, "place"), at(node.outputs[0]),
                  *pool_sizes(node))


def _pooled_attention(p: native.Program, node: Node, at: Addresses) -> None:
    p.pooled_attention(at.kv(node), at(node.inputs[0]), at(node.outputs[0]),
                       node.int_attr("n_heads"), node.int_attr("window"), node.int_attr("ratio"),
                       node.float_attr("scale"), at.weight(node, "sinks"))


LOWERINGS: Mapping[str, Lowering] = MappingProxyType({
    "embed": _embed, "select_rows": _select_rows, "rms_norm": _rms_norm,
    "layer_norm": _layer_norm, "rope_table": _rope_table, "rope": _rope, "add": _add,
    "scale": _scale, "clamp": _clamp, "softcap": _softcap, "columns": _columns,
    "activation": _activation, "glu": _glu, "concat": _concat,
    "kv_write": _kv_write, "attention": _attention, "linear": _linear, "moe": _moe,
    "head_linear": _head_linear, "position_scale": _position_scale,
    "head_sum": _head_sum, "l2_norm": _l2_norm, "token_shift": _token_shift,
    "conv1d": _conv1d, "ssm_scan": _ssm_scan, "linear_attention": _linear_attention,
    "rwkv_mix": _rwkv_mix, "hyper_weights": _hyper_weights, "hyper_mix": _hyper_mix,
    "pool_tokens": _pool_tokens, "pooled_attention": _pooled_attention, "argmax": _argmax,
})
"""By op."""


def compile_segment(program: native.Program, segment: Segment) -> None:
    """Append every node of ``segment`` to ``program`` and bind it to the segment's batch."""
    at = Addresses(segment)
    b = segment.batch
    program.bind_batch(_address(b.positions), _address(b.seq_of), _address(b.q_start),
                       _address(b.kv_len), _address(b.block_table), b.block_table.shape[1],
                       _address(b.state_in), _address(b.state_out))
    for node in segment.nodes:
        LOWERINGS[node.op](program, node, at)


def scratch_bytes(node: Node, limits: Limits, level: str, quants: Mapping[str, str | None],
                  precise: bool) -> int:
    """Room for packed activations of the largest step; ``quants``: weight formats by role."""
    max_rows = max(limits.n_tokens, limits.n_outputs)
    if node.op == "linear":
        types = [str(quants[f"w{i}"]) for i in range(n_weights(node))]
        return native.packed_bytes(level, types, node.weights["w0"].shape[-1], max_rows, precise)
    if node.op == "head_linear":
        n_heads, _, n_cols = node.weights["w"].shape
        return native.head_linear_scratch_bytes(level, str(quants["w"]), n_heads, n_cols, max_rows,
                                                precise)
    if node.op == "moe":
        def matrix(node: Node, role: str, bias: str) -> Matrix:
            w = node.weights[role]
            return 0, str(quants[role]), w.n_elements // w.shape[-1], w.shape[-1], 0

        return native.moe_scratch_bytes(level, _expert_matrices(node, matrix), _experts(node),
                                        _routing(node), max_rows, precise)
    return 0
