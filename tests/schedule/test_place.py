"""The user's options for placement, and the device of every layer that follows."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from factory import Shape
from schedule.paper import graph_of, paper_file
from tiny_plan import N_LAYERS, Tiny
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions, Device
from unladen.errors import InvalidArgument
from unladen.graph.graph import Graph
from unladen.schedule.place import PlaceOptions, place

CPU, NULL0, NULL1 = "cpu:0", "null:0", "null:1"


def devices(*names: str) -> list[Device]:
    return [backend_of(n).open(n, BackendOptions()) for n in names]


def layers(graph: Graph, *names: str, **options: Any) -> list[str]:
    placed = place(graph, devices(*names), PlaceOptions(**options))
    assert len(placed.layers) == graph.n_layers
    for node in graph.nodes:
        assert placed.why[node]
        if node.layer >= 0 and "override" not in placed.why[node]:
            assert placed.device_of[node] == placed.layers[node.layer]
    return [d.name for d in placed.layers]


@pytest.mark.parametrize(("n", "expected"), [
    ("auto", N_LAYERS), ("all", N_LAYERS), (-1, N_LAYERS), (0, 0), (1, 1), (3, 3),
    (N_LAYERS, N_LAYERS), (N_LAYERS + 1, N_LAYERS), (99, N_LAYERS)])
def test_number_of_offloaded_layers(tiny: Tiny, n: Any, expected: int) -> None:
    first = layers(tiny.graph, CPU, NULL0, n_gpu_layers=n)
    assert first == [NULL0] * expected + [CPU] * (N_LAYERS - expected)
    last = layers(tiny.graph, CPU, NULL0, n_gpu_layers=n, offload_order="last")
    assert last == first[::-1]


def test_order_of_devices_does_not_say_which_is_the_host(tiny: Tiny) -> None:
    assert layers(tiny.graph, NULL0, CPU, n_gpu_layers=1) == [NULL0, CPU, CPU, CPU]


def test_hosts_alone_share_the_layers(tiny: Tiny) -> None:
    assert layers(tiny.graph, CPU) == [CPU] * 4
    assert layers(tiny.graph, CPU, "cpu:1", n_gpu_layers=0) == [CPU, CPU, "cpu:1", "cpu:1"]
    assert layers(tiny.graph, NULL0, NULL1) == [NULL0, NULL0, NULL1, NULL1]


@pytest.mark.parametrize(("shares", "expected"), [
    (None, [2, 2]), ([1, 1], [2, 2]), ([3, 1], [3, 1]), ([0, 5], [0, 4]), ([1, 0], [4, 0]),
    ([0.6, 0.4], [2, 2]), ([0.7, 0.3], [3, 1]), ([1e300, 1e300], [2, 2])])
def test_shares(tiny: Tiny, shares: Any, expected: list[int]) -> None:
    got = layers(tiny.graph, CPU, NULL0, NULL1, tensor_split=shares)
    assert [got.count(NULL0), got.count(NULL1)] == expected


@pytest.mark.parametrize("shares", [
    [1], [1, 1, 1], [], [0.6, 0.3], [0.5, 0.52], [1, 0.5], [1, -1], [0, 0], [math.nan, 1],
    [1, math.nan], [math.inf, 1], [1e308, 1e308]])
def test_bad_shares(tiny: Tiny, shares: list[float]) -> None:
    with pytest.raises(InvalidArgument, match="tensor_split"):
        layers(tiny.graph, CPU, NULL0, NULL1, tensor_split=shares)


def test_one_device_of_several(tiny: Tiny) -> None:
    for i, name in enumerate((NULL0, NULL1)):
        assert layers(tiny.graph, CPU, NULL0, NULL1, split_mode="none", main_gpu=i,
                      n_gpu_layers=3) == [name] * 3 + [CPU]
    for bad in (-1, 2):
        with pytest.raises(InvalidArgument, match="main_gpu"):
            layers(tiny.graph, CPU, NULL0, NULL1, split_mode="none", main_gpu=bad)


@pytest.mark.parametrize(("option", "value"), [
    ("n_gpu_layers", -2), ("n_cpu_moe", -1), ("n_gpu_layers", "some"), ("n_gpu_layers", 1.5),
    ("split_mode", "diagonal"), ("offload_order", "middle")])
@pytest.mark.parametrize("names", [(CPU,), (CPU, NULL0)])
def test_bad_values_name_the_option(tiny: Tiny, option: str, value: Any, names: tuple[str, ...]
                                    ) -> None:
    with pytest.raises(InvalidArgument, match=option):
        layers(tiny.graph, *names, **{option: value})


def test_layers_for_a_cpu_that_is_not_there(tiny: Tiny) -> None:
    with pytest.raises(InvalidArgument, match=r"n_gpu_layers=1 .*add cpu"):
        layers(tiny.graph, NULL0, n_gpu_layers=1)


@pytest.mark.parametrize("n", [N_LAYERS + 2, 98, 100, 999, 2**31, 2**63, 10**30])
def test_more_layers_than_there_are(tiny: Tiny, n: int) -> None:
    assert layers(tiny.graph, CPU, NULL0, n_gpu_layers=n) == [NULL0] * N_LAYERS
    assert layers(tiny.graph, CPU, n_gpu_layers=n) == [CPU] * N_LAYERS


@pytest.mark.parametrize("mode", ["layer", "none", "row"])
def test_a_main_device_that_is_not_there(tiny: Tiny, mode: str) -> None:
    for names, n in (((CPU, NULL0), 1), ((CPU,), 3), ((CPU, NULL0, NULL1), 2)):
        with pytest.raises(InvalidArgument, match=f"main_gpu must be .* got {n}: it counts"):
            layers(tiny.graph, *names, split_mode=mode, main_gpu=n)


def test_names_of_other_engines(tiny: Tiny) -> None:
    placed = place(tiny.graph, devices(CPU, NULL0),
                   PlaceOptions(override_tensor={"ffn_down": "CPU"}, head_device="CPU"))
    for node in tiny.graph.nodes:
        on_host = node.name == "logits" or any("ffn_down" in w.name for w in node.weights.values())
        assert (placed.device_of[node].name == CPU) == on_host or node.layer == -2
    with pytest.raises(InvalidArgument, match=r"'CUDA0' is not among the devices .*cpu:0, null:0"):
        layers(tiny.graph, CPU, NULL0, override_tensor={"ffn_down": "CUDA0"})


def test_ends(tiny: Tiny) -> None:
    """Embeddings and head go to the given devices; an error names a device that isn't in use."""
    placed = place(tiny.graph, devices(CPU, NULL0), PlaceOptions(
        n_gpu_layers="all", embed_device="cpu", head_device="cpu:0"))
    where = {n.name: (placed.device_of[n].name, placed.why[n]) for n in tiny.graph.nodes}
    assert where["token_embd"] == (CPU, "embed_device")
    assert where["logits"] == (CPU, "head_device")
    assert where["blk.0.attn_norm"][0] == where["blk.3.ffn_out"][0] == NULL0
    for option in ("embed_device", "head_device"):
        with pytest.raises(InvalidArgument, match=f"{option}: 'null:4' is not among"):
            layers(tiny.graph, CPU, NULL0, **{option: "null:4"})


