"""The paged cache against what it means: every sequence reads back its own tokens, always."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from unladen.cache import BlockPool, CachedSequence

SIZE = 4
MAX_BLOCKS = 6
TOKENS = st.lists(st.integers(0, 2), max_size=9)


class Memory:
    """What a plan's buffers hold: for each block a row per token."""

    def __init__(self, n_blocks: int) -> None:
        self.rows: list[list[int | None]] = [[None] * SIZE for _ in range(n_blocks)]

    def copy(self, target: int, source: int) -> None:
        self.rows[target] = list(self.rows[source])


class Tracked:
    """A sequence and what ought to be in it."""

    def __init__(self, cached: CachedSequence, tokens: list[int]) -> None:
        self.cached = cached
        self.tokens = tokens


class Cache(RuleBasedStateMachine):
    """Sequences come, grow, fork, shrink and go, on a pool that is often too small."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(9, SIZE)
        self.memory = Memory(9)
        self.live: list[Tracked] = []
        self.seen: list[list[int]] = [[]]
        self.tails: list[list[int]] = []

    def pick(self, data: st.DataObject) -> Tracked:
        return data.draw(st.sampled_from(self.live))

    def write(self, seq: Tracked, tokens: list[int]) -> bool:
        """A step: reserve, write the rows as a kernel would, commit."""
        cached, start = seq.cached, seq.cached.length
        wanted = (seq.tokens[:start] + tokens)[:MAX_BLOCKS * SIZE]
        missing, available = cached.n_missing(len(wanted)), self.pool.n_available
        held = cached.n_blocks
        room = cached.reserve(len(wanted))
        assert room == (missing <= available), "n_missing is what reserve needs"
        if not room:
            assert cached.length == start and cached.n_blocks >= held
            return False
        assert self.pool.n_available == available - missing
        for i in range(start, len(wanted)):
            block = int(cached.blocks[i // SIZE])
            assert self.pool.n_users(block) == 1, "what is written belongs to one sequence"
            self.memory.rows[block][i % SIZE] = wanted[i]
        seq.tokens = wanted
        cached.commit(wanted, len(wanted))
        self.seen = [*self.seen[-7:], wanted]
        return True

    @precondition(lambda self: len(self.live) < 5)
    @rule(data=st.data(), tokens=TOKENS)
    def begin(self, data: st.DataObject, tokens: list[int]) -> None:
        """Often with a past that some sequence once had."""
        tokens = data.draw(st.sampled_from(self.seen)) + tokens
        tokens = tokens[:MAX_BLOCKS * SIZE]
        cached = CachedSequence(self.pool, self.memory.copy, MAX_BLOCKS)
        n = cached.attach(tokens)
        assert n == cached.length and (n < len(tokens) or n == 0)
        assert n % SIZE == 0 or tokens[:n] in (tail[:n] for tail in self.tails)
        seq = Tracked(cached, tokens[:n])
        self.live.append(seq)
        self.write(seq, tokens[n:])

    @precondition(lambda self: self.live)
    @rule(data=st.data(), tokens=TOKENS)
    def append(self, data: st.DataObject, tokens: list[int]) -> None:
        self.write(self.pick(data), tokens)

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
        cached = self.pick(data).cached
        wanted = min(cached.length + n, MAX_BLOCKS * SIZE)
        if cached.reserve(wanted):
            for i in range(cached.length, wanted):
                self.memory.rows[int(cached.blocks[i // SIZE])][i % SIZE] = 99

    @precondition(lambda self: 0 < len(self.live) < 5)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        seq = self.pick(data)
        available = self.pool.n_available
        self.live.append(Tracked(seq.cached.fork(), list(seq.tokens)))
        assert self.pool.n_available == available, "a fork costs nothing"

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        seq = self.pick(data)
        length = data.draw(st.integers(0, seq.cached.length))
        seq.cached.truncate(length)
        seq.tokens = seq.tokens[:length]

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
            got = [self.memory.rows[int(seq.cached.blocks[i // SIZE])][i % SIZE]
                   for i in range(seq.cached.length)]
            assert got == seq.tokens

    @invariant()
    def blocks_are_counted(self) -> None:
        users = [0] * self.pool.n_blocks
        for seq in self.live:
            for block in seq.cached.blocks:
                users[block] += 1
        assert users == [self.pool.n_users(b) for b in range(self.pool.n_blocks)]
        assert self.pool.n_available == users.count(0), "no block is lost, none is given twice"

    @invariant()
    def known_prefixes_hold_their_tokens(self) -> None:
        """What a new sequence would adopt is what it asked for."""
        for tokens in self.seen:
            wanted = [*tokens, 0]
            probe = CachedSequence(self.pool, self.memory.copy, MAX_BLOCKS + 1)
            n = probe.attach(wanted)
            assert [self.memory.rows[int(probe.blocks[i // SIZE])][i % SIZE]
                    for i in range(n)] == wanted[:n]
            probe.release()

    def teardown(self) -> None:
        for seq in self.live:
            seq.cached.release()
        assert self.pool.n_available == self.pool.n_blocks


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
