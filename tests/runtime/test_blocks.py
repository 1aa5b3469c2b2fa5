"""Blocks of a cache as bytes: in their order, and in other blocks of another plan."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_plan import LAYOUT, N_LAYERS, Feed, Tiny, fill
from unladen.backends._host import host
from unladen.errors import InvalidArgument

TABLE, OTHERS = (3, 1, 5), (6, 7, 4)


def test_a_past_in_other_blocks(tiny: Tiny, tokens: list[int], feed: Feed) -> None:
    """What one plan computed is the past of another, whose layers are cut otherwise."""
    plan, other = tiny.plan("cpu:0", "cpu:1"), tiny.plan("cpu:0")
    expected = feed(plan, tokens)[-1]
    for source, target in zip(TABLE, OTHERS, strict=True):
        data = plan.read_block(source)
        other.write_block(target, data)
        assert np.array_equal(other.read_block(target), data)
    fill(other, tokens[-1:], len(tokens) - 1, OTHERS)
    other.run()
    assert np.array_equal(other.output("logits")[0], expected)


def test_the_order_of_bytes(tiny: Tiny, tokens: list[int], feed: Feed) -> None:
    plan = tiny.plan("cpu:0")
    feed(plan, tokens)
    pieces = [host(buffer).data.reshape(LAYOUT.n_blocks, -1)[3]
              for layer in range(N_LAYERS) for buffer in (plan.kv[layer].k, plan.kv[layer].v)]
    data = plan.read_block(3)
    assert np.array_equal(data, np.concatenate(pieces)) and data.any()


def test_a_block_that_was_read_stays_as_it_was(tiny: Tiny, tokens: list[int], feed: Feed) -> None:
    plan = tiny.plan("cpu:0")
    feed(plan, tokens)
    data = plan.read_block(1)
    before = data.copy()
    plan.write_block(1, np.zeros_like(data))
    assert np.array_equal(data, before) and not plan.read_block(1).any()


def test_another_size(tiny: Tiny) -> None:
    plan = tiny.plan("cpu:0")
    data = plan.read_block(2)
    for wrong in (data[:-1], np.zeros(0, np.uint8), np.ones(data.size + 1, np.uint8)):
        with pytest.raises(InvalidArgument, match=f"has {data.size} bytes, got {wrong.size}"):
            plan.write_block(2, wrong)
    assert np.array_equal(plan.read_block(2), data)
