"""Linux: /proc and /sys, and the limits of control groups."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from unladen.backends import _cgroups as cgroups
from unladen.backends._system import UNKNOWN_BYTES
from unladen.backends._system_posix import Posix


class Linux(Posix):
    """Linux, with its files below ``root``: / except in tests."""

    def __init__(self, libc: Any = None, root: Path = Path("/")) -> None:
        super().__init__(libc)
        self._root = root
        self._groups = root / "sys/fs/cgroup", root / "proc/self/cgroup"

    def machine_bytes(self) -> int:
        return self._meminfo("MemTotal")

    def total_bytes(self) -> int:
        return min(self.machine_bytes(), cgroups.limit_bytes(*self._groups))

    def free_bytes(self) -> int:
        return min(self._meminfo("MemAvailable"),
                   cgroups.free_bytes(*self._groups, cache_is_free=True))

    def n_cores(self, among: Collection[int] | None = None) -> int:
        allowed = (os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity")
                   else set(range(os.cpu_count() or 1)))
        cores = set()
        for n in allowed if among is None else allowed & set(among):
            path = self._root / f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list"
            cores.add(path.read_text().strip() if path.exists() else str(n))
        n_cpus = cgroups.n_cpus(*self._groups)
        return max(1, min(len(cores), len(cores) if n_cpus is None else n_cpus))

    def processor_name(self) -> str:
        info = self._root / "proc/cpuinfo"
        if info.exists():
            for line in info.read_text().splitlines():
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
        return super().processor_name()

    def _meminfo(self, key: str) -> int:
        path = self._root / "proc/meminfo"
        if path.exists():
            for line in path.read_text().splitlines():
                if line.startswith(key + ":"):
                    return int(line.split()[1]) * 1024
        return UNKNOWN_BYTES
