"""Where threads run, on system trees of other machines; and busy neighbours."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from unladen import Model
from unladen.backends.cpu import numa
from unladen.errors import InvalidArgument

ALLOWED = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
needs_affinity = pytest.mark.skipif(not ALLOWED, reason="the system has no processor affinity")


def tree(root: Path, **cpulists: str) -> Path:
    for name, cpus in cpulists.items():
        (root / name).mkdir(parents=True)
        (root / name / "cpulist").write_text(cpus + "\n")
    (root / "online").write_text("0-1\n")
    return root


@pytest.mark.parametrize(("text", "cpus"), [
    ("0\n", [0]), ("0-3,8", [0, 1, 2, 3, 8]), ("", []), ("\n", []), ("2,4-5\n", [2, 4, 5])])
def test_lists_of_processors(text: str, cpus: list[int]) -> None:
    assert numa.cpu_list(text) == cpus


def test_nodes(tmp_path: Path) -> None:
    root = tree(tmp_path, node0="0-3,8-11", node1="4-7,12-15", node2="", node10="16")
    assert list(numa.nodes(root)) == [0, 1, 10], "one has memory alone"
    assert numa.nodes(root)[1] == [4, 5, 6, 7, 12, 13, 14, 15]
    assert numa.nodes(tmp_path / "nowhere") == {}


TWO = {0: [0, 1, 2, 3], 1: [4, 5, 6, 7]}


def test_strategies() -> None:
    everywhere = range(8)
    spread = numa.choose("distribute", 5, TWO, everywhere, 0)
    assert spread == [TWO[0], TWO[1], TWO[0], TWO[1], TWO[0]]
    assert numa.choose("isolate", 5, TWO, everywhere, 6) == [TWO[1]]
    assert numa.choose("numactl", 5, TWO, [2, 3, 4], 2) == [[2, 3, 4]]
    assert numa.choose("distribute", 3, TWO, [2, 3, 4], 2) == [[2, 3], [4], [2, 3]]
    assert numa.choose("isolate", 3, TWO, [2, 3, 4], 99) == [[2, 3]], "the caller was elsewhere"
    one = {0: list(range(8))}
    for strategy in numa.STRATEGIES:
        found = numa.choose(strategy, 2, one, everywhere, 3)
        assert all(cpus == list(range(8)) for cpus in found) and found
        assert numa.choose(strategy, 2, {}, everywhere, 3) == [list(everywhere)], "no such tree"
        assert numa.choose(strategy, 2, TWO, [], 0) == [], "no such calls"


def threads() -> dict[int, set[int]]:
    """The processors that each thread of this process may use."""
    return {int(t.name): os.sched_getaffinity(int(t.name))
            for t in Path("/proc/self/task").iterdir()}


@needs_affinity
@pytest.mark.skipif(len(ALLOWED) < 2, reason="there is one processor")
def test_threads_go_where_they_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numa, "SYSTEM_NODES", tree(
        tmp_path, node0=str(ALLOWED[0]), node1=",".join(map(str, ALLOWED[1:]))))
    text = list(range(3, 60))
    with Model("tiny", devices=["cpu"], n_threads=2, numa="distribute") as model:
        expected = model.logits(text)
        assert set(ALLOWED[1:]) in threads().values(), "the second thread"
        assert os.sched_getaffinity(0) == set(ALLOWED), "the caller is where it was"
    with Model("tiny", devices=["cpu"], n_threads=2, numa="isolate") as model:
        assert np.array_equal(model.logits(text), expected)
        own = [cpus for cpus in threads().values() if cpus != set(ALLOWED)]
        assert own and all(len(cpus) < len(ALLOWED) for cpus in own)
    with Model("tiny", devices=["cpu"], n_threads=2) as model:
        assert np.array_equal(model.logits(text), expected)
        # A thread that was on the caller's core is kept from it until it sleeps.
        end = time.monotonic() + 30
        while any(cpus != set(ALLOWED) for cpus in threads().values()):
            assert time.monotonic() < end, "none any more"
            time.sleep(0.01)


@pytest.mark.parametrize("strategy", numa.STRATEGIES)
def test_every_strategy_on_this_machine(strategy: str) -> None:
    with Model("tiny", devices=["cpu"], numa=strategy) as model:
        assert model.generate("a", max_tokens=3).tokens


def test_another_strategy() -> None:
    with pytest.raises(InvalidArgument, match=r"numa must be .* got 'mirror'") as caught:
        Model("tiny", devices=["cpu"], numa="mirror")
    assert "isolate" in str(caught.value)


def test_busy_neighbours() -> None:
    """Threads that lose their processor for a while change nothing, also from several callers."""
    text = list(range(3, 60))
    with Model("tiny", devices=["cpu"], n_threads=1) as model:
        expected = model.logits(text)
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        found: list[np.ndarray] = []

        def ask() -> None:
            with Model("tiny", devices=["cpu"], n_threads=5) as model:
                found.extend(model.logits(text) for _ in range(30))
        callers = [threading.Thread(target=ask) for _ in range(2)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert len(found) == 60 and all(np.array_equal(logits, expected) for logits in found)
