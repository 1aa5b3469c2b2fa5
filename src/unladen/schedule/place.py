"""Decides the device of each layer, weight and cache from the user's options."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from unladen.backends.base import Device, full_name
from unladen.errors import InvalidArgument
from unladen.graph.graph import AFTER_LAYERS, BEFORE_LAYERS, Graph, Node
from unladen.graph.ops.moe import first_expert, n_held, n_networks

SPLIT_MODES = ("layer", "none", "row", "tensor")
"""Values of ``split_mode``."""

OFFLOAD_ORDERS = ("first", "last", "cost")
"""Values of ``offload_order``."""

STREAMS: tuple[bool | str, ...] = ("auto", True, False)
"""Values of ``stream_weights``."""

EVERYTHING = 99
"""A value of ``n_gpu_layers`` that users commonly write to mean all layers."""

EXPERTS = re.compile(r"\.ffn_(gate|up|down)_exps\.")
"""Matches the names of weights that hold a layer's experts."""


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """The user's options for placement; they have the names of :class:`unladen.Model`'s parameters.

    * ``n_gpu_layers``: how many layers go to devices other than the host. "all", -1, 99 and any
      number beyond those that there are mean all; "auto" is what is predicted to be fastest.
    * ``offload_order``: which layers these are: the "first" ones, the "last" ones, or ("cost")
      those at the end that is predicted to be faster.
    * ``split_mode``: "layer" gives each device whole layers; "none" uses the device ``main_gpu``
      alone; "row" divides every matrix of the offloaded layers by its rows, "tensor" by heads and
      feed-forward columns, over all devices.
    * ``tensor_split``: shares of the devices, in any unit; fractions must sum to 1. With these,
      "auto" finds how many layers are offloaded.
    * ``override_tensor``: regular expression over names of weights to device; the first that is
      found in the name holds.
    * ``cpu_moe``: keep all experts on the host.
    * ``n_cpu_moe``: keep the experts of that many layers on the host, from the first on; None: no
      layers, or with "auto" as many as is predicted to be fastest.
    * ``kv_offload``: False keeps all caches, and the attention over them, on the host.
    * ``embed_device``, ``head_device``: where the token embeddings and the output head go; None:
      with the first and the last layer, or with "auto" where it is predicted to be fastest.
    * ``expert_split``: shares of all devices, the host too, in the experts of every layer, wherever
      the layer is. Experts that other options place stay whole.
    * ``stream_weights``: in steps of many tokens, the host's products run on another device, and
      their weights pass through it. "auto": where there is room left for that, in steps that are
      predicted to be faster so; True: in all steps of two tokens or more, with room made for it.
    * ``expert_cache``: how many experts of each layer that keeps its experts on the host are also
      in the memory of the layer's device: those that are used most. "auto": as many as half of the
      memory holds that is left.
    """

    n_gpu_layers: int | Literal["auto", "all"] = "auto"
    offload_order: str = "first"
    split_mode: str = "layer"
    tensor_split: Sequence[float] | None = None
    main_gpu: int = 0
    override_tensor: Mapping[str, str] = field(default_factory=dict)
    cpu_moe: bool = False
    n_cpu_moe: int | None = None
    kv_offload: bool = True
    embed_device: str | None = None
    head_device: str | None = None
    expert_split: Sequence[float] | None = None
    stream_weights: bool | Literal["auto"] = "auto"
    expert_cache: int | Literal["auto"] = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """The choices that decide a placement: the device of each of the ``layers``, of the token
    embeddings (``embed``) and of the output head (``head``), and the number of layers, from the
    first on, that keep their experts on the host."""

    layers: tuple[Device, ...]
    embed: Device
    head: Device
    n_cpu_moe: int = 0

    def __repr__(self) -> str:
        return (f"<Choice: {numbers(self.layers)} layers, embeddings on {self.embed.name}, head on "
                f"{self.head.name}>")


@dataclass(frozen=True, slots=True)
class Placement:
    """The device of every node, and why it is there; the device of every layer."""

    device_of: Mapping[Node, Device]
    why: Mapping[Node, str]
    layers: tuple[Device, ...]

    def __repr__(self) -> str:
        return f"<Placement: {numbers(self.device_of.values())} nodes>"


def numbers(devices: Iterable[Device]) -> str:
    """How often each of ``devices`` occurs, as text for people: "cpu:0 3, wgpu:0 29"."""
    counts = Counter(d.name for d in devices)
    return ", ".join(f"{name} {n}" for name, n in counts.items()) or "no"


def place(graph: Graph, devices: Sequence[Device], options: PlaceOptions,
          choice: Choice | None = None, shards: Mapping[Node, Device] | None = None) -> Placement:
    """Give each node of ``graph`` one of ``devices``; raises :class:`InvalidArgument`.

    ``choice``: None takes that of :func:`choose`. ``shards``: the devices of parts of divided
    nodes. Unless options say otherwise, nodes before the layers go with the first layer and nodes
    after them with the last, so that a step crosses no more borders than the layers do.
    """
    choice = choice or choose(graph.n_layers, devices, options)
    part_of = {n: (d, f"its part by {options.split_mode}") for n, d in (shards or {}).items()}
    pinned = part_of | pins(graph, devices, options, choice.n_cpu_moe)
    device_of: dict[Node, Device] = {}
    why: dict[Node, str] = {}
    for node in graph.nodes:
        device_of[node], why[node] = pinned.get(node) or _by_layer(node, choice)
    return Placement(device_of, why, choice.layers)


