"""Rows of attention are rounded to int8 where shares of keys are joined, if one product alone reads
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from backends._gpu.attending import ROUNDED, Attending
from cases import running
from emulator.backend import FEATURES, EmulatorBackend
from unladen.backends._gpu.joining import attended
from unladen.backends._gpu.lowering import _skinny
from unladen.backends._gpu.lowering._matrix import FEW_ROWS
from unladen.graph.graph import Node, Value

Rng = np.random.Generator
MATRICES = FEATURES | {"mma"}


def names(ran: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(each["kernel"]) + (" CODED" if each.get("CODED") else "") for each in ran]


@pytest.mark.parametrize("features", [MATRICES, MATRICES | {"wgmma", "pdl"}], ids=["mma", "wgmma"])
@pytest.mark.parametrize(("lengths", "more"), [
    ([520], {}), ([130] * (FEW_ROWS + 1), {"n_heads": 2}),
    ([70, 33, 1], {"quant": "Q4_K", "v_dim": 96}),
    ([65, 100], {"n_heads": 2, "v_dim": 256}), ([200], {"kv_types": ("F32", "F16")})])
def test_few_rows_are_rounded_as_shares_are_joined(
        features: frozenset[str], lengths: Sequence[int], more: Mapping[str, Any], rng: Rng
        ) -> None:
    """A decode step has a dispatch less, and the product is within its bound."""
    case = Attending(rng, lengths, **more)
    wanted, bound = case.bounded()
    for joined in (True, False):
        ran, y = case.computed(EmulatorBackend(features), joined=joined)
        middle = ["attention_join CODED"] if joined else ["attention_join", "quantize"]
        product = "matvec" if len(lengths) <= FEW_ROWS else "matvec_mma"
        assert names(ran)[0].startswith("attention") and names(ran)[1:] == [*middle, product]
        assert np.all(np.abs(y - wanted) <= bound), (joined, np.abs(y - wanted).max())


@pytest.mark.parametrize("lengths", [[20], [300] * (FEW_ROWS + 1)], ids=["one share", "many rows"])
def test_steps_in_which_rows_are_rounded_later(lengths: Sequence[int], rng: Rng,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(_skinny.FORMS[""], shapes=[replace(_skinny.FORMS[""].shapes[0], rows=FEW_ROWS)])
    monkeypatch.setattr(_skinny, "FORMS", {**_skinny.FORMS, "": few})
    case = Attending(rng, lengths)
    wanted, bound = case.bounded()
    ran, y = case.computed(EmulatorBackend(MATRICES), joined=True)
    joins = ["attention_join"] if len(lengths) > 1 else []
    product = "matmul_mma" if len(lengths) > FEW_ROWS else "matvec"
    assert names(ran) == ["attention_mma", *joins, "quantize", product]
    assert np.all(np.abs(y - wanted) <= bound)


def test_nan_comes_through(rng: Rng) -> None:
    """A value in one share is NaN, and so are the outputs of its row alone."""
    case = Attending(rng, [300, 300])
    values = case.kv[1].view(np.float16).reshape(-1, case.spec.n_kv_heads, 32, case.spec.v_dim)
    values[case.m.batch.block_table[1, 4], 0, 7, 3] = np.nan
    _, y = case.computed(EmulatorBackend(MATRICES), joined=True)
    assert not np.isnan(y[0]).any() and np.isnan(y[1]).all()


@pytest.mark.parametrize(("features", "quant", "v_dim"), [
    (FEATURES, "Q8_0", 64), (MATRICES - {"int_dot"}, "Q8_0", 64), (MATRICES, "F16", 64),
    (MATRICES, "Q8_0", 48), (MATRICES, "Q8_0", 288)])
def test_what_keeps_rows_as_they_are(features: frozenset[str], quant: str, v_dim: int, rng: Rng
                                     ) -> None:
    """Products that don't take int8 for few rows, and heads of another size."""
    case, backend = Attending(rng, [70], quant=quant, v_dim=v_dim), EmulatorBackend(features)
    assert not backend.stored_bytes(running.device_of(backend), case.graph.nodes, case.inner,
                                    case.m.limits, ROUNDED)


def test_what_reads_rows_besides(rng: Rng) -> None:
    """A second product, another node, or another segment."""
    case = Attending(rng, [70])
    attention, linear = nodes = case.graph.nodes
    assert attended(nodes, case.inner) == {case.rows: linear}
    assert not attended(nodes, frozenset())
    y = Value("y", case.rows.shape)
    for reader in (Node("scale", "scale", (case.rows,), (y,), {}, {}, None, 0),
                   Node("twice", "linear", (case.rows,), (y,), linear.weights, {}, None, 0),
                   Node("sum", "linear", (y, case.rows), (y,), linear.weights, {}, None, 0)):
        assert not attended((*nodes, reader), case.inner)
        assert not attended((attention, reader), case.inner) or reader.name == "twice"
