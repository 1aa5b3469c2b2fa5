"""Blocks of windows when requests are admitted: they are enough, and no request is computed thrice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.test_admission import SIZE, Machine, a_request, check_idle, load
from unladen.cache import CachedSequence, WindowPool
from unladen.cache.windows import most_blocks
from unladen.engine import admission
from unladen.engine.admission import Admission
from unladen.engine.room import has_window_room, n_for_window
from unladen.types import Limits

Rng = np.random.Generator


def machine_with(windows: Sequence[tuple[int, int]], n_blocks: int, context: int, n_seqs: int
                 ) -> Machine:
    """A machine whose windows have the blocks that ``windows`` say."""
    machine = Machine(n_blocks, context, n_seqs)
    limits = Limits(machine.n_tokens, machine.n_tokens, n_seqs, -(-context // SIZE), n_blocks,
                    SIZE, windows=tuple(windows))

    def copy(target: int, source: int, /, group: int = 0) -> None:
        assert target != source and 0 <= group <= len(windows)

    machine.admission = Admission(limits, copy, 1 << 30)
    return machine


def test_small_windows_and_small_caches_are_never_stuck(rng: Rng, monkeypatch: pytest.MonkeyPatch
                                                        ) -> None:
    """Windows have room for one sequence at least, as the whole sequences' blocks have."""
    n_back = 0
    for _ in range(60):
        monkeypatch.setattr(admission, "EXPECTED", int(rng.integers(1, 30)))
        context, n_seqs = int(rng.integers(5, 90)), int(rng.integers(1, 6))
        windows = sorted({int(w) for w in rng.integers(1, 40, 2)})
        sizes = [(w, most_blocks(w, SIZE) + 16 // SIZE + int(rng.integers(0, 20)))
                 for w in windows]
        machine = machine_with(sizes, -(-context // SIZE) + int(rng.integers(0, 20)), context,
                               n_seqs)
        requests = load(machine, rng, int(rng.integers(1, 15)))
        while requests or machine.admission.everyone():
            if requests and rng.random() < 0.4:
                machine.submit(requests.pop())
            machine.step()
        assert max(machine.n_begun.values()) <= 2
        assert all(r.stop_reason in ("length", "context") for r in machine.n_begun)
        n_back += sum(n == 2 for n in machine.n_begun.values())
        check_idle(machine)
        assert all(w.n_available == w.n_blocks for w in machine.admission.pool.windows)
    assert n_back > 3, "some were wrong about their length"


def test_a_small_window_sends_nobody_back(rng: Rng) -> None:
    """It has room for three sequences that outgrow it; whole sequences would have it for all."""
    window = 8
    sizes = [(window, 3 * most_blocks(window, SIZE) + 16 // SIZE)]
    machine = machine_with(sizes, 400, 120, 8)
    for _ in range(12):
        machine.submit(a_request(rng.integers(0, 90, 40).tolist(), 60))
    machine.step()
    assert len(machine.admission.running) == 3
    machine.run()
    assert set(machine.n_begun.values()) == {1} and len(machine.n_begun) == 12


def test_a_shared_beginning_within_the_window_is_counted_once(rng: Rng) -> None:
    machine = machine_with([(100, 40)], 40, 120, 8)
    common = rng.integers(0, 90, 80).tolist()
    for i in range(5):
        machine.submit(a_request([*common, 90 + i], 3))
    machine.step()
    while len(machine.admission.running) == 1:
        machine.step()
    assert len(machine.admission.running) >= 4, "20 shared blocks, and two or three of their own"
    machine.run()
    assert set(machine.n_begun.values()) == {1}


def test_n_for_window_is_what_sequences_hold(rng: Rng) -> None:
    """Any number of sequences that grow in steps of any size hold no more, and sometimes as many
    but for the few that a beginning within a block takes."""
    for _ in range(40):
        window, n_step = int(rng.integers(1, 30)), int(rng.integers(1, 40))
        totals = rng.integers(1, 150, int(rng.integers(1, 5))).tolist()
        machine = machine_with([(window, 400)], 400, 160, 8)
        pool = machine.admission.pool.windows[0]
        sequences = [machine.admission.sequence() for _ in totals]
        bound, peak = n_for_window(pool, totals, n_step, SIZE), 0
        while any(s.length < n for s, n in zip(sequences, totals, strict=True)):
            left, ends = n_step, list[tuple[CachedSequence, int]]()
            for cached, total in zip(sequences, totals, strict=True):
                n = min(left, total - cached.length, int(rng.integers(0, n_step + 1)))
                left -= n
                ends.append((cached, cached.length + n))
                assert cached.reserve(cached.length + n)
            held = pool.n_blocks - pool.n_available
            peak = max(peak, sum(c.windows[0].n for c, _ in ends))
            assert peak <= bound
            for cached, end in ends:
                # Nothing is shared: each has tokens of its own.
                cached.commit([1000 * id(cached) + i for i in range(end)], end)
            assert held <= bound
        for cached in sequences:
            cached.release()


def test_no_room_beside_a_session() -> None:
    """Blocks that others hold don't come back when the sequence grows."""
    size, pool = SIZE, WindowPool(8, most_blocks(8, SIZE) + 1)
    machine = machine_with([(8, pool.n_blocks)], 100, 200, 2)
    window = machine.admission.pool.windows[0]
    first = machine.admission.sequence()
    first.reserve(12)
    first.commit(list(range(12)), 12)
    assert has_window_room(window, [(first.windows[0], 12, 100)], size)
    kept = first.fork()
    assert first.windows[0].n == kept.windows[0].n == 3
    assert not has_window_room(window, [(first.windows[0], 12, 100)], size)
