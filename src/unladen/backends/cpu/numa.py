"""Chooses processors for threads on machines whose memory is divided among NUMA nodes."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from unladen._native import cpu as native
from unladen.errors import InvalidArgument

SYSTEM_NODES = Path("/sys/devices/system/node")
"""Linux's folder of NUMA nodes."""
STRATEGIES = ("distribute", "isolate", "numactl")
"""Values of the parameter ``numa``; see :func:`placement`."""


def placement(strategy: str | None, n_threads: int) -> list[list[int]]:
    """The processors for each of ``n_threads`` threads. Empty: no thread is pinned.

    "distribute" spreads threads over all nodes in turn. "isolate" keeps them on the caller's node.
    "numactl" keeps them on the processors where the process may run now, as set by ``numactl`` or
    ``taskset``. Raises :class:`InvalidArgument`.
    """
    if strategy is None:
        return []
    check(strategy)
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    return choose(strategy, n_threads, nodes(SYSTEM_NODES), allowed, native.current_cpu())


def check(strategy: str) -> None:
    """Raise :class:`InvalidArgument` for an unknown strategy."""
    if strategy not in STRATEGIES:
        raise InvalidArgument(f"numa must be one of {', '.join(STRATEGIES)}, got {strategy!r}",
                              hint="leave it out to let the system place threads")


def nodes(root: Path) -> dict[int, list[int]]:
    """The processors of each node in the folder ``root``. Nodes without processors are left out."""
    found = {}
    for folder in root.glob("node[0-9]*"):
        path = folder / "cpulist"
        cpus = cpu_list(path.read_text()) if path.exists() else []
        if cpus:
            found[int(folder.name.removeprefix("node"))] = cpus
    return dict(sorted(found.items()))


def cpu_list(text: str) -> list[int]:
    """The numbers in a list as the kernel writes it: 0, 1, 2, 3, 8 for "0-3,8"."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if first:
            cpus += range(int(first), int(last if dash else first) + 1)
    return cpus


def choose(strategy: str, n_threads: int, by_node: Mapping[int, Sequence[int]],
           allowed: Collection[int], here: int) -> list[list[int]]:
    """:func:`placement` for given nodes.

    * ``strategy``, ``n_threads``: see :func:`placement`.
    * ``by_node``: the processors of each node.
    * ``allowed``: the processors that the process may use.
    * ``here``: the processor that runs the caller.
    """
    everywhere = sorted(allowed)
    usable = [found for cpus in by_node.values() if (found := sorted(set(cpus) & set(allowed)))]
    if not everywhere:
        return []
    if strategy == "numactl" or not usable:
        return [everywhere]
    if strategy == "isolate":
        return [next((cpus for cpus in usable if here in cpus), usable[0])]
    return [usable[i % len(usable)] for i in range(n_threads)]