def test_caches_on_the_host(tiny: Tiny) -> None:
    placed = place(tiny.graph, devices(CPU, NULL0), PlaceOptions(kv_offload=False))
    for node in tiny.graph.nodes:
        assert placed.device_of[node].name == (CPU if node.state is not None else NULL0)
    with pytest.raises(InvalidArgument, match="kv_offload=False needs the CPU"):
        layers(tiny.graph, NULL0, kv_offload=False)


@pytest.mark.parametrize(("options", "n_on_host"), [
    ({"cpu_moe": True}, 3), ({"n_cpu_moe": 2}, 2), ({"n_cpu_moe": 0}, 0), ({"n_cpu_moe": 9}, 3)])
def test_experts_on_the_host(options: dict[str, Any], n_on_host: int) -> None:
    graph = graph_of(paper_file(Shape("qwen3moe", n_layers=3, n_experts=4), "F32"))
    placed = place(graph, devices(CPU, NULL0), PlaceOptions(**options))
    names = [placed.device_of[n].name for n in graph.nodes if n.op == "moe"]
    assert names == [CPU] * n_on_host + [NULL0] * (3 - n_on_host)
    if n_on_host:
        with pytest.raises(InvalidArgument, match="cpu_moe needs the CPU"):
            layers(graph, NULL0, **options)


def test_overrides(tiny: Tiny) -> None:
    overrides = {r"blk\.[01]\.ffn_down": "cpu", "ffn_": NULL1}
    placed = place(tiny.graph, devices(CPU, NULL0, NULL1),
                   PlaceOptions(split_mode="none", override_tensor=overrides))
    where = {n.name: (placed.device_of[n].name, placed.why[n]) for n in tiny.graph.nodes}
    assert where["blk.0.ffn_out"] == (CPU, r"override blk\.[01]\.ffn_down")
    assert where["blk.2.ffn_out"] == (NULL1, "override ffn_")
    assert where["blk.2.ffn_gate_up"][0] == NULL1
    assert where["blk.2.attn_qkv"] == (NULL0, "layer 2")
    assert where["token_embd"] == (NULL0, "with the first layer")
    assert where["logits"] == (NULL0, "with the last layer")


@pytest.mark.parametrize(("overrides", "message"), [
    ({"ffn_(": "cpu"}, "regular expression"), ({"ffn": "gpu"}, "'gpu' is not among"),
    ({"ffn": "null:7"}, "in use: cpu:0, null:0")])
def test_bad_overrides(tiny: Tiny, overrides: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match="override_tensor") as caught:
        layers(tiny.graph, CPU, NULL0, override_tensor=overrides)
    assert message in str(caught.value)


@given(n_layers=st.integers(1, 200), n_offloaded=st.integers(0, 200), order=st.sampled_from(
    ["first", "last"]), shares=st.lists(st.floats(0, 1e6), min_size=1, max_size=5).filter(
        lambda shares: max(shares) > 1))
@example(n_layers=7, n_offloaded=7, order="first", shares=[0.2] * 5)
@example(n_layers=9, n_offloaded=9, order="last", shares=[1e9, 5e-324])
@example(n_layers=100, n_offloaded=99, order="first", shares=[2.0])
def test_any_shares_partition_the_layers(n_layers: int, n_offloaded: int, order: str,
                                         shares: list[float]) -> None:
    names = [CPU, *(f"null:{i}" for i in range(len(shares)))]
    n_offloaded = min(n_offloaded, n_layers)
    got = layers(Graph((), {}, {}, n_layers), *names, n_gpu_layers=n_offloaded,
                 tensor_split=shares, offload_order=order)
    n = n_layers if n_offloaded == 99 else n_offloaded  # 99: all
    gpu = got[:n] if order == "first" else got[n_layers - n:]
    assert CPU not in gpu and got.count(CPU) == n_layers - n
    assert gpu == sorted(gpu), "each device's layers are consecutive, in the devices' order"
    for i, share in enumerate(shares):
        assert abs(gpu.count(f"null:{i}") - n * (share / sum(shares))) <= 1 + 1e-9
