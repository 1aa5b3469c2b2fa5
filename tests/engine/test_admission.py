"""Admission under thousands of random loads, on caches that are too small for them."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

from engine.test_waiting import NoText
from unladen.engine import admission
from unladen.engine.admission import Admission, n_expected
from unladen.engine.request import Request
from unladen.engine.session import Session
from unladen.errors import DeadlineExceeded
from unladen.sample import SamplerChain
from unladen.types import Limits

SIZE = 4
Rng = np.random.Generator


def a_request(prompt: list[int], max_tokens: int, **wishes: Any) -> Request:
    return Request(prompt, sampler=SamplerChain().greedy().build(),
                   decoder=NoText(), max_tokens=max_tokens, **wishes)  # type: ignore[arg-type]


class Machine:
    """Runs admitted requests without a model: a step writes up to ``n_tokens`` rows."""

    def __init__(self, n_blocks: int, context: int, n_seqs: int = 4, n_slots: int = 0) -> None:
        self.context, self.n_tokens = context, 16
        limits = Limits(self.n_tokens, self.n_tokens, n_seqs, -(-context // SIZE), n_blocks, SIZE,
                        n_slots)
        self.admission = Admission(limits, lambda target, source: None, sys.maxsize)
        self.n_computed = 0
        self.n_begun: Counter[Request] = Counter()

    def submit(self, request: Request) -> Request:
        if request.session is not None:
            request.session.begin(request)
        self.admission.waiting.add(request, self.admission.n_places)
        return request

    def step(self) -> None:
        each = self.admission
        each.retire()
        known = set(each.running)
        each.admit(self.context, reuses=True)
        for running in set(each.running) - known:
            self.n_begun[running.request] += 1
        for running in list(each.running):
            if running.has_left:
                continue
            request, cached = running.request, running.cached
            n = cached.length + min(self.n_tokens, running.n_pending)
            if each.make_room(running, n):
                self.n_computed += n - cached.length
                cached.commit(request.tokens, n)
                if running.n_pending == 0:
                    request.take_token(int(request.n_prompt * 31 + len(request.tokens)) % 97, None,
                                       self.context)
        each.retire()

    def run(self) -> None:
        while self.admission.everyone():
            self.step()


def check_idle(machine: Machine) -> None:
    pool = machine.admission.pool
    assert pool.n_available == pool.n_blocks
    assert pool.slots.n_available == pool.slots.n_slots


def load(machine: Machine, rng: Rng, n: int) -> list[Request]:
    """Random requests: some with a known length, some without, and often with a common
    beginning."""
    common = rng.integers(0, 3, machine.context).tolist()
    found = []
    for _ in range(n):
        n_prompt = int(rng.integers(1, machine.context - 1))
        n_common = int(rng.integers(0, n_prompt)) * int(rng.integers(0, 2))
        prompt = common[:n_common] + rng.integers(3, 90, n_prompt - n_common).tolist()
        most = sys.maxsize if rng.random() < 0.5 else int(rng.integers(1, machine.context))
        found.append(a_request(prompt, most, priority=int(rng.integers(-1, 2))))
    return found


def test_each_request_is_computed_at_most_twice(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    n_back = 0
    for _ in range(150):
        monkeypatch.setattr(admission, "EXPECTED", int(rng.integers(1, 30)))
        context = int(rng.integers(5, 60))
        machine = Machine(-(-context // SIZE) + int(rng.integers(0, 20)), context,
                          int(rng.integers(1, 9)))
        requests = load(machine, rng, int(rng.integers(1, 25)))
        while requests or machine.admission.everyone():
            if requests and rng.random() < 0.4:
                machine.submit(requests.pop())
            machine.step()
        assert max(machine.n_begun.values()) <= 2
        assert all(r.was_sent_back for r, n in machine.n_begun.items() if n == 2)
        assert all(r.stop_reason in ("length", "context") for r in machine.n_begun)
        n_back += sum(n == 2 for n in machine.n_begun.values())
        check_idle(machine)
    assert n_back > 10, "some were wrong about their length"


def test_known_lengths_are_never_sent_back(rng: Rng) -> None:
    """As in the benchmark: many more requests than fit, and each says how much it writes."""
    for _ in range(50):
        machine = Machine(int(rng.integers(20, 60)), 80, 32)
        for _ in range(40):
            n = int(rng.integers(1, 40))
            machine.submit(a_request(rng.integers(0, 90, n).tolist(), int(rng.integers(1, 79 - n))))
        machine.run()
        assert set(machine.n_begun.values()) == {1}
        check_idle(machine)


def test_a_shared_beginning_is_computed_once(rng: Rng) -> None:
    machine = Machine(400, 200, 16)
    common = rng.integers(0, 90, 101).tolist()
    for i in range(16):
        machine.submit(a_request([*common, 90 + i], 3))
    machine.run()
    assert machine.n_computed == 100 + 16 * 2 + 16 * 2, "whole blocks once, two each, two written"


def test_other_requests_pass_those_that_wait_for_a_beginning(rng: Rng) -> None:
    machine = Machine(400, 200, 3)
    common = rng.integers(0, 90, 100).tolist()
    long, same = (machine.submit(a_request([*common, i], 3)) for i in (1, 2))
    other = machine.submit(a_request([91, 92], 3))
    machine.step()
    running = {r.request for r in machine.admission.running}
    assert running == {long, other} and set(machine.admission.waiting) == {same}
    machine.run()
    assert same.n_reused == 100


def test_shared_blocks_are_counted_once(rng: Rng) -> None:
    """Four requests that share 10 blocks and write one more each fit into 14 blocks."""
    machine = Machine(14, 44, 8)
    common = rng.integers(0, 90, 40).tolist()
    first = machine.submit(a_request([*common, 1], 3))
    for _ in range(3):  # until its prompt is computed
        machine.step()
    rest = [machine.submit(a_request([*common, i], 3)) for i in range(2, 6)]
    machine.step()
    assert len(machine.admission.running) >= 4
    machine.run()
    assert set(machine.n_begun.values()) == {1} and first.done and all(r.done for r in rest)


def test_expectations() -> None:
    known, whole = a_request([1] * 10, 20), a_request([1] * 10, 1000)
    assert n_expected(known, 5000) == 29 and n_expected(known, 20) == 19
    assert n_expected(whole, 5000) == 1009
    opened = a_request([1] * 10, sys.maxsize)
    assert n_expected(opened, 5000) == 10 + admission.EXPECTED - 1
    opened.tokens += [2] * 400
    assert n_expected(opened, 5000) == 410 + 400 - 1, "as much again as it has written"
    opened.was_sent_back = True
    assert n_expected(opened, 5000) == 4999
    reads = Request([1] * 7, sampler=None, decoder=NoText())  # type: ignore[arg-type]
    assert n_expected(reads, 5000) == 7


def test_the_lowest_priority_goes_back_first(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "EXPECTED", 1)
    machine = Machine(10, 40, 4)
    high, low = (machine.submit(a_request(rng.integers(0, 90, 8).tolist(), sys.maxsize, priority=p))
                 for p in (1, 0))
    machine.run()
    assert (high.was_sent_back, low.was_sent_back) == (False, True)


def test_late_on_arrival() -> None:
    """Another thread adds it between the look for late requests and the admission of new ones."""
    machine = Machine(8, 32)
    machine.admission.retire()
    late = machine.submit(a_request([1, 2], 4, deadline=0.0))
    cancelled = machine.submit(a_request([3, 4], 4))
    cancelled.cancelled = True
    good = machine.submit(a_request([5, 6], 4))
    machine.admission.admit(machine.context, reuses=True)
    assert isinstance(late.error, DeadlineExceeded) and cancelled.stop_reason == "cancelled"
    assert [running.request for running in machine.admission.running] == [good]
    machine.run()
    assert good.stop_reason == "length"
    check_idle(machine)


@pytest.mark.parametrize("n_slots", [0, 10])
def test_sessions_give_way(rng: Rng, n_slots: int) -> None:
    """Blocks that idle sessions keep are given to running requests when these need them."""
    for _ in range(40):
        machine = Machine(30, 60, 4, n_slots)
        sessions = [Session() for _ in range(4)]
        for _ in range(30):
            session = sessions[int(rng.integers(4))]
            action = rng.integers(4)
            if action == 0 and len(session.tokens) < 40 and session.request is None:
                tokens = [*session.tokens, *rng.integers(0, 90, int(rng.integers(1, 9))).tolist()]
                machine.submit(a_request(tokens, int(rng.integers(1, 9)), session=session))
            elif action == 1:
                machine.submit(load(machine, rng, 1)[0])
            elif action == 2 and session.request is None:
                machine.admission.retire()
                other = Session(session.tokens)
                machine.admission.kept.fork(session, other)
                sessions[int(rng.integers(4))] = other
            else:
                machine.step()
        machine.run()
        for session in sessions:
            session.is_closed = True
        for cached in machine.admission.kept:
            assert cached.n_blocks == -(-cached.length // SIZE), "nothing beyond its tokens"
        while machine.admission.kept.release_oldest():
            pass
        check_idle(machine)
