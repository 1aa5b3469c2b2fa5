"""Cases of a norm, or of a gated product, whose rows are rounded to int8 as they are made, for the
products of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cases import running
from cases.base import Array, Maker
from unladen import quants
from unladen.backends._gpu.step import Size
from unladen.backends.base import Backend, BackendOptions, Buffer, Placed, Program, Segment
from unladen.graph.graph import Value
from unladen.graph.ops import get_op
from unladen.graph.ops.base import EPS32, RefContext, act_block
from unladen.graph.ops.gated import GatedUnit
from unladen.graph.ops.linear import product_error

Rng = np.random.Generator


class Rounding:
    """A norm and products of its rows, of a step at random."""

    def __init__(self, rng: Rng, formats: Sequence[str], n_tokens: int, *, act: bool = False,
                 n_out: Sequence[int] = (5, 37, 64), n_in: Sequence[int] = (256, 512, 1280)
                 ) -> None:
        m = self.m = Maker(rng, n_tokens)
        columns = int(rng.choice(n_in))
        sizes = [int(rng.choice(n_out)) for _ in formats]
        self.x = m.input("T", columns)
        m.g.layer, m.g.n_layers = 0, 1
        (self.y,) = m.g.add("rms_norm", (self.x,), name="norm", attrs={"eps": 1e-5},
                            weights={"w": m.weight("w", columns)})
        weights = {f"w{i}": m.weight(f"w{i}", sizes[0] if act else n, columns, quant=quant)
                   for i, (n, quant) in enumerate(zip(sizes, formats, strict=True))}
        self.outputs = m.g.add("linear", (self.y,), name="linear", weights=weights,
                               attrs={"act": "silu"} if act else {})
        self.graph = m.g.finish(**{f"y{i}": y for i, y in enumerate(self.outputs)})

    def on_paper(self) -> tuple[Sequence[Array], Sequence[Array]]:
        """The products, and their bounds: that of a product of exact rows, and what a wrong row
        adds to it."""
        norm, linear = self.graph.nodes
        numbers = {w.name: quants.dequantize(w.quant, self.m.weights[w.name], w.shape).astype(float)
                   for node in (norm, linear) for w in node.weights.values()}
        x = [self.m.inputs[self.x].astype(np.float64)]
        of_norm = RefContext(self.m.batch, {"w": numbers["w"]})
        rows = get_op("rms_norm").reference(norm, x, of_norm)
        (off,) = get_op("rms_norm").error_bound(norm, x, of_norm)
        blocks = {role: act_block(quants.get(w.quant).block_size)
                  for role, w in linear.weights.items()}
        ctx = RefContext(self.m.batch, {role: numbers[w.name] for role, w in
                                        linear.weights.items()}, None, blocks)
        op = get_op("linear")
        wanted, bounds = op.reference(linear, rows, ctx), op.error_bound(linear, rows, ctx)
        more = [off @ np.abs(numbers[f"w{i}"]).T for i in range(len(linear.weights))]
        if "act" in linear.attrs:
            gate, up = (rows[0] @ numbers[f"w{i}"].T for i in range(2))
            errors = [product_error(rows[0], numbers[f"w{i}"], blocks[f"w{i}"]) + more[i]
                      for i in range(2)]
            return wanted, [1.001 * GatedUnit.of(linear).error(gate, up, *errors)
                            + EPS32 * np.abs(wanted[0])]
        return wanted, [1.001 * b + m for b, m in zip(bounds, more, strict=True)]

    def compiled(self, backend: Backend, *, joined: bool
                 ) -> tuple[Program, Buffer, Mapping[Value, int]]:
        """The program of ``backend``, its arena, and the offsets of values there."""
        m, options = self.m, BackendOptions()
        device = running.device_of(backend)
        norm, linear = self.graph.nodes
        stored = backend.stored_bytes(device, (norm, linear), frozenset({self.y}), m.limits,
                                      options)
        assert stored.keys() == {self.y}
        taken = stored if joined else {}
        offsets, n_bytes = {}, 0
        for value in (self.x, self.y, *self.outputs):
            offsets[value] = n_bytes
            n_bytes += -(-taken.get(value, 4 * m.limits.count(value.shape)) // 256) * 256
        scratch = max(backend.scratch_bytes(device, node, m.limits, options)
                      for node in self.graph.nodes)
        arena = backend.alloc(device, n_bytes + scratch + 64, "arena")
        backend.write(arena, np.full(arena.nbytes, 0xff, np.uint8))
        backend.write(arena, running.as_bytes(m.inputs[self.x]), offsets[self.x])
        placed = {}
        for weight in (*norm.weights.values(), *linear.weights.values()):
            quant = backend.weight_format(device, linear, weight)
            assert quant is not None
            raw = quants.convert(weight.quant, quant, m.weights[weight.name].reshape(-1),
                                 weight.shape)
            buffer = backend.alloc(device, raw.nbytes + 32, "weights")
            backend.write(buffer, raw, 32)
            placed[weight.name] = Placed(weight, buffer, 32, quant)
        program = backend.compile(Segment(device, (norm, linear), arena, offsets, {},
                                          (n_bytes, scratch), placed, {}, {}, m.limits, m.batch,
                                          options, taken))
        return program, arena, offsets

    def on(self, backend: Backend, *, joined: bool) -> tuple[Sequence[str], Sequence[Array]]:
        """The kernels that run, and the products."""
        m, found = self.m, []
        program, arena, offsets = self.compiled(backend, joined=joined)
        backend.run(program)
        for value in self.outputs:
            shape = m.shape(value.shape)
            raw = backend.read(arena, 4 * int(np.prod(shape)), offsets[value]).copy()
            found.append(raw.view(np.float32).reshape(shape))
        n = m.batch.n_tokens
        size = Size(n, m.batch.n_outputs, 1, 1, n == m.batch.n_seqs, frozenset())
        return [d.kernel for d in program.lowered.dispatches  # type: ignore[attr-defined]
                if d.grid(size) is not None], found


class Feeding(Rounding):
    """A gated product and a product of its rows, of a step at random. ``formats``: of the weights
    of each."""

    def __init__(self, rng: Rng, formats: tuple[str, str], n_tokens: int) -> None:
        m = self.m = Maker(rng, n_tokens)
        columns, n_hidden = int(rng.choice([256, 512, 2048])), 256
        self.x = m.input("T", columns)
        m.g.layer, m.g.n_layers = 0, 1
        (self.y,) = m.g.add("linear", (self.x,), name="gate", attrs={"act": "silu"}, weights={
            "w0": m.weight("gate", n_hidden, columns, quant=formats[0]),
            "w1": m.weight("up", n_hidden, columns, quant=formats[0])})
        self.outputs = m.g.add("linear", (self.y,), name="down", attrs={}, weights={
            "w0": m.weight("down", 48, n_hidden, quant=formats[1])})
        self.graph = m.g.finish(y0=self.outputs[0])
