"""The paged cache against what it means: every sequence reads back its own tokens, always."""

from __future__ import annotations

from operator import le, sub

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from unladen.cache import BlockPool, CachedSequence, WindowPool

SIZE = 4


class Memory:
    """What a plan's buffers hold: by group, for each block a row per token."""

    def __init__(self, *n_blocks: int) -> None:
        self.rows: list[list[list[tuple[int, ...] | None]]] = [
            [[None] * SIZE for _ in range(n)] for n in n_blocks]

    def copy(self, target: int, source: int, /, group: int = 0) -> None:
        self.rows[group][target] = list(self.rows[group][source])


class Tracked:
    """A sequence and what ought to be in it. It can go back to any length from ``floor`` on. After
    a step that is less than its length: the last token can be taken back."""

    def __init__(self, cached: CachedSequence, tokens: list[int], floor: int) -> None:
        self.cached = cached
        self.tokens = tokens
        self.floor = floor


def floor_of_adopted(n: int) -> int:
    """The least length to which a sequence can go back that adopted ``n`` tokens: it has the window
    of the first token in its last block, and what comes after that."""
    return (n - 1) // SIZE * SIZE + 1 if n else 0


class Cache(RuleBasedStateMachine):
    """Sequences come, grow, fork, shrink and go, on a pool that is often too small. A row is the
    whole past that led to it."""

    n_blocks, max_blocks, most_live = 9, 6, 5
    windows: tuple[tuple[int, int], ...] = ()
    """For each group of layers that see a window, its tokens and its blocks."""
    tokens = st.lists(st.integers(0, 2), max_size=9)

    def __init__(self) -> None:
        super().__init__()
        pools = [WindowPool(window, n) for window, n in self.windows]
        self.pool = BlockPool(self.n_blocks, SIZE, 0, pools)
        self.pools: list[BlockPool | WindowPool] = [self.pool, *pools]
        self.memory = Memory(*(pool.n_blocks for pool in self.pools))
        self.live: list[Tracked] = []
        self.seen: list[list[int]] = [[]]
        self.tails: list[list[int]] = []

    def pick(self, data: st.DataObject) -> Tracked:
        return data.draw(st.sampled_from(self.live))

    def rows(self, cached: CachedSequence, n: int) -> list[list[tuple[int, ...] | None]]:
        """By group, the rows of those of the first ``n`` tokens that the token after them sees."""
        firsts = [0, *(max(0, n - window + 1) for window, _ in self.windows)]
        return [[rows[int(table[i // SIZE])][i % SIZE] for i in range(first, n)]
                for rows, table, first in zip(self.memory.rows, np.atleast_2d(cached.tables),
                                              firsts, strict=True)]

    def past(self, tokens: list[int]) -> list[list[tuple[int, ...]]]:
        """What :meth:`rows` ought to be."""
        n = len(tokens)
        firsts = [0, *(max(0, n - window + 1) for window, _ in self.windows)]
        return [[tuple(tokens[:i + 1]) for i in range(first, n)] for first in firsts]

    def write_rows(self, cached: CachedSequence, tokens: list[int]) -> None:
        """Write the rows of ``tokens`` behind those that are there, as kernels would."""
        for rows, pool, table in zip(self.memory.rows, self.pools, np.atleast_2d(cached.tables),
                                     strict=True):
            for i in range(cached.length, len(tokens)):
                block = int(table[i // SIZE])
                assert pool.n_users(block) == 1, "what is written belongs to one sequence"
                rows[block][i % SIZE] = tuple(tokens[:i + 1])

    def write(self, seq: Tracked, tokens: list[int]) -> bool:
        """A step: reserve, write the rows, commit."""
        cached, start = seq.cached, seq.cached.length
        wanted = (seq.tokens[:start] + tokens)[:self.max_blocks * SIZE]
        n, held = len(wanted), cached.n_blocks
        missing = [cached.n_missing(n), *(w.n_missing(start, n) for w in cached.windows)]
        available = [pool.n_available for pool in self.pools]
        room = cached.reserve(n)
        assert room == all(map(le, missing, available)), "n_missing is what reserve needs"
        if not room:
            assert cached.length == start and cached.n_blocks >= held
            return False
        assert [pool.n_available for pool in self.pools] == list(map(sub, available, missing))
        self.write_rows(cached, wanted)
        seq.tokens, seq.floor = wanted, max(seq.floor, n - 2 * SIZE)
        cached.commit(wanted, n)
        self.seen = [*self.seen[-7:], wanted]
        return True

    @precondition(lambda self: len(self.live) < self.most_live)
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Often with a past that some sequence once had."""
        tokens = data.draw(st.sampled_from(self.seen)) + data.draw(self.tokens)
        tokens = tokens[:self.max_blocks * SIZE]
        cached = CachedSequence(self.pool, self.memory.copy, self.max_blocks)
        n = cached.attach(tokens)
        assert n == cached.length and (n < len(tokens) or n == 0)
        assert n % SIZE == 0 or tokens[:n] in (tail[:n] for tail in self.tails)
        seq = Tracked(cached, tokens[:n], floor_of_adopted(n))
        self.live.append(seq)
        self.write(seq, tokens[n:])

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        self.write(self.pick(data), data.draw(self.tokens))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def publish_tail(self, data: st.DataObject) -> None:
        """As a restored state does."""
        seq = self.pick(data)
        seq.cached.publish_tail(seq.tokens)
        self.tails.append(seq.tokens)
        seq.cached.release()
        self.live.remove(seq)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), n=st.integers(1, 9))
    def reserve_and_give_up(self, data: st.DataObject, n: int) -> None:
        """A step that was cancelled: rows are written beyond the length, nothing is committed."""
        seq = self.pick(data)
        wanted = [*seq.tokens, *[99] * n][:self.max_blocks * SIZE]
        if seq.cached.reserve(len(wanted)):
            self.write_rows(seq.cached, wanted)
        if data.draw(st.booleans()):
            seq.cached.trim()
            assert seq.cached.n_blocks == -(-seq.cached.length // SIZE)

    @precondition(lambda self: 0 < len(self.live) < self.most_live)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        seq = self.pick(data)
        available = [pool.n_available for pool in self.pools]
        self.live.append(Tracked(seq.cached.fork(), list(seq.tokens), seq.floor))
        assert [p.n_available for p in self.pools] == available, "a fork costs nothing"

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        seq = self.pick(data)
        length = data.draw(st.integers(0, seq.cached.length))
        left = seq.cached.truncate(length)
        if left < length:
            assert self.windows and length < seq.floor and left % SIZE == 0
            seq.floor = floor_of_adopted(left)
        assert left <= length
        seq.tokens = seq.tokens[:left]

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        seq = self.pick(data)
        seq.cached.release()
        self.live.remove(seq)

    @invariant()
    def sequences_read_back_their_tokens(self) -> None:
        for seq in self.live:
            assert seq.cached.length == len(seq.tokens)
            assert self.rows(seq.cached, len(seq.tokens)) == self.past(seq.tokens)

    @invariant()
    def blocks_are_counted(self) -> None:
        for group, pool in enumerate(self.pools):
            users = [0] * pool.n_blocks
            for seq in self.live:
                for block in seq.cached.windows[group - 1].blocks if group else seq.cached.blocks:
                    users[block] += 1
            assert users == [pool.n_users(b) for b in range(pool.n_blocks)]
            assert pool.n_available == users.count(0), "no block is lost, none is given twice"

    @invariant()
    def known_prefixes_hold_their_tokens(self) -> None:
        """What a new sequence would adopt is what it asked for."""
        for tokens in self.seen:
            wanted = [*tokens, 0]
            probe = CachedSequence(self.pool, self.memory.copy, self.max_blocks + 1)
            n = probe.attach(wanted)
            assert self.rows(probe, n) == self.past(wanted[:n])
            probe.release()

    def teardown(self) -> None:
        for seq in self.live:
            seq.cached.release()
        assert all(p.n_available == p.n_blocks for p in self.pools), "no block is lost"


Cache.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestCache = Cache.TestCase


def sequence(pool: BlockPool) -> CachedSequence:
    def no_copy(target: int, source: int) -> None:
        raise AssertionError("nothing is to be copied here")
    return CachedSequence(pool, no_copy, pool.n_blocks)


def computed(pool: BlockPool, tokens: list[int]) -> CachedSequence:
    cached = sequence(pool)
    cached.attach(tokens)
    assert cached.reserve(len(tokens))
    cached.commit(tokens, len(tokens))
    return cached


def test_prefixes_are_found_in_whole_blocks() -> None:
    pool = BlockPool(16, SIZE)
    tokens = list(range(10))
    first = computed(pool, tokens)
    for n, expected in ((0, 0), (3, 0), (4, 0), (5, 4), (8, 4), (9, 8), (10, 8)):
        probe = sequence(pool)
        assert probe.attach(tokens[:n]) == expected
        assert list(probe.blocks) == list(first.blocks[:expected // SIZE])
        probe.release()
    assert sequence(pool).attach([9, *tokens]) == 0
    assert sequence(pool).attach([*tokens[:4], 9, *tokens[5:]]) == 4, "then it differs"
    first.release()
    assert sequence(pool).attach(tokens) == 8, "also when nobody uses it any more"


def test_a_block_means_all_that_is_before_it() -> None:
    """Equal tokens after another past are another content."""
    pool = BlockPool(16, SIZE)
    computed(pool, [1] * 4 + [7] * 4)
    computed(pool, [2] * 4 + [8] * 4)
    assert sequence(pool).attach([2] * 4 + [7] * 4 + [0]) == 4
    assert sequence(pool).attach([7] * 4 + [0]) == 0


def test_the_oldest_goes_first() -> None:
    pool = BlockPool(4, SIZE)
    texts = [[i] * 5 for i in range(2)]
    for text in texts:
        computed(pool, text).release()
    assert sequence(pool).attach(texts[0]) == 4  # which holds it: now in use
    third = computed(pool, [5] * 5)
    assert third.n_blocks == 2
    fourth = sequence(pool)
    assert fourth.reserve(SIZE), "there is only the second text left to give up"
    assert sequence(pool).attach(texts[1]) == 0
    assert sequence(pool).attach(texts[0]) == 4


def test_exhaustion_and_recovery() -> None:
    pool = BlockPool(3, SIZE)
    first, second = sequence(pool), sequence(pool)
    assert first.reserve(8)
    assert second.n_missing(8) == 2 > pool.n_available == 1
    assert not second.reserve(8)
    assert second.n_blocks == 1, "what could be had is kept"
    assert not second.reserve(8)
    first.release()
    assert second.reserve(8) and second.n_blocks == 2
    second.release()
    assert pool.n_available == 3


def test_copy_on_write_when_nothing_is_left() -> None:
    pool = BlockPool(1, SIZE)
    copies: list[tuple[int, int]] = []
    first = CachedSequence(pool, lambda target, source: copies.append((target, source)), 1)
    assert first.reserve(2)
    first.commit([1, 2], 2)
    second = first.fork()
    assert second.n_missing(3) == 1
    assert not second.reserve(3) and not first.reserve(3)
    first.release()
    assert second.n_missing(3) == 0 and second.reserve(3) and not copies


def test_what_is_written_after_a_rollback_is_known_too() -> None:
    pool = BlockPool(8, SIZE)
    cached = computed(pool, [1] * 9)
    cached.truncate(2)
    changed = [1, 1, 2, 2, 3, 3, 3, 3, 4]
    assert cached.reserve(9)
    cached.commit(changed, 9)
    assert sequence(pool).attach(changed) == 8
    assert sequence(pool).attach([1] * 9) == 0
