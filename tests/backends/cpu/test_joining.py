"""Only what nothing else reads is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from unladen.backends.cpu.joining import Joined, joined
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Node, Value, Weight

N = 64


class Net:
    """A graph over one input f32 [T, 64]."""

    def __init__(self) -> None:
        self.g = GraphBuilder()
        self.x = Value("x", ("T", N))
        self.n = 0

    def norm(self, x: Value, op: str = "rms_norm", **attrs: Any) -> Value:
        return self._add(op, (x,), {"w": self._weight(attrs.get("group", N))},
                         {"eps": 1e-5, **attrs})

    def linear(self, *inputs: Value, n_weights: int = 1, **attrs: Any) -> Value:
        return self._add("linear", inputs, {f"w{i}": self._weight(N, N) for i in range(n_weights)},
                         attrs)

    def _weight(self, *shape: int) -> Weight:
        self.n += 1
        return Weight(f"w{self.n}", shape, "F32")

    def _add(self, op: str, inputs: tuple[Value, ...], weights: dict[str, Weight],
             attrs: dict[str, Any]) -> Value:
        self.n += 1
        return self.g.add(op, inputs, name=f"{op}{self.n}", weights=weights, attrs=attrs)[0]

    def joined(self, *outputs: Value, packed: Callable[[Node], int | None] = lambda _: 100
               ) -> Joined:
        """With all values but ``outputs`` read by nothing else."""
        nodes = self.g.finish().nodes
        inner = {v for n in nodes for v in n.outputs} - set(outputs)
        return joined(nodes, frozenset(inner), packed)


def test_a_feed_forward() -> None:
    net = Net()
    normed = net.norm(net.x)
    hidden = net.linear(normed, n_weights=2, act="silu")
    y = net.linear(hidden, net.x, residual=True)
    found = net.joined(y)
    assert list(found.norms) == [normed] and found.norms[normed].inputs == (net.x,)
    assert {v: n.outputs for v, n in found.readers.items()} == {hidden: (y,)}
    assert found.nbytes == {normed: 0, hidden: 100}
    assert net.joined(y, packed=lambda _: None).nbytes == {normed: 0}


def test_values_that_others_read_stay() -> None:
    net = Net()
    normed = net.norm(net.x)
    hidden = net.linear(normed, n_weights=2, act="silu")
    y = net.linear(hidden)
    assert net.joined(y, normed, hidden) == Joined({}, {}, {})
    net.linear(hidden, normed, residual=True)
    assert net.joined() == Joined({}, {}, {})


def test_a_product_that_adds_what_it_multiplies() -> None:
    net = Net()
    normed = net.norm(net.x)
    assert net.joined(net.linear(normed, normed, residual=True)) == Joined({}, {}, {})


@pytest.mark.parametrize("norm", [{"op": "layer_norm"}, {"group": 16}])
def test_other_norms_stay(norm: dict[str, Any]) -> None:
    net = Net()
    assert net.joined(net.linear(net.norm(net.x, **norm))) == Joined({}, {}, {})


def test_a_norm_whose_product_comes_later_stays() -> None:
    net = Net()
    normed = net.norm(net.x)
    net.linear(net.x)
    assert net.joined(net.linear(normed)) == Joined({}, {}, {})


def test_a_reader_of_several_matrices() -> None:
    net = Net()
    hidden = net.linear(net.x, n_weights=2, act="silu")
    assert net.joined(net.linear(hidden, n_weights=2, act="silu")).readers == {}
