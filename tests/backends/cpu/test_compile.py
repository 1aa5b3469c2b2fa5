"""Kernels take a node's parts by name, and refuse a node that they don't take as it is."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import cases
from cases import running
from cases.base import Case, Maker
from unladen import backends
from unladen._native import cpu as native
from unladen.backends.base import BackendOptions
from unladen.backends.cpu import CpuBackend
from unladen.backends.cpu.compile import operations
from unladen.errors import UnsupportedOp
from unladen.graph.graph import Attr, KVSpec, Node, Value
from unladen.graph.ops import registry

SOURCES = Path(backends.__file__).parent / "cpu/csrc/ops"

every_op = pytest.mark.parametrize("op", sorted(operations()))


def a_case(op: str, rng: np.random.Generator) -> Case:
    """One of the first cases of ``op``."""
    few = list(islice(cases.registry()[op](rng), 4))
    return few[int(rng.integers(len(few)))]


def refusal(case: Case, node: Node) -> str:
    """What the error says when ``node`` is compiled in the place of the case's."""
    graph = replace(case.graph, nodes=(node,))
    with pytest.raises(UnsupportedOp) as caught:
        running.Bench(CpuBackend(), replace(case, graph=graph))
    assert caught.value.node == node.name and caught.value.device.startswith("cpu")
    assert node.op in caught.value.message and node.name in caught.value.message
    assert caught.value.hint
    return caught.value.message


def test_every_kernel_is_that_of_an_op() -> None:
    assert set(operations()) <= set(registry())


@pytest.mark.skipif(not SOURCES.exists(), reason="an installed package has no sources")
def test_kernels_are_found_by_their_files() -> None:
    """Each file that registers an op is called like it, and nothing else names the op."""
    found = {op: path.stem for path in SOURCES.glob("*.cc")
             for op in re.findall(r'Registered<\w+> \w+\("(\w+)"\)', path.read_text("utf-8"))}
    assert found == {op: op for op in operations()}


@every_op
def test_what_is_unknown_is_refused(op: str, rng: np.random.Generator) -> None:
    case = a_case(op, rng)
    node = case.node
    assert "attribute colour is unknown" in refusal(case, replace(
        node, attrs={**node.attrs, "colour": 1}))
    if node.weights:
        weight = next(iter(node.weights.values()))
        assert "weight w_colour is unknown" in refusal(case, replace(
            node, weights={**node.weights, "w_colour": weight}))


@pytest.mark.parametrize("op", sorted(set(operations()) - {"ssm_scan"}))  # its op counts them
def test_more_inputs_and_outputs_are_refused(op: str, rng: np.random.Generator) -> None:
    case = a_case(op, rng)
    node, x = case.node, case.node.inputs[0]
    more = Value("more", x.shape, x.dtype)
    room = replace(case, inputs={**case.inputs, more: np.zeros(
        [case.batch.size(s) if isinstance(s, str) else s for s in x.shape], x.numpy)})
    # Two of them: some ops can do without an input.
    assert refusal(room, replace(node, inputs=(*node.inputs, more, more)))
    assert refusal(room, replace(node, outputs=(*node.outputs, more)))


@pytest.mark.parametrize("op", ["add", "attention", "concat", "hyper_mix", "kv_write", "linear",
                                "rms_norm", "rope"])
def test_fewer_inputs_and_outputs_are_refused(op: str, rng: np.random.Generator) -> None:
    case = a_case(op, rng)
    node = case.node
    assert refusal(case, replace(node, inputs=node.inputs[:-1]))
    if node.outputs:
        assert refusal(case, replace(node, outputs=node.outputs[:-1]))


@pytest.mark.parametrize(("attrs", "what"), [
    ({}, "no attribute eps"), ({"eps": "small"}, "attribute eps is no number"),
    ({"eps": 1e-5, "group": 5}, "groups of columns don't divide a row"),
    ({"eps": 1e-5, "group": 0}, "groups of columns don't divide a row"),
    ({"eps": 1e-5, "group": 2 ** 40}, "attribute group is no whole number of 32 bits"),
    ({"eps": 1e-5, "group": 8.0}, "attribute group is no whole number")])
