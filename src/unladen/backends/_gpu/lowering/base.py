"""The base class of an op's lowering, and the class that collects a segment's dispatches."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from unladen.backends._gpu.dispatch import Dispatch, Grid, Groups, Ranges, fold
from unladen.backends._gpu.joining import (
    attended,
    code_bytes,
    normed,
    turned,
    whole_bytes,
    written,
)
from unladen.backends._gpu.memory import of_gpu
from unladen.backends._gpu.step import KEYS_PER_SPLIT, TILE_TOKENS, RopeTable, Size
from unladen.backends._gpu.step_header import WORDS
from unladen.backends._gpu.target import FEWEST_BINDINGS, Constants, Range, Target
from unladen.backends.base import BackendOptions, Placed, PlacedKV, Segment
from unladen.graph.graph import Node, Value, Weight
from unladen.graph.ops import get_op
from unladen.quants import file_format, get
from unladen.types import Limits

NO_CONSTANTS: Constants = MappingProxyType({})
"""For kernels without constants."""
ANY = range(1, 1 << 31)
"""All numbers of rows with which a step has something to do."""
ELEMENT_THREADS = 256
"""Threads of a workgroup in kernels with a thread for each element."""


class OpLowering(ABC):
    """Turns nodes of one op into dispatches. Each file of this package has one subclass."""

    op: ClassVar[str]
    """The op's name."""
    kernels: ClassVar[frozenset[str]]
    """All kernels that nodes of the op may need. Backends whose family lacks one of them don't run
    the op."""
    features: ClassVar[frozenset[str]] = frozenset()
    """Hardware abilities that the kernels use on devices that have them; see :class:`Target`."""

    def supports(self, node: Node) -> bool:
        """Whether a node with these attributes can be lowered."""
        return True

    def n_bindings(self, node: Node) -> int:
        """How many ranges of memory a device must be able to bind at once to run ``node``, with the
        step's words and a codebook. Dispatches that bind more are only for devices that can."""
        return FEWEST_BINDINGS

    def reads_blocks(self, node: Node, weight: Weight) -> bool:
        """Whether kernels can read ``weight`` of ``node`` in a block format; otherwise it is
        F32."""
        return len(weight.shape) > 1 and get_op(node.op).takes_quants

    def reads_tiles(self, node: Node, weight: Weight) -> bool:
        """Whether kernels that use "mma" read ``weight`` in tiles (:mod:`unladen.quants.tiles`)."""
        return False

    def scratch_bytes(self, node: Node, limits: Limits, options: BackendOptions) -> int:
        """Bytes of the arena that ``node`` needs while it runs, besides its values."""
        return 0

    def mma_scratch_bytes(self, node: Node, limits: Limits, features: Set[str]) -> int:
        """Bytes that ``node`` needs in addition to that where kernels use ``features``, of which
        "mma" is one."""
        return 0

    def features_on(self, target: Target, formats: frozenset[str], options: BackendOptions
                    ) -> frozenset[str]:
        """The features that kernels on ``target`` use for nodes with weights in ``formats``."""
        if (self.op, formats) in target.forgone:
            return frozenset()
        used = self.features & target.features
        rounds = not options.precise and any(map(target.family.has_codes, formats))
        return used if rounds else used - {"int_dot"}

    def tile_tokens(self, node: Node, target: Target) -> int:
        """The most tokens of a tile of attention with which ``node`` runs on ``target``."""
        return TILE_TOKENS

    def trial_rows(self, node: Node, target: Target, features: Set[str]) -> Sequence[int]:
        """Numbers of tokens for which ``node`` has kernels of its own where kernels on ``target``
        use ``features``, besides one token and a few."""
        return ()

    @abstractmethod
    def lower(self, low: Lowering, node: Node) -> None:
        """Append the dispatches of ``node`` to ``low``."""


