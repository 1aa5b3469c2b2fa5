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


def keep_one(pool: SlotPool, block: int, *, passed: bool = False) -> None:
    slot = pool.take()
    assert slot is not None
    pool.keep(block, slot, passed=passed)
    pool.release(slot)


def test_checkpoints_on_the_way_go_first_but_keep_a_quarter() -> None:
    pool = SlotPool(8)
    for block in range(5):
        keep_one(pool, block)
    for block in range(10, 60):
        keep_one(pool, block, passed=True)
    kept = [b for b in range(60) if pool.find(b) is not None]
    assert kept == [0, 1, 2, 3, 4, 57, 58, 59]
    for block in range(100, 120):
        keep_one(pool, block)
    kept = [b for b in range(60) if pool.find(b) is not None]
    assert kept == [59] and all(pool.find(b) is not None for b in range(113, 120))


def test_a_checkpoint_that_was_used_stays_like_an_end() -> None:
    pool = SlotPool(4)
    for block in range(4):
        keep_one(pool, block, passed=True)
    slot = pool.resume(0)
    assert slot is not None and slot == pool.find(0)
    pool.release(slot)
    for block in range(10, 30):
        keep_one(pool, block, passed=True)
    assert pool.find(0) == slot and pool.find(3) is None and pool.resume(3) is None
    assert pool.n_available == 4


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


def test_a_session_keeps_the_end_of_its_latest_prompt() -> None:
    """While it writes an answer, and other sequences pass: the answer may be asked for anew."""
    pool = BlockPool(MAX_BLOCKS, BLOCK, 8)
    cached = CachedSequence(pool, lambda target, source: None, MAX_BLOCKS)

    def turn(n_prompt: int, n_tokens: int) -> None:
        for n in range(cached.length + 1, n_tokens + 1):
            assert cached.reserve(n)
            cached.commit(range(max(n_prompt, n)), n)
    turn(3 * BLOCK, 9 * BLOCK)
    assert cached.truncate(cached.length) == 9 * BLOCK  # another request goes on from here
    turn(12 * BLOCK, 18 * BLOCK)
    end = int(cached.blocks[11])
    for block in range(MAX_BLOCKS, MAX_BLOCKS + 20):
        keep_one(pool.slots, block, passed=True)
    assert pool.slots.find(end) is not None
    assert cached.truncate(12 * BLOCK + 1) == 12 * BLOCK
    cached.release()


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