def test_attributes_that_are_missing_or_wrong(attrs: dict[str, Attr], what: str,
                                              rng: np.random.Generator) -> None:
    m = Maker(rng, 4)
    case = m.case("rms_norm", m.input("T", 16), attrs={"eps": 1e-5})
    assert what in refusal(case, replace(case.node, attrs=attrs))


def test_names_and_flags(rng: np.random.Generator) -> None:
    m = Maker(rng, 4)
    case = m.case("activation", m.input("T", 16), attrs={"act": "silu"})
    assert "no activation is called 'loud'" in refusal(case, replace(
        case.node, attrs={"act": "loud"}))
    m = Maker(rng, 4)
    case = m.case("scale", m.input("T", 16), attrs={"s": 1.0})
    assert "attribute divide is neither" in refusal(case, replace(
        case.node, attrs={"s": 1.0, "divide": 1}))


def test_types_and_sizes(rng: np.random.Generator) -> None:
    m = Maker(rng, 4)
    whole = Value("whole", ("T", 16), "i32")
    case = m.case("add", m.input("T", 16), m.input("T", 16))
    case = replace(case, inputs={**case.inputs, whole: np.zeros((4, 16), np.int32)})
    assert "an input of type i32, where f32 is taken" in refusal(case, replace(
        case.node, inputs=(case.node.inputs[0], whole)))
    m = Maker(rng, 4)
    case = m.case("add", m.input("T", 16), weights={"b": m.weight("b", 16)})
    assert "a and b differ in columns" in refusal(case, replace(
        case.node, weights={"b": m.weight("b8", 8)}))


def test_a_state_that_is_missing_or_useless(rng: np.random.Generator) -> None:
    m = Maker(rng, 4)
    spec = KVSpec(0, 2, 8, 8)
    case = m.case("attention", m.input("T", 32), state=spec, kv=m.cache(spec),
                  attrs={"n_heads": 4, "scale": 1.0})
    assert "it has no cache" in refusal(replace(case, kv=None), replace(case.node, state=None))
    m = Maker(rng, 4)
    case = m.case("clamp", m.input("T", 16), attrs={"limit": 1.0}, kv=m.cache(spec))
    assert "nothing to do with a cache" in refusal(case, replace(case.node, state=spec))


def test_work_of_neighbours_is_refused_by_those_who_don_t_know_it() -> None:
    joined = native.Joined(is_packed=False, norm=None, reader=None, is_chosen_from=True)
    value = 0, "f32", "T", 16
    node = native.Node(op="clamp", name="n", inputs=[value], outputs=[value], weights={},
                       attrs={"limit": 1.0}, joined=joined)
    program = native.Program(native.levels()[0], 1, 1, 4, False, False, [])
    with pytest.raises(ValueError, match="it does no work of its neighbours"):
        program.add(node)


@pytest.mark.parametrize(("op", "limit"), [
    ("conv1d", "at most 16 taps"), ("hyper_weights", "at most 16 streams"),
    ("pooled_attention", "all groups of tokens")])
def test_limits(op: str, limit: str, rng: np.random.Generator) -> None:
    assert operations()[op].limit == limit
    m = Maker(rng, 4, kv_types=("F32", "F32"))
    if op == "conv1d":
        case = m.case(op, m.input("T", 8), weights={"w": m.weight("w", 8, 17)},
                      attrs={"act": "identity"})
    elif op == "hyper_weights":
        case = m.case(op, m.input("T", 17), weights={"base": m.weight("base", 17),
                                                     "scale": m.weight("scale", 1)},
                      attrs={"n_streams": 17, "n_rounds": 1, "eps": 0.0, "magnitude": 1.0,
                             "out_eps": 0.0})
    else:
        spec = KVSpec(0, 1, 8, 8)
        case = m.case(op, m.input("T", 8), state=spec, kv=m.cache(spec), attrs={
            "n_heads": 1, "scale": 1.0, "window": 4, "ratio": 2})
        groups = Value("groups", ("T", 3), "i32")
        node = replace(case.node, inputs=(*case.node.inputs, groups))
        case = replace(case, graph=replace(case.graph, nodes=(node,)),
                       inputs={**case.inputs, groups: np.zeros((4, 3), np.int32)})
    backend = CpuBackend()
    assert not backend.supports(backend.open("cpu", BackendOptions()), case.node)
    assert f"takes {limit}" in refusal(case, case.node)
