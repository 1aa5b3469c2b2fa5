"""Recurrent state: what a sequence goes on from is what its tokens left, whatever came between."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from unladen.cache import BlockPool, CachedSequence, SlotPool
from unladen.types import NO_SLOT

BLOCK, N_SLOTS, MAX_BLOCKS = 4, 6, 40


def test_a_checkpoint_gives_way_to_a_user_and_no_other() -> None:
    pool = SlotPool(2)
    first, second = pool.take(), pool.take()
    assert first is not None and second is not None and pool.take() is None
    pool.keep(7, first)
    assert pool.n_available == 0 and pool.take() is None
    pool.release(first)
    assert pool.n_available == 1 and pool.find(7) == first
    assert pool.take() == first and pool.find(7) is None


def test_the_oldest_checkpoint_goes_first() -> None:
    pool = SlotPool(2)
    for block in (1, 2):
        slot = pool.take()
        assert slot is not None
        pool.keep(block, slot)
        pool.release(slot)
    pool.take()
    assert pool.find(1) is None and pool.find(2) is not None


def test_a_step_writes_to_another_slot_and_counts_only_when_committed() -> None:
    pool = BlockPool(MAX_BLOCKS, BLOCK, N_SLOTS)
    cached = CachedSequence(pool, lambda target, source: None, MAX_BLOCKS)
    assert cached.reserve(3) and cached.slot == NO_SLOT
    cached.commit([1, 2, 3], 3)
    was = cached.slot
    assert cached.reserve(5) and cached.slot == was != cached.next_slot
    assert cached.reserve(5) and cached.slot == was != cached.next_slot  # the step was cancelled
    cached.release()
    assert pool.slots.n_available == N_SLOTS and pool.n_available == MAX_BLOCKS


def test_a_fork_goes_on_from_the_same_state() -> None:
    pool = BlockPool(MAX_BLOCKS, BLOCK, N_SLOTS)
    cached = CachedSequence(pool, lambda target, source: None, MAX_BLOCKS)
    cached.reserve(3)
    cached.commit([1, 2, 3], 3)
    other = cached.fork()
    assert other.slot == cached.slot
    assert other.reserve(4) and cached.reserve(4) and other.next_slot != cached.next_slot
    cached.release()
    assert other.slot != NO_SLOT
    other.release()
    assert pool.slots.n_available == N_SLOTS


def test_a_prefix_whose_checkpoint_is_gone_gets_a_new_one() -> None:
    pool = BlockPool(MAX_BLOCKS, BLOCK, 4)
    tokens = [1, 2, 3, 4, 5]
    for lost in (True, False):
        cached = CachedSequence(pool, lambda target, source: None, MAX_BLOCKS)
        assert cached.attach(tokens) == 0
        cached.reserve(BLOCK)
        cached.commit(tokens, BLOCK)
        cached.release()
        if lost:
            slots = [pool.slots.take() for _ in range(4)]
            assert None not in slots
            for slot in slots:
                pool.slots.release(slot or 0)
    cached = CachedSequence(pool, lambda target, source: None, MAX_BLOCKS)
    assert cached.attach(tokens) == BLOCK
    cached.release()


class Sequences(RuleBasedStateMachine):
    """Steps of several sequences over one pool; ``content`` is what each slot would hold: the
    tokens that made it."""

    @initialize()
    def begin(self) -> None:
        self.pool = BlockPool(MAX_BLOCKS, BLOCK, N_SLOTS)
        self.content: dict[int, tuple[int, ...]] = {NO_SLOT: ()}
        self.live: list[tuple[CachedSequence, list[int]]] = []

    @precondition(lambda self: len(self.live) < 3)
    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=14))
    def attach(self, tokens: list[int]) -> None:
        cached = CachedSequence(self.pool, lambda target, source: None, MAX_BLOCKS)
        n = cached.attach(tokens)
        assert n % BLOCK == 0 and n < len(tokens)
        self.live.append((cached, tokens[:n]))

    @precondition(lambda self: self.live)
    @rule(data=st.data(), tokens=st.lists(st.integers(0, 1), min_size=1, max_size=6),
          cancelled=st.booleans())
    def step(self, data: st.DataObject, tokens: list[int], cancelled: bool) -> None:
        cached, mine = data.draw(st.sampled_from(self.live))
        if not cached.reserve(len(mine) + len(tokens)):
            return
        assert self.content[cached.slot] == tuple(mine)
        self.content[cached.next_slot] = (*mine, *tokens)
        if not cancelled:
            mine += tokens
            cached.commit(mine, len(mine))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        cached, mine = data.draw(st.sampled_from(self.live))
        wanted = data.draw(st.integers(0, len(mine)))
        left = cached.truncate(wanted)
        assert left <= wanted and (left == wanted or left % BLOCK == 0)
        del mine[left:]

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        pair = data.draw(st.sampled_from(self.live))
        pair[0].release()
        self.live.remove(pair)

    @invariant()
    def every_sequence_goes_on_from_its_own_tokens(self) -> None:
        for cached, mine in self.live:
            assert cached.length == len(mine)
            assert self.content[cached.slot] == tuple(mine)

    def teardown(self) -> None:
        for cached, _ in self.live:
            cached.release()
        assert self.pool.slots.n_available == N_SLOTS
        assert self.pool.n_available == MAX_BLOCKS


TestSequences = Sequences.TestCase
TestSequences.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