def _by_layer(node: Node, choice: Choice) -> tuple[Device, str]:
    if node.layer >= 0:
        # A layer that reads another layer's cache goes to the device of that cache.
        layer = min(node.layer, node.state.layer) if node.state is not None else node.layer
        return choice.layers[layer], f"layer {layer}"
    device, near, end = (choice.head, choice.layers[-1], "last")
    if node.layer == BEFORE_LAYERS:
        device, near, end = choice.embed, choice.layers[0], "first"
    return device, f"with the {end} layer" if device == near else "faster than with the layers"


def choose(n_layers: int, devices: Sequence[Device], options: PlaceOptions,
           n_offloaded: int | None = None) -> Choice:
    """The choice that ``options`` ask for. ``n_offloaded``: layers on devices other than the host,
    None for as many as ``options`` say; here "auto" means all layers, and "cost" the first ones.
    Raises :class:`InvalidArgument`."""
    check(options)
    host, others = host_and_others(devices, options)
    _main(others if options.split_mode != "none" else _others(devices), options.main_gpu)
    if n_offloaded is None:
        n_offloaded = count_offloaded(n_layers, options.n_gpu_layers)
    if host in others:
        n_offloaded = n_layers
    if host is None and n_offloaded < n_layers:
        raise InvalidArgument(f"n_gpu_layers={options.n_gpu_layers} leaves layers to the CPU, "
                              "which is not among the devices", hint="add cpu to the devices")
    spread = _spread(n_offloaded, others, options.tensor_split)
    if options.split_mode in ("row", "tensor"):
        spread = [_main(others, options.main_gpu)] * n_offloaded
    rest = [host] * (n_layers - n_offloaded) if host is not None else []
    layers = tuple(rest + spread if options.offload_order == "last" else spread + rest)
    return Choice(layers, layers[0] if layers else devices[0], layers[-1] if layers else devices[0],
                  options.n_cpu_moe or 0)


def check(options: PlaceOptions) -> None:
    """Raise :class:`InvalidArgument` for values that are wrong whatever the devices are."""
    for name, value, allowed in (("split_mode", options.split_mode, SPLIT_MODES),
                                 ("offload_order", options.offload_order, OFFLOAD_ORDERS),
                                 ("stream_weights", options.stream_weights, STREAMS)):
        if value not in allowed:
            raise InvalidArgument(f"{name}={value!r} isn't known",
                                  hint="use " + ", ".join(map(str, allowed)))
    if options.n_cpu_moe is not None and options.n_cpu_moe < 0:
        raise InvalidArgument(f"n_cpu_moe must be at least 0, got {options.n_cpu_moe}",
                              hint="None keeps no experts on the CPU")


def host_and_others(devices: Sequence[Device], options: PlaceOptions
                    ) -> tuple[Device | None, list[Device]]:
    """The host's device, if it is among ``devices``, and the devices that layers are offloaded to:
    all others, or all where there are no others."""
    host = next((d for d in devices if d.is_host), None)
    others = _others(devices)
    if options.split_mode == "none":
        others = [_main(others, options.main_gpu)]
    return host, others


def _others(devices: Sequence[Device]) -> list[Device]:
    return [d for d in devices if not d.is_host] or list(devices)


def _main(devices: Sequence[Device], number: int) -> Device:
    if not 0 <= number < len(devices):
        n = len(devices)
        those = "0" if n == 1 else f"a number from 0 to {n - 1}"
        used = ", ".join(d.name for d in devices)
        raise InvalidArgument(f"main_gpu must be {those}, got {number}: it counts the devices in "
                              f"use, {used}", hint="name more with devices (--device)")
    return devices[number]


def count_offloaded(n_layers: int, wanted: int | str) -> int:
    """The number of layers that ``n_gpu_layers`` stands for; raises :class:`InvalidArgument`."""
    if wanted in ("auto", "all", -1, EVERYTHING):
        return n_layers
    if not isinstance(wanted, int) or wanted < 0:
        raise InvalidArgument(f"n_gpu_layers must be a number of layers from 0 on, got {wanted!r}",
                              hint='"all" or -1 means all layers, "auto" as many as is fastest')
    return min(wanted, n_layers)


def in_vain(wanted: int | str, devices: Sequence[Device]) -> str:
    """Says that ``n_gpu_layers``, which is ``wanted``, has no effect because all ``devices`` are
    the host's; "" where it has one."""
    if wanted in ("auto", 0) or not all(d.is_host for d in devices):
        return ""
    names = ", ".join(d.name for d in devices)
    return (f"n_gpu_layers={wanted} has no effect: the model is on {names} alone (hint: unladen "
            "doctor says which GPUs can be used, and why others can't)")


