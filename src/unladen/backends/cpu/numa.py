"""On which processors threads run where a machine's memory is divided among nodes."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from unladen._native import cpu as native
from unladen.errors import InvalidArgument

SYSTEM_NODES = Path("/sys/devices/system/node")
STRATEGIES = ("distribute", "isolate", "numactl")


def placement(strategy: str | None, n_threads: int) -> list[list[int]]:
    """The processors of each of ``n_threads`` threads; empty: any, and nothing is pinned.

    "distribute" spreads threads over all nodes in turn; "isolate" keeps them on the node where the
    caller is; "numactl" keeps them where the process was allowed to run when this is called, as
    ``numactl`` or ``taskset`` have it. Raises :class:`InvalidArgument`.
    """
    if strategy is None:
        return []
    check(strategy)
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    return choose(strategy, n_threads, nodes(SYSTEM_NODES), allowed, native.current_cpu())


def check(strategy: str) -> None:
    """Raises :class:`InvalidArgument` for one that isn't known."""
    if strategy not in STRATEGIES:
        raise InvalidArgument(f"numa={strategy!r} isn't known", hint="use " + ", ".join(STRATEGIES))


def nodes(root: Path) -> dict[int, list[int]]:
    """The processors of each node of the system tree at ``root``; those without any are left out.
    """
    found = {}
    for folder in root.glob("node[0-9]*"):
        path = folder / "cpulist"
        cpus = cpu_list(path.read_text()) if path.exists() else []
        if cpus:
            found[int(folder.name.removeprefix("node"))] = cpus
    return dict(sorted(found.items()))


def cpu_list(text: str) -> list[int]:
    """What the kernel writes as "0-3,8": 0, 1, 2, 3, 8."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if first:
            cpus += range(int(first), int(last if dash else first) + 1)
    return cpus


def choose(strategy: str, n_threads: int, by_node: Mapping[int, Sequence[int]],
           allowed: Collection[int], here: int) -> list[list[int]]:
    """:func:`placement` on nodes ``by_node``, of which the process may use ``allowed``; the caller
    runs on processor ``here``."""
    everywhere = sorted(allowed)
    usable = [found for cpus in by_node.values() if (found := sorted(set(cpus) & set(allowed)))]
    if not everywhere:
        return []
    if strategy == "numactl" or not usable:
        return [everywhere]
    if strategy == "isolate":
        return [next((cpus for cpus in usable if here in cpus), usable[0])]
    return [usable[i % len(usable)] for i in range(n_threads)]
