"""Methods that every part of a layer uses: names, products, norms, sums."""

from __future__ import annotations

from typing import ClassVar

from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, Value, Weight
from unladen.models._parts.base import Architecture

EPSILONS = {"rms_norm": "attention.layer_norm_rms_epsilon",
            "layer_norm": "attention.layer_norm_epsilon"}
"""The metadata key of epsilon, by the op of the norm."""


class Layers(Architecture):
    """The operations that layers are built from. Biases are applied where the file has them, except
    for the parts in ``unbiased``.

    ``spare``: parts that files may have and the model doesn't use. ``norm_op``: the op of every
    norm. ``norm_weights`` False: norms have no weights.
    """

    unbiased: ClassVar[frozenset[str]] = frozenset()
    spare: ClassVar[frozenset[str]] = frozenset()
    norm_op: str = "rms_norm"
    norm_weights: ClassVar[bool] = True

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        self.eps = self.read_eps()

    def read_eps(self) -> float:
        """Epsilon of the norms."""
        return self.hparams.float(EPSILONS[self.norm_op])

    def name(self, g: GraphBuilder, part: str) -> str:
        """GGUF's name for ``part`` in the layer being built."""
        return f"blk.{g.layer}.{part}" if g.layer >= 0 else part

    def has(self, g: GraphBuilder, part: str) -> bool:
        """Whether the file has a weight called ``part`` in the layer being built."""
        return self.name(g, part) + ".weight" in self.tensors

    def linear(self, g: GraphBuilder, x: Value, parts: dict[str, int], name: str
               ) -> tuple[Value, ...]:
        """One product for each of ``parts`` (name: rows)."""
        weights: dict[str, Weight] = {}
        for i, (part, n_out) in enumerate(parts.items()):
            weights |= self.matrix(g, x, part, n_out, str(i))
        return g.add("linear", (x,), name=name, weights=weights)

    def stacked(self, g: GraphBuilder, x: Value, part: str, rows: list[int], name: str
               ) -> tuple[Value, ...]:
        """The products of one matrix that stacks several, which have ``rows`` rows each."""
        whole = self.matrix(g, x, part, sum(rows), "")
        weights: dict[str, Weight] = {}
        first = 0
        for i, n_out in enumerate(rows):
            weights |= {f"{role}{i}": w.rows(first, n_out) for role, w in whole.items()}
            first += n_out
        return g.add("linear", (x,), name=name, weights=weights)

    def matrix(self, g: GraphBuilder, x: Value, part: str, n_out: int, number: str
               ) -> dict[str, Weight]:
        """The matrix ``part`` for inputs like ``x``, and its bias, by role."""
        full = self.name(g, part)
        weights = {f"w{number}": self.tensors.stacked(full + ".weight", n_out, n_columns(x))}
        bias = None if part in self.unbiased else self.tensors.optional(full + ".bias", n_out)
        return weights if bias is None else {**weights, f"b{number}": bias}

    def norm(self, g: GraphBuilder, x: Value, part: str) -> Value:
        """x f32 [T, n] with its rows normalized; as it is where ``part`` is empty."""
        if not part:
            return x
        if not self.norm_weights:
            return self.plain_norm(g, x, part)
        full = self.name(g, part)
        # Some converters leave out the suffix.
        suffix = "" if full in self.tensors else ".weight"
        weights = {"w": self.tensors.weight(full + suffix, n_columns(x))}
        bias = self.tensors.optional(full + ".bias", n_columns(x))
        if bias is not None and self.norm_op == "layer_norm":
            weights["b"] = bias
        return g.one(self.norm_op, x, name=part, weights=weights,
                     attrs={"eps": self.norm_eps(part)})

    def norm_eps(self, part: str) -> float:
        """Epsilon of the norm called ``part``."""
        return self.eps

    def plain_norm(self, g: GraphBuilder, x: Value, name: str, group: int = 0) -> Value:
        """A norm without weights of x f32 [T, n], or of each ``group`` of its columns."""
        attrs: dict[str, Attr] = {"eps": self.eps, "group": group or n_columns(x)}
        return g.one(self.norm_op, x, name=name, attrs=attrs)

    def scaled(self, g: GraphBuilder, x: Value, factor: float, name: str) -> Value:
        """``factor * x``."""
        return x if factor == 1.0 else g.one("scale", x, name=name, attrs={"s": factor})


def n_columns(x: Value) -> int:
    """The last dimension of ``x``."""
    n = x.shape[-1]
    assert isinstance(n, int), x
    return n


def columns(g: GraphBuilder, x: Value, name: str, group: int, first: int, count: int) -> Value:
    """Columns ``first .. first + count`` of each ``group`` of x."""
    return g.one("columns", x, name=name, attrs={"group": group, "first": first, "count": count})
