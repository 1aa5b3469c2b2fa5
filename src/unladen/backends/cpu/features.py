"""What this machine's processor is and has."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from unladen._native import cpu as native
from unladen.errors import InvalidArgument

ISA_VARIABLE = "UNLADEN_CPU_ISA"


def isa_level() -> str:
    """The instruction-set level to use: the best present, or what ``UNLADEN_CPU_ISA`` names."""
    present = native.levels()
    forced = os.environ.get(ISA_VARIABLE)
    if forced is None:
        return present[-1]
    if forced not in present:
        raise InvalidArgument(f"{ISA_VARIABLE}={forced} isn't possible on this machine",
                              hint="possible: " + ", ".join(present))
    return forced


def n_physical_cores() -> int:
    """Cores that this process may use, hardware threads of one core counted once."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if allowed is None:
        return os.cpu_count() or 1
    cores = set()
    for n in allowed:
        path = Path(f"/sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list")
        cores.add(path.read_text().strip() if path.exists() else str(n))
    return len(cores) or 1


def processor_name() -> str:
    """The maker's name for the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
