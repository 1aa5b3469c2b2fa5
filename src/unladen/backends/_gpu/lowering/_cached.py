"""Products of few rows that rotate queries and keys, and store keys and values in the cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unladen.backends._gpu.dispatch import Ranges
from unladen.backends._gpu.joining import Written
from unladen.backends._gpu.lowering._matrix import Matrix
from unladen.backends._gpu.lowering.base import Lowering, n_cols, numbers, row_bytes
from unladen.backends._gpu.lowering.kv_write import CACHE_TYPES
from unladen.backends._gpu.memory import of_gpu
from unladen.backends._gpu.target import Constants, Range
from unladen.graph.graph import Node
from unladen.graph.ops.rope import first_rotated

FORMATS = frozenset({"F32", "F16"})
"""Formats of the cache whose numbers a product stores two at a time. Other formats have blocks,
which need more rows than a workgroup of a product has."""
MOST_BINDINGS = 14
"""How many ranges such a product binds at most, with the step's words: those of three weights and
the table of rotations."""


def cached(low: Lowering, node: Node, pieces: Iterable[Sequence[Matrix]], most: int
           ) -> Written | None:
    """The nodes that the products of ``node`` with up to ``most`` rows replace, if they can.
    ``pieces``: the matrices of each of its weights."""
    each = low.written.get(node)
    if each is None or low.target.max_storage_buffers < MOST_BINDINGS:
        return None
    layout = low.cache(each.write).layout
    matrices = [m for found in pieces for m in found]
    in_tiles = any(m.in_tiles for m in matrices)
    if (not {layout.k_type, layout.v_type} <= FORMATS or len(matrices) != len(node.outputs)
            or (in_tiles and "mma" not in low.features)
            or not (each.rope is None or _fits(each.rope, in_tiles=in_tiles))):
        return None
    low.done_for_few[each.write] = most
    return each


def _fits(rope: Node, *, in_tiles: bool) -> bool:
    """Whether a workgroup has both rows of each pair that is rotated."""
    first, n_rot = first_rotated(rope), n_cols(rope.inputs[-1])
    if rope.attrs["style"] == "neox":
        return not in_tiles and first % 4 == 0 and n_rot % 4 == 0
    return first % 2 == 0


def bindings(low: Lowering, each: Written, outputs: Sequence[int]) -> tuple[Ranges, Constants]:
    """The bindings and constants of a dispatch that makes ``outputs``, the numbers of results of
    the product, besides those for its weights."""
    node, rope = each.product, each.rope
    placed = low.cache(each.write)
    spec, layout = placed.spec, placed.layout
    role = {node.outputs[i]: at for at, i in enumerate(outputs, 1)}
    keys, values = role.pop(each.keys, 0), role.pop(each.values, 0)
    queries = next(iter(role.values()), 0)
    is_turned = rope is not None and bool(queries or keys)
    fields = [spec.n_kv_heads, row_bytes(layout.k_type, spec.k_dim),
              row_bytes(layout.v_type, spec.v_dim)]
    ranges: dict[str, Range | bytes] = {}
    if rope is not None and is_turned:
        table = rope.inputs[-1]
        fields += [n_cols(table), int(rope.attrs["style"] == "neox"), first_rotated(rope)]
        ranges["table"] = low.value(table)
    if queries:
        (query,) = role
        ranges["y"] = low.value(query if rope is None else rope.outputs[0])
    if keys:
        ranges["keys"] = of_gpu(placed.k).whole()
    if values:
        ranges["values"] = of_gpu(placed.v).whole()
    ranges["params"] = numbers(*fields)
    return ranges, {
        "CACHED": True, "TURNED": is_turned, "QUERIES": queries, "KEYS": keys, "VALUES": values,
        "K_NUMBERS": spec.k_dim, "V_NUMBERS": spec.v_dim, "BLOCK_TOKENS": layout.block_tokens,
        "K_TYPE": CACHE_TYPES[layout.k_type], "V_TYPE": CACHE_TYPES[layout.v_type],
        "FIRST_COLUMN": layout.first_column}
