"""Predicted seconds against the same sums by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from factory import Shape
from schedule.paper import graph_of, paper_file
from unladen.backends.base import Device, KVLayout
from unladen.schedule.blueprint import Blueprint, make_blueprint
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions
from unladen.schedule.search import device_speed
from unladen.schedule.search.cost import CONTEXT, Costs, decode_step, prefill_step
from unladen.types import Limits

FAST = Device("null:0", "", 1 << 40, bandwidth=1e12, flops=1e14, link_bandwidth=1e10,
              link_latency_s=1e-5, launch_s=2e-6)
HOST = Device("null:9", "", 1 << 40, bandwidth=1e10, flops=1e11, is_host=True, launch_s=3e-6)
SHAPE = Shape("llama", n_embd=1024, n_heads=8, n_kv_heads=8, n_ff=4096, n_layers=4, n_vocab=1000,
              n_ctx=8192)
LIMITS = Limits(512, 8, 1, 256, 256, 32)
LAYOUT = KVLayout(32, 256, "F16", "F16")


def made(*devices: Device, **options: object) -> Blueprint:
    place = PlaceOptions(**options)  # type: ignore[arg-type]
    return make_blueprint(graph_of(paper_file(SHAPE, "F16")), LIMITS, LAYOUT,
                          PlanOptions(devices, place))


def test_decode_reads_every_weight_and_the_cache_once() -> None:
    plan = made(HOST)
    weights = 2 * 4 * (4 * 1024**2 + 3 * 1024 * 4096) + 2 * 1000 * 1024
    cache = 4 * 2 * 2 * 1024 * CONTEXT
    decode = plan.predict()[0]
    assert decode.terms["null:9 memory"] == pytest.approx((weights + cache) / 1e10, rel=0.01)
    assert decode.bound == "null:9 memory" and decode.per_second == 1 / decode.seconds
    assert decode.seconds == pytest.approx(sum(decode.terms.values()))


def test_prefill_is_bound_by_arithmetic() -> None:
    prefill = made(HOST).predict()[1]
    products = 2 * 512 * 4 * (4 * 1024**2 + 3 * 1024 * 4096)
    attention = 2 * 512 * CONTEXT * 4 * 8 * (128 + 128)
    assert prefill.bound == "null:9 arithmetic"
    assert prefill.seconds == pytest.approx((products + attention) / 1e11, rel=0.03)


def test_borders_cost_starts_and_copies() -> None:
    terms = made(HOST).predict()[0].terms
    assert terms["null:9 starts"] == 3e-6 and "copies" not in terms
    terms = made(FAST, HOST, n_gpu_layers=2, embed_device="null:9").predict()[0].terms
    assert terms["null:0 starts"] == 2e-6 and terms["null:9 starts"] == 6e-6
    # Embeddings and rotations go there, the residual stream comes back.
    assert terms["copies"] == pytest.approx(3 * 1e-5 + 4 * (1024 + 128 + 1024) / 1e10)


def test_devices_work_at_once() -> None:
    """Rows on two devices take less than the sum of both: one starts while the other works."""
    first = replace(FAST, link_bandwidth=1e13)
    second = replace(first, name="null:1")
    prefill = made(first, second, split_mode="row").predict()[1]
    assert prefill.seconds < 0.9 * sum(prefill.terms.values())


def test_steps_and_keys() -> None:
    assert decode_step(LIMITS, LAYOUT).n_tokens == 1 == decode_step(LIMITS, LAYOUT).n_outputs
    assert prefill_step(LIMITS, LAYOUT).n_tokens == 512
    assert decode_step(LIMITS, LAYOUT).n_keys == CONTEXT
    small = Limits(4, 1, 1, 3, 3, 16)
    assert decode_step(small, KVLayout(16, 3, "F16", "F16")).n_keys == 48 == small.n_keys


def test_host_is_measured_once() -> None:
    bandwidth, flops = device_speed.measure("cpu:0")
    assert 1e8 < bandwidth < 1e13 and 1e8 < flops < 1e15
    assert device_speed.measure("cpu:0") == (bandwidth, flops)
    known = device_speed.known(Device("cpu:0", "", 1, is_host=True))
    assert (known.bandwidth, known.flops) == (bandwidth, flops)
    unknown = device_speed.known(Device("null:0", "", 1))
    assert min(unknown.bandwidth, unknown.flops, unknown.link_bandwidth, unknown.launch_s) > 0


def test_copies_within_and_between_backends() -> None:
    costs = Costs(LIMITS, LAYOUT)
    value = graph_of(paper_file(SHAPE, "F16")).nodes[0].outputs[0]
    other = Device("reference:0", "", 1, 1e9, 1e9, link_bandwidth=1e10, link_latency_s=1e-5)
    nbytes = 4 * 512 * 1024
    assert costs.copy(value, FAST, HOST) == pytest.approx(1e-5 + nbytes / 1e10)
    assert costs.copy(value, FAST, other) == pytest.approx(2 * (1e-5 + nbytes / 1e10))
    assert costs.copy(value, HOST, HOST) == pytest.approx(2 * nbytes / 1e10)