def _spread(n: int, devices: Sequence[Device], shares: Sequence[float] | None) -> list[Device]:
    """Spread ``n`` layers over ``devices`` in order, by ``shares`` (None: equal ones). Each border
    is rounded to the nearest layer."""
    exact = fractions(len(devices), shares)
    result: list[Device] = []
    total = 0.0
    for device, share in zip(devices, exact, strict=True):
        total += share
        result += [device] * (math.floor(n * total + 0.5) - len(result))
    return result[:n]


def cuts(n: int, shares: Sequence[float], unit: int) -> list[tuple[int, int]]:
    """Divide ``n`` into ranges by ``shares``, with borders at multiples of ``unit``, which divides
    n: the first element of each range, and the one after its last."""
    bounds = [round(n // unit * min(s, 1.0)) * unit for s in itertools.accumulate(shares)]
    bounds[-1] = n
    return list(itertools.pairwise([0, *bounds]))


def held(node: Node, devices: Sequence[Device], options: PlaceOptions
         ) -> list[tuple[Device, int, int]]:
    """The devices to which ``expert_split`` gives experts of the ``moe`` node ``node``, each with
    the first of its experts and their number; raises :class:`InvalidArgument`."""
    shares = fractions(len(devices), options.expert_split, "expert_split")
    ranges = cuts(n_networks(node), shares, 1)
    return [(d, a, b - a) for d, (a, b) in zip(devices, ranges, strict=True) if a < b]


def fractions(n_devices: int, shares: Sequence[float] | None, option: str = "tensor_split"
              ) -> list[float]:
    """The ``shares`` of ``option`` as parts of 1; None: equal ones. Raises
    :class:`InvalidArgument`."""
    if shares is None:
        return [1 / n_devices] * n_devices
    values = list(shares)
    if len(values) != n_devices or min(values) < 0 or not 0 < sum(values) < math.inf:
        raise InvalidArgument(f"{option}={values} doesn't fit {n_devices} devices",
                              hint="give one share for each device, none negative, not all zero")
    whole = all(float(v).is_integer() for v in values)
    if max(values) <= 1 and not whole and abs(sum(values) - 1) > 0.01:
        raise InvalidArgument(f"{option}={values} sums to {sum(values):g}, not to 1",
                              hint="give fractions of 1, or shares in any unit above 1, like 3,2")
    return [v / sum(values) for v in values]


def pins(graph: Graph, devices: Sequence[Device], options: PlaceOptions, n_cpu_moe: int
         ) -> dict[Node, tuple[Device, str]]:
    """The device of each node that an option places apart from its layer, and why; raises
    :class:`InvalidArgument`."""
    by_name = {d.name: d for d in devices}
    overrides = [(_pattern(p), _device(by_name, d, "override_tensor"))
                 for p, d in options.override_tensor.items()]
    ends = {BEFORE_LAYERS: options.embed_device, AFTER_LAYERS: options.head_device}
    n_cpu_moe = graph.n_layers if options.cpu_moe else n_cpu_moe
    host = next((d for d in devices if d.is_host), None)
    if host is None and (n_cpu_moe or not options.kv_offload):
        what = "cpu_moe" if n_cpu_moe else "kv_offload=False"
        raise InvalidArgument(f"{what} needs the CPU, which is not among the devices",
                              hint="add cpu to the devices")
    found: dict[Node, tuple[Device, str]] = {}
    for node in graph.nodes:
        names = [w.name for w in node.weights.values()]
        pattern, device = next(((p, d) for p, d in overrides for n in names if p.search(n)),
                               (None, None))
        end = ends.get(node.layer)
        if pattern is not None and device is not None:
            found[node] = device, f"override {pattern.pattern}"
        elif host and node.state is not None and not options.kv_offload:
            found[node] = host, "kv_offload is off"
        elif host and 0 <= node.layer < n_cpu_moe and any(map(EXPERTS.search, names)):
            found[node] = host, "experts stay on the CPU"
        elif options.expert_split is not None and (part := _part(node, devices, options)):
            found[node] = part, "its part by expert_split"
        elif end is not None:
            option = "embed_device" if node.layer == BEFORE_LAYERS else "head_device"
            found[node] = _device(by_name, end, option), option
    return found


def _part(node: Node, devices: Sequence[Device], options: PlaceOptions) -> Device | None:
    if node.op != "moe":
        return None
    mine = first_expert(node), n_held(node)
    return next((d for d, *part in held(node, devices, options) if tuple(part) == mine), None)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidArgument(f"override_tensor: {text!r} isn't a regular expression: {error}",
                              hint="for example 'ffn_.*=cpu'") from None


def _device(by_name: Mapping[str, Device], name: str, option: str) -> Device:
    full = full_name(name)
    if full not in by_name:
        raise InvalidArgument(f"{option}: {name!r} is not among the devices in use",
                              hint="in use: " + ", ".join(by_name))
    return by_name[full]
