"""Which device each layer, weight and cache belongs to: what the user asked for, made exact."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from unladen.backends.base import Device
from unladen.errors import InvalidArgument
from unladen.graph.graph import Graph, Node

SPLIT_MODES = ("layer", "none")
OFFLOAD_ORDERS = ("first", "last")


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """What a user may say about placement; the names of :class:`unladen.Model`'s parameters.

    ``n_gpu_layers``: how many layers go to devices other than the host's CPU, counted from the
    first or (``offload_order``) from the last; "auto", "all", -1 and everything beyond the last
    layer mean all. ``tensor_split``: shares of the devices, in any unit. ``override_tensor``:
    regular expression over weight names to device; the first that is found in the name holds.
    """

    n_gpu_layers: int | Literal["auto", "all"] = "auto"
    offload_order: str = "first"
    split_mode: str = "layer"
    tensor_split: Sequence[float] | None = None
    main_gpu: int = 0
    override_tensor: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placement:
    """The device of every node, by name, and why."""

    device_of: Mapping[Node, Device]
    why: Mapping[Node, str]
    layers: tuple[Device, ...]


def place(graph: Graph, devices: Sequence[Device], options: PlaceOptions) -> Placement:
    """Give each node of ``graph`` one of ``devices``; raises :class:`InvalidArgument`.

    Nodes before the layers stand with the first layer, those after them with the last: a step
    crosses as few borders as the layers do.
    """
    layers = _place_layers(graph.n_layers, devices, options)
    by_name = {d.name: d for d in devices}
    overrides = [(_pattern(p), _device(by_name, d)) for p, d in options.override_tensor.items()]
    device_of: dict[Node, Device] = {}
    why: dict[Node, str] = {}
    for node in graph.nodes:
        device_of[node], why[node] = _place_node(node, layers, overrides)
    return Placement(device_of, why, tuple(layers))


def _place_node(node: Node, layers: Sequence[Device],
                overrides: Sequence[tuple[re.Pattern[str], Device]]) -> tuple[Device, str]:
    for pattern, device in overrides:
        for weight in node.weights.values():
            if pattern.search(weight.name):
                return device, f"override {pattern.pattern}"
    if node.layer >= 0:
        return layers[node.layer], f"layer {node.layer}"
    return (layers[0], "with the first layer") if node.layer == -1 else (
        layers[-1], "with the last layer")


def _place_layers(n_layers: int, devices: Sequence[Device], options: PlaceOptions
                  ) -> list[Device]:
    for name, value, known in (("split_mode", options.split_mode, SPLIT_MODES),
                               ("offload_order", options.offload_order, OFFLOAD_ORDERS)):
        if value not in known:
            raise InvalidArgument(f"{name}={value!r} isn't known", hint="use " + ", ".join(known))
    host = next((d for d in devices if d.is_host), None)
    others = [d for d in devices if not d.is_host]
    n_offloaded = _n_offloaded(n_layers, options.n_gpu_layers)
    if not others:
        others, n_offloaded = list(devices), n_layers
    if host is None and n_offloaded < n_layers:
        raise InvalidArgument(f"n_gpu_layers={options.n_gpu_layers} leaves layers to the CPU, "
                              "which is not among the devices", hint="add cpu to the devices")
    if options.split_mode == "none":
        if not 0 <= options.main_gpu < len(others):
            raise InvalidArgument(f"main_gpu={options.main_gpu} names none of {len(others)} "
                                  "devices", hint=f"use 0 to {len(others) - 1}")
        others = [others[options.main_gpu]]
    spread = _spread(n_offloaded, others, options.tensor_split)
    rest = [host] * (n_layers - n_offloaded) if host is not None else []
    return spread + rest if options.offload_order == "first" else rest + spread


def _n_offloaded(n_layers: int, wanted: int | str) -> int:
    if wanted in ("auto", "all", -1):
        return n_layers
    if not isinstance(wanted, int) or wanted < 0:
        raise InvalidArgument(f"n_gpu_layers={wanted!r} makes no sense",
                              hint='use "auto", "all" (or -1), 0, or a number of layers')
    return min(wanted, n_layers)


def _spread(n: int, devices: Sequence[Device], shares: Sequence[float] | None) -> list[Device]:
    """``n`` layers over ``devices`` in order, by ``shares`` (equal ones if None), rounded so that
    each boundary is the nearest to its exact place."""
    shares = [1.0] * len(devices) if shares is None else list(shares)
    if len(shares) != len(devices) or min(shares) < 0 or not 0 < sum(shares) < math.inf:
        raise InvalidArgument(f"tensor_split={shares} doesn't fit {len(devices)} devices",
                              hint="give one share for each device, none negative, not all zero")
    result: list[Device] = []
    total = 0.0
    for device, share in zip(devices, shares, strict=True):
        total += share
        result += [device] * (round(n * (total / sum(shares))) - len(result))
    return result


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidArgument(f"override_tensor: {text!r} is no regular expression: {error}",
                              hint="for example 'ffn_.*=cpu'") from None


def _device(by_name: Mapping[str, Device], name: str) -> Device:
    full = name if ":" in name else f"{name}:0"
    if full not in by_name:
        raise InvalidArgument(f"override_tensor: {name!r} is not among the devices in use",
                              hint="in use: " + ", ".join(by_name))
    return by_name[full]
