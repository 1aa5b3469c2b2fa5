"""Graphs, weights, the builder and the batch."""

from __future__ import annotations

import pytest

from unladen import quants
from unladen.errors import UnsupportedOp, UnsupportedQuant
from unladen.graph.batch import Batch
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import AFTER_LAYERS, BEFORE_LAYERS, KVSpec, Node, Value, Weight
from unladen.graph.ops import get_op
from unladen.types import Limits


def small() -> GraphBuilder:
    g = GraphBuilder()
    g.n_layers = 1
    table = Weight("token_embd.weight", (10, 32), "Q8_0")
    x = g.one("embed", g.inputs["tokens"], name="embd", weights={"w": table})
    g.layer = 0
    state = KVSpec(0, 1, 32, 32)
    g.add("kv_write", (x, x), name="kv", state=state)
    y = g.one("attention", x, name="attn", state=state, attrs={"n_heads": 1, "scale": 1.0})
    g.layer = AFTER_LAYERS
    g.one("linear", y, name="head", weights={"w0": table})
    return g


def test_values_are_themselves_not_their_names() -> None:
    a, b = Value("x", ("T", 4)), Value("x", ("T", 4))
    assert a != b and len({a, b}) == 2
    assert repr(a) == "x[T, 4]"


def test_a_weight_and_its_rows() -> None:
    whole = Weight("w", (96, 64), "Q4_0")
    part = whole.rows(32, 16)
    assert (whole.name, part.name) == ("w", "w[32:48]")
    assert part.rows(4, 8).name == "w[36:44]"
    assert whole.rows(0, 96).name == "w"
    assert whole.row_bytes == part.row_bytes == quants.get("Q4_0").row_bytes(64) == 36
    assert part.nbytes_in("Q4_0") == 16 * 36
    assert part.nbytes_in("F32") == 16 * 64 * 4
    assert part.first_row * part.row_bytes == 32 * 36


def test_tensors_of_other_files_have_other_names() -> None:
    mine, other = Weight("w", (96, 64), "Q4_0"), Weight("w", (96, 64), "Q4_0", file="draft")
    assert (mine.key, other.key) == (("main", "w"), ("draft", "w"))
    assert (mine.name, other.name) == ("w", "draft:w")
    for cut in (other.rows(32, 16), other.cols(32, 32)):
        assert cut.key == other.key and cut.name.startswith("draft:w[")


def test_rows_of_experts_and_of_vectors() -> None:
    assert Weight("e", (8, 16, 32), "Q8_0").row_bytes == 16 * 34
    assert Weight("b", (12,), "F16").rows(4, 4).row_bytes == 2
    with pytest.raises(UnsupportedQuant, match="vector in Q8_0"):
        Weight("b", (96,), "Q8_0").rows(32, 32)


@pytest.mark.parametrize(("first", "count"), [(-1, 2), (90, 7), (97, 0)])
def test_rows_that_are_not_there(first: int, count: int) -> None:
    with pytest.raises(AssertionError):
        Weight("w", (96, 64), "F32").rows(first, count)


def test_what_the_builder_builds() -> None:
    g = small()
    graph = g.finish()
    assert [(n.name, n.op, n.layer) for n in graph.nodes] == [
        ("embd", "embed", BEFORE_LAYERS), ("blk.0.kv", "kv_write", 0),
        ("blk.0.attn", "attention", 0), ("head", "linear", AFTER_LAYERS)]
    assert list(graph.weights()) == ["token_embd.weight"]
    assert graph.states() == {0: KVSpec(0, 1, 32, 32)}
    assert graph.n_layers == 1
    assert "blk.0.attn[T, 32] = attention(embd)" in str(graph)


def test_uses_count_inputs_and_outputs() -> None:
    g = small()
    graph = g.finish()
    x, head = graph.nodes[0].outputs[0], graph.nodes[3].outputs[0]
    assert graph.uses()[x] == 3
    assert head not in graph.uses()
    assert g.finish(logits=head, again=head).uses()[head] == 2


def test_outputs_of_a_node_with_several() -> None:
    g = GraphBuilder()
    w = {f"w{i}": Weight(f"w{i}", (i + 1, 8), "F32") for i in range(3)}
    outputs = g.add("linear", (Value("x", ("S", 8)),), name="qkv", weights=w)
    assert [repr(v) for v in outputs] == ["qkv.0[S, 1]", "qkv.1[S, 2]", "qkv.2[S, 3]"]


def test_names_are_used_once() -> None:
    g = small()
    with pytest.raises(AssertionError, match="head"):
        g.one("scale", Value("x", ("T", 4)), name="head", attrs={"s": 1.0})


def test_an_unknown_op_is_named() -> None:
    with pytest.raises(UnsupportedOp, match="levitate") as error:
        get_op("levitate")
    assert "rms_norm" in error.value.hint


def test_attributes_have_types() -> None:
    node = Node("n", "scale", (), (), attrs={"s": "much", "n": 3, "x": 2.5})
    assert node.int_attr("n") == 3 and node.float_attr("n") == 3.0 and node.float_attr("x") == 2.5
    for read in (node.int_attr, node.float_attr):
        with pytest.raises(AssertionError):
            read("s")


def test_an_empty_batch_has_the_limits() -> None:
    limits = Limits(7, 3, 2, 5, 11)
    batch = Batch.empty(limits)
    assert (batch.tokens.shape, batch.positions.shape, batch.seq_of.shape) == ((7,), (7,), (7,))
    assert (batch.q_start.shape, batch.kv_len.shape, batch.out_rows.shape) == ((3,), (2,), (3,))
    assert batch.block_table.shape == (2, 5)
    batch.n_tokens, batch.n_outputs = 4, 2
    assert (batch.size("T"), batch.size("S")) == (4, 2)
    assert limits.count(("T", 6)) == 42 and limits.count(("S",)) == 3
