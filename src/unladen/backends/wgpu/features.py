"""The abilities of an adapter, beyond plain WGSL, that kernels may use, and those that they use.

``subgroups``: the hardware's reductions add over the threads of a workgroup. ``int_dot``: where
weights are int8 codes times a scale, activations are rounded to int8 too, and one instruction
multiplies four pairs.

On an H200 (Vulkan, driver 580) ``int_dot`` multiplies matrices of 2048 to 14336 columns with 512
rows at 34 to 50 TFLOP/s, and float32 tiles reach 21 to 29. With one row it reads Q4_K and Q6_K at
1.0 to 2.1 TB/s, and float32 at 0.5 to 1.6; for the smallest matrices the two are equal.
``subgroups`` made no difference beyond the noise. WebGPU doesn't say whether a driver has an
instruction for packed products: Vulkan and D3D12 on recent hardware do, Metal doesn't. On a
software adapter (lavapipe of Mesa 22.3, two cores, products of 2048 columns) ``int_dot`` took 0.8
to 2.4 times as long as plain kernels, and ``subgroups`` as long within the noise, so it uses
neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from unladen.backends._gpu import abilities

VARIABLE = "UNLADEN_WGPU_FEATURES"
"""The environment variable with the names of features to use, with commas between them, or "none".
If it isn't set, kernels use what suits the adapter."""
WANTED: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "subgroups": ("subgroup",), "int_dot": ()})
"""The features of wgpu that an adapter must have for each ability. ``int_dot`` needs none: packed
products are part of the language."""


def available(adapter: Any) -> frozenset[str]:
    """The features that the adapter has."""
    return frozenset(name for name, needs in WANTED.items() if adapter.features.issuperset(needs))


def chosen(adapter: Any) -> frozenset[str]:
    """The features that kernels use. Raises :class:`InvalidArgument` where the environment asks for
    one that doesn't exist or that the adapter lacks."""
    return abilities.chosen(VARIABLE, available(adapter), adapter.info["device"],
                            _suitable(adapter.info), known=WANTED)


def listed(adapter: Any) -> frozenset[str]:
    """The features that kernels use, without those that the environment asks for and the adapter
    lacks: only opening it is an error then. Raises :class:`InvalidArgument` where the environment
    asks for one that doesn't exist."""
    return available(adapter) & abilities.chosen(
        VARIABLE, frozenset(WANTED), adapter.info["device"], _suitable(adapter.info), known=WANTED)


def _suitable(info: Mapping[str, Any]) -> frozenset[str]:
    if info["adapter_type"] == "CPU":
        return frozenset()
    return frozenset(WANTED) - ({"int_dot"} if info["backend_type"] == "Metal" else set())


def device_features(adapter: Any) -> list[str]:
    """The features of wgpu to request, so that kernels may use all :func:`available` abilities."""
    return sorted(feature for name in available(adapter) for feature in WANTED[name])