class Lowering:
    """Collects the dispatches of a segment. ``features``: hardware abilities that kernels of the
    current node may use. ``tables``: tables of RoPE to upload in every step. ``turned``,
    ``rounded``, ``attended``, ``written`` by product, and ``normed`` by write: see the functions of
    :mod:`unladen.backends._gpu.joining`. ``few_rounded``: those that are rounded in steps of few
    rows alone, and up to how many. ``done_for_few``: nodes that other nodes' dispatches replace in
    steps of few rows, and up to how many.
    ``tile_tokens``: the most tokens of a tile of attention. ``split_keys``: the keys of a
    workgroup's share in a decode step."""

    def __init__(self, target: Target, segment: Segment) -> None:
        self.target = target
        self.segment = segment
        self.features: frozenset[str] = frozenset()
        self.tables: list[RopeTable] = []
        self.dispatches: list[Dispatch] = []
        self.rounded = {n.outputs[0] for n in segment.nodes
                        if n.op == "rms_norm" and segment.stored.get(n.outputs[0])}
        inner = segment.stored.keys() | segment.passed
        self.attended = attended(segment.nodes, segment.stored.keys())
        self.few_rounded: dict[Value, int] = {}
        self.turned = turned(segment.nodes, inner)
        self.normed = {each.write: each for each in normed(segment.nodes, inner, target)}
        self.written = {each.product: each for each in written(segment.nodes, inner)}
        self.done_for_few: dict[Node, int] = {}
        self.tile_tokens = TILE_TOKENS
        self.split_keys = KEYS_PER_SPLIT
        self._arena = of_gpu(segment.arena)

    def add(self, how: OpLowering, node: Node) -> None:
        """Append the dispatches of ``node``, by its lowering ``how``."""
        self.features = self.features_of(how, node)
        how.lower(self, node)

    def features_of(self, how: OpLowering, node: Node) -> frozenset[str]:
        """The abilities that kernels of ``node`` may use, by its lowering ``how``."""
        formats = frozenset(file_format(self.placed(node, role).quant) for role in node.weights)
        return how.features_on(self.target, formats, self.segment.options)

    def value(self, value: Value) -> Range:
        """The range of ``value``, in the arena or in the step's words."""
        return self._arena.range(self.segment.offsets[value],
                                 4 * self.segment.limits.count(value.shape))

    def codes(self, value: Value) -> tuple[Range, Range]:
        """The ranges of ``value``, one of :attr:`rounded`, as int8, and of its scales and sums."""
        at, (codes, scales) = self.segment.offsets[value], code_bytes(value, self.segment.limits)
        return self._arena.range(at, codes), self._arena.range(at + codes, scales)

    def joined_codes(self, value: Value) -> tuple[Range, Range]:
        """Likewise for ``value``, one of :attr:`attended`, which also has a range as float32."""
        limits, (codes, scales) = self.segment.limits, code_bytes(value, self.segment.limits)
        at = self.segment.offsets[value] + whole_bytes(value, limits)
        return self._arena.range(at, codes), self._arena.range(at + codes, scales)

    def reads_tiles(self, node: Node) -> bool:
        """Whether a weight of ``node`` is in tiles."""
        placed = [self.placed(node, role) for role in node.weights]
        return any(file_format(each.quant) != each.quant for each in placed)

    def scratch(self, offset: int, nbytes: int) -> Range:
        """A range of the arena that a node may use while it runs."""
        return self._arena.range(self.segment.scratch[0] + offset, nbytes)

    def placed(self, node: Node, role: str) -> Placed:
        """The weight of ``node`` in ``role``, with its place in memory."""
        return self.segment.weights[node.weights[role].name]

    def vector(self, node: Node, role: str) -> Range:
        """The range of a weight that is a vector of float32."""
        placed = self.placed(node, role)
        assert placed.quant == "F32", placed
        return of_gpu(placed.buffer).range(placed.offset, 4 * placed.weight.n_elements)

    def cache(self, node: Node) -> PlacedKV:
        """The cache of the node's layer."""
        assert node.state is not None
        return self.segment.kv[node.state.layer]

    def constant(self, values: npt.ArrayLike) -> Range:
        """A new buffer with ``values`` as float32, which no step changes."""
        data = np.ascontiguousarray(values, np.float32).reshape(-1)
        return self.target.upload(data.view(np.uint8))

    def most(self, rows: str) -> int:
        """The most tokens ("T") or outputs ("S") of a step."""
        return self.segment.limits.bind("T" if rows == "T" else "S")

    def emit(self, kernel: str, grid: Grid, threads: int, ranges: Ranges,
             constants: Constants = NO_CONSTANTS, *, quant: str = "") -> None:
        """Append a dispatch.

        * ``kernel``: its name.
        * ``grid``: its workgroups in a step of some size.
        * ``threads``: threads of a workgroup.
        * ``ranges``: its bindings by name.
        * ``constants``: what its text is compiled for.
        * ``quant``: the format of its weights, "" for none.
        """
        has_codes = self.target.family.has_codes(quant)
        names = self.features if has_codes else self.features - {"int_dot"}
        names |= self.target.features & {"pdl"}  # each lets the next one begin, whatever its op
        flags = {name.upper(): True for name in names}
        self.dispatches.append(
            Dispatch(kernel, quant, {"WG": threads, **flags, **constants}, dict(ranges), grid))

    def elements(self, kernel: str, value: Value, ranges: Ranges,
                 constants: Constants = NO_CONSTANTS, cols: int = 0) -> None:
        """Append a dispatch with a thread for each element of ``value``, or with ``cols`` threads
        for each row."""
        rows, cols = symbol(value), cols or n_cols(value)

        def grid(size: Size) -> Groups | None:
            n = size.rows(rows) * cols
            return (*fold(-(-n // ELEMENT_THREADS)), 1) if n else None

        self.emit(kernel, grid, ELEMENT_THREADS, ranges, {"ROW_KIND": rows_word(rows), **constants})

    def one_each(self, kernel: str, value: Value, per_row: int, threads: int, ranges: Ranges,
                 constants: Constants = NO_CONSTANTS, within: range = ANY) -> None:
        """Append a dispatch with ``per_row`` workgroups for each row of ``value``. ``within``: the
        numbers of rows with which a step needs it."""
        rows = symbol(value)

        def grid(size: Size) -> Groups | None:
            n = size.rows(rows)
            return (*fold(n * per_row), 1) if n in within else None

        self.emit(kernel, grid, threads, ranges, {"ROW_KIND": rows_word(rows), **constants})


def numbers(*values: int | float) -> bytes:
    """The bytes of a struct that a kernel binds: ints as unsigned, floats as float32."""
    return b"".join(struct.pack("<f" if isinstance(n, float) else "<I", n) for n in values)


def symbol(value: Value) -> str:
    """The symbol of the first dimension of ``value``."""
    assert isinstance(value.shape[0], str), value
    return value.shape[0]


def rows_word(rows: str) -> int:
    """The number of the word in the step's header that counts tokens ("T") or outputs ("S")."""
    return WORDS["n_tokens" if rows == "T" else "n_outputs"]


def n_cols(value: Value) -> int:
    """The second dimension of ``value``."""
    assert len(value.shape) == 2 and isinstance(value.shape[1], int), value
    return value.shape[1]


def row_bytes(quant: str, n: int) -> int:
    """Bytes of a row of ``n`` weights in format ``quant``."""
    return get(quant).row_bytes(n)


def activation_flag(act: object) -> Constants:
    """The constant that chooses the activation ``act`` in a kernel's text."""
    return {str(act).upper(): True}


def threads_for(n: int) -> int:
    """Threads of a workgroup that adds up ``n`` numbers: a power of two from 32 to 256."""
    return int(min(256, max(32, 1 << max(0, (n // 4 - 1).bit_length()))))
