"""Norms of heads, their rotation and their write to the cache by one dispatch."""

from __future__ import annotations

import numpy as np
import pytest

from backends._gpu.opening import opened
from backends._gpu.storing import Norming
from emulator.backend import EmulatorBackend
from unladen.backends._gpu.joining import NORM_WRITE, NORM_WRITE_BUFFERS, normed
from unladen.backends.base import Backend
from unladen.graph.graph import Node, Value

Rng = np.random.Generator


@pytest.fixture(params=["emulator", "emulator int_dot subgroups", "opencl", "wgpu"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    return opened(request.param, monkeypatch)


@pytest.mark.parametrize(("style", "kv_types"), [
    ("norm", ("F32", "F32")), ("neox", ("F16", "F16")), ("neox", ("Q8_0", "F16")),
    ("", ("F16", "Q8_0"))])
def test_one_dispatch(backend: Backend, style: str, kv_types: tuple[str, str], rng: Rng) -> None:
    for n_tokens, dim, rotated in ((1, 64, (0, 64)), (35, 96, (1, 30))):
        case = Norming(rng, style, n_tokens, dim=dim, kv_types=kv_types, rotated=rotated)
        assert case.check(backend, joined=True) == [NORM_WRITE]
        assert case.check(backend, joined=False)[:2] == ["rms_norm"] * 2


def test_rows_of_several_sizes(backend: Backend, rng: Rng) -> None:
    """Their norms are as close to the exact ones as those of ``rms_norm``."""
    for n_tokens in (1, 5):
        case = Norming(rng, "neox", n_tokens, dim=96, kv_types=("F32", "F32"))
        for value in (case.q, case.k):
            shape = case.m.inputs[value].shape
            case.m.inputs[value] = rng.normal(size=shape, scale=3.0).astype(np.float32)
        wanted, cache = case.on_paper()
        _, y, found = case.on(backend, joined=True)
        pairs = [(y, wanted)]
        pairs += [(mine.view(np.float32), truth.view(np.float32))
                  for mine, truth in zip(found, cache, strict=True)]
        for mine, truth in pairs:
            np.testing.assert_array_equal(np.isnan(mine), np.isnan(truth))
            # A sum of squares, a root, a division, three products and a sum of two.
            bound = (96 / 2 + 9) * np.finfo(np.float32).eps * 3 * np.nanmax(np.abs(truth))
            assert np.nanmax(np.abs(mine - truth)) <= bound


def test_a_key_beyond_float16_spoils_its_value(backend: Backend, rng: Rng) -> None:
    """Also where only the rotated key is too large."""
    case = Norming(rng, "norm", 3, kv_types=("F16", "F16"))
    before = case.on_paper()[1][1].view(np.float16)
    weight = case.m.weights["k_w"].view(np.float32)
    case.m.inputs[case.k][1] = 1.0
    weight[:2], case.m.inputs[case.table][...] = 4 * 60000.0, 1.0
    with np.errstate(over="ignore"):
        wanted = case.on_paper()[1][1]
    values = case.on(backend, joined=True)[2][1]
    np.testing.assert_array_equal(values, wanted)
    assert (np.isnan(values.view(np.float16)) & ~np.isnan(before)).sum() >= case.spec.n_kv_heads


def test_what_is_not_joined(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms of whole rows, without weights, with others for each head, that something else reads,
    or with other nodes between; and devices that bind too few buffers."""
    target = EmulatorBackend().target
    case = Norming(rng, "norm", 2)
    nodes, inner = case.graph.nodes, case.inner
    queries, keys, rope, write = nodes
    (found,) = normed(nodes, inner, target)
    assert (found.queries, found.keys, found.rope, found.write) == (queries, keys, rope, write)
    assert not any(normed(nodes[:n], inner, target) for n in range(4))
    for value in inner:
        assert not normed(nodes, inner - {value}, target)
        y = Value("y", value.shape)
        reader = Node("scale", "scale", (value,), (y,), {}, {}, None, 0)
        assert not normed((*nodes, reader), inner, target)
    between = Node("scale", "scale", (case.v,), (Value("y", case.v.shape),), {}, {}, None, 0)
    for at in (1, 2, 3):
        assert not normed((*nodes[:at], between, *nodes[at:]), inner, target)
    assert not normed((keys, queries, rope, write), inner, target)
    for changed in (Node("q", "rms_norm", queries.inputs, queries.outputs, {}, queries.attrs,
                         None, 0),
                    Node("q", "rms_norm", queries.inputs, queries.outputs, queries.weights,
                         {**queries.attrs, "group": 32}, None, 0)):
        assert not normed((changed, keys, rope, write), inner, target)
    monkeypatch.setattr(target, "max_storage_buffers", NORM_WRITE_BUFFERS - 1)
    assert not normed(nodes, inner, target)
