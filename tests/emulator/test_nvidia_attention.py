"""Attention by NVIDIA's matrix units on the emulator: each way to choose keys, and shares of keys,
by the kernel that is meant for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from cases.attention import divided
from cases.base import Case
from emulator.backend import FEATURES, EmulatorBackend
from emulator.test_nvidia import attention, dispatched
from unladen.backends._gpu.target import Constants

Rng = np.random.Generator
MATRICES = FEATURES | {"mma"}
FLAGS = frozenset({"SPANS", "BOTH_SIDES", "CHUNKED", "SLIDING", "SYMMETRIC", "SOFTCAP", "ALIBI",
                   "SINKS", "SPLIT", "DECODE"})
LATER, SLIDING = {"causal": False}, {"window": 17}
CHUNKED, SYMMETRIC = ({"window": 13, "window_kind": kind} for kind in ("chunked", "symmetric"))
CAPPED = {"softcap": 4.0, "alibi": 8.0}


def flags(constants: Constants) -> set[str]:
    return {name for name in FLAGS if constants.get(name)}


def drawn(make: Callable[[], Case], *, in_blocks: bool) -> Case:
    """A case of which a block of the cache has whole tiles of keys, or not."""
    while True:
        case = make()
        if (case.layout.block_tokens == 32) == in_blocks:
            return case


@pytest.mark.parametrize(("attrs", "used"), [
    ({"spans": True}, {"SPANS"}), ({"spans": True, **SLIDING}, {"SPANS", "SLIDING"}),
    ({"spans": True, **CHUNKED}, {"SPANS", "CHUNKED"}), (CHUNKED, {"CHUNKED"}),
    (SYMMETRIC, {"SYMMETRIC"}), (LATER, {"BOTH_SIDES"}),
    ({**LATER, **SLIDING}, {"BOTH_SIDES", "SLIDING"}),
    ({**LATER, **CHUNKED}, {"BOTH_SIDES", "CHUNKED"}),
    ({**LATER, **SYMMETRIC, **CAPPED}, {"BOTH_SIDES", "SYMMETRIC", "SOFTCAP", "ALIBI"})],
    ids=lambda each: "-".join(sorted(each)) if isinstance(each, set) else "")
def test_keys_of_a_prefill(attrs: Mapping[str, Any], used: set[str], rng: Rng) -> None:
    history = 0 if "causal" in attrs else 50
    case = drawn(lambda: attention(rng, 70, 4, 1, 32, 48, history, **attrs),
                 in_blocks=bool(rng.random() < 0.5))
    (only,) = dispatched(case, EmulatorBackend(MATRICES))
    assert only.kernel == "attention_mma" and flags(only.constants) == used


@pytest.mark.parametrize(("n_heads", "n_kv_heads", "attrs", "used"), [
    (4, 1, {}, set()), (8, 2, {"spans": True}, {"SPANS"}),
    (20, 1, {**SLIDING, "window": 70, "sinks": True}, {"SLIDING", "SINKS"}),
    (7, 1, {**CHUNKED, "window": 90}, {"CHUNKED"}), (6, 1, SYMMETRIC, {"SYMMETRIC"}),
    (10, 2, {**CAPPED, "sinks": True}, {"SOFTCAP", "ALIBI", "SINKS"})],
    ids=lambda each: "-".join(sorted(each)) if isinstance(each, set) else str(each)[:2])
def test_shares_of_keys(n_heads: int, n_kv_heads: int, attrs: Mapping[str, Any], used: set[str],
                        rng: Rng) -> None:
    """Also where the window leaves a workgroup no key, and where two workgroups take the heads of a
    key head."""
    for in_blocks in (True, False):
        case = drawn(lambda: divided(rng, 64, n_heads, n_kv_heads, **attrs), in_blocks=in_blocks)
        shares, join = dispatched(case, EmulatorBackend(MATRICES))
        assert (shares.kernel, join.kernel) == ("attention_mma", "attention_join")
        assert flags(shares.constants) == {"SPLIT", "DECODE", *used}
        assert bool(shares.constants["BLOCK_TILES"]) == in_blocks
