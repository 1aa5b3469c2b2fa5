"""The abilities of a device, beyond OpenCL 1.2, that may be used, and those that are used.

``subgroups``: the hardware's reductions add over the threads of a workgroup. ``int_dot``: where
weights are int8 codes times a scale, activations are rounded to int8 too, and one instruction
multiplies four pairs. A device without this instruction can compute the same, so ``int_dot`` can be
asked for everywhere. ``command_buffers``: decode steps are recorded once (``recording.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from unladen.backends._gpu import abilities
from unladen.backends.opencl import recording

VARIABLE = "UNLADEN_OPENCL_FEATURES"
"""The environment variable with the names of features to use, with commas between them, or "none".
If it isn't set, what the device has is used."""
WANTED: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "subgroups": ("cl_khr_subgroups", "__opencl_c_subgroups"),
    "int_dot": ("cl_khr_integer_dot_product",), recording.FEATURE: (recording.EXTENSION,)})
"""Extensions of OpenCL, and features of OpenCL C 3.0, one of which a device has for each
ability."""
VERSIONS: Mapping[str, tuple[int, int]] = MappingProxyType({
    "subgroups": (2, 0), "int_dot": (3, 0), recording.FEATURE: (1, 2)})
"""The first version of OpenCL C whose compilers know the functions of each ability."""


def available(names: Sequence[str], version: tuple[int, int]) -> frozenset[str]:
    """The abilities of a device with extensions and features of these ``names``, as far as they
    tell, where ``version`` of OpenCL C is the newest one that it takes."""
    return frozenset(name for name, any_of in WANTED.items()
                     if set(any_of) & set(names) and version >= VERSIONS[name])


def chosen(there: frozenset[str], device: str) -> frozenset[str]:
    """The abilities that are used of ``there``, those of ``device``. Raises
    :class:`InvalidArgument` where the environment asks for one that doesn't exist or that the
    device lacks."""
    return abilities.chosen(VARIABLE, there | {"int_dot"}, device, there, known=WANTED)
