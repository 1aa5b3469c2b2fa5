"""What kernels may use of an adapter beyond plain WGSL, and what they do use.

``subgroups``: sums over the threads of a workgroup by the hardware's own reductions. ``int_dot``:
where weights are int8 codes times a scale, activations are rounded to int8 too and four products
are one instruction. ``f16``: tiles of a prefill hold such codes, and activations relative to the
largest of 32, as float16; sums stay float32. Where both are there, products with such weights use
``int_dot``.

None of the defaults for GPUs has been measured on one. The reasoning: reading quantized weights is
what a decode step should wait for, and unpacking them to float32 takes several instructions a
weight, a packed product a quarter of one, so ``int_dot`` is used where drivers have it as an
instruction (WebGPU can't ask; Vulkan and D3D12 on hardware of the last years do, Metal doesn't);
float16 tiles halve the traffic of workgroup memory, which the tiled product waits for; subgroups
save barriers. On a software adapter (lavapipe of Mesa 22.3, two cores, products of 2048 columns)
``int_dot`` took 0.8 to 2.4 times as long as plain kernels, ``f16`` tiles 1.5 times, ``subgroups``
as long within the noise; so it uses none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from unladen.backends.base import Options
from unladen.backends.wgpu.source import has_codes
from unladen.errors import InvalidArgument

VARIABLE = "UNLADEN_WGPU_FEATURES"
"""Names by comma of those that are used, or "none"; not set: what suits the adapter."""
WANTED: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "subgroups": ("subgroup",), "int_dot": (), "f16": ("shader-f16",)})
"""The adapter's features that each takes; packed integer products are part of the language."""

MULTIPLYING = frozenset({"linear", "moe"})
REDUCING = MULTIPLYING | {"rms_norm", "layer_norm"}


def available(adapter: Any) -> frozenset[str]:
    """Those that the adapter has."""
    return frozenset(name for name, needs in WANTED.items() if adapter.features.issuperset(needs))


def chosen(adapter: Any) -> frozenset[str]:
    """Those that kernels use; raises :class:`InvalidArgument` where the environment asks for what
    doesn't exist or what the adapter lacks."""
    there = available(adapter)
    text = os.environ.get(VARIABLE)
    if text is None:
        return there & _suitable(adapter.info)
    asked = frozenset(text.split(",")) - {"none", ""}
    if not asked <= there:
        raise InvalidArgument(
            f"{VARIABLE} asks for {', '.join(sorted(asked - there))}, which "
            f"{adapter.info['device']} lacks",
            hint=f"use some of {', '.join(sorted(there))}, or none")
    return asked


def _suitable(info: Mapping[str, Any]) -> frozenset[str]:
    if info["adapter_type"] == "CPU":
        return frozenset()
    return frozenset(WANTED) - ({"int_dot"} if info["backend_type"] == "Metal" else set())


def of_node(there: frozenset[str], op: str, formats: frozenset[str], options: Options
            ) -> frozenset[str]:
    """Which of the features that are ``there`` serve nodes of ``op`` with weights in ``formats``.
    """
    used = there & {"subgroups"} if op in REDUCING else frozenset()
    if op in MULTIPLYING and not options.precise and any(map(has_codes, formats)):
        used |= there & {"int_dot"} or there & {"f16"}
    return used


def device_features(adapter: Any) -> list[str]:
    """What a device is asked for, so that its kernels may use all that is :func:`available`."""
    return sorted(feature for name in available(adapter) for feature in WANTED[name])
