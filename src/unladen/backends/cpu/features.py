"""This machine's processor: its name, its cores and its instruction sets."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from unladen._native import cpu as native
from unladen.backends._system import this_system
from unladen.errors import InvalidArgument

ISA_VARIABLE = "UNLADEN_CPU_ISA"
"""The environment variable that names the instruction-set level to use."""

INSTRUCTION_SETS = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl",
                    "avx512_vnni", "avx512vbmi", "gfni", "avx512_bf16", "avx512_fp16", "amx_tile",
                    "amx_int8", "amx_bf16", "neon", "asimd", "asimdhp", "asimddp", "i8mm", "bf16",
                    "sve", "sve2")
"""The instruction sets to report, by Linux's names."""


def isa_level() -> str:
    """The instruction-set level to use: the best present, or what ``UNLADEN_CPU_ISA`` names."""
    present = native.levels()
    forced = os.environ.get(ISA_VARIABLE)
    if forced is None:
        return present[-1]
    if forced not in present:
        raise InvalidArgument(f"{ISA_VARIABLE} must be a level of this machine, got {forced}",
                              hint="use " + ", ".join(present))
    return forced


def n_physical_cores(among: Collection[int] | None = None) -> int:
    """How many cores this process may use, within its container's limit. Hardware threads of one
    core count once. With ``among`` only these processors count."""
    return this_system().n_cores(among)


def processor_name() -> str:
    """The maker's name for the processor."""
    return this_system().processor_name()


def isa_levels() -> list[str]:
    """The levels that this processor and this build have, the best last."""
    return list(native.levels())


def instruction_sets() -> list[str]:
    """Those of :data:`INSTRUCTION_SETS` that the processor has."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    flags = next((line.partition(":")[2].split() for line in lines
                  if line.partition(":")[0].strip() in ("flags", "Features")), [])
    return [name for name in INSTRUCTION_SETS if name in flags]
