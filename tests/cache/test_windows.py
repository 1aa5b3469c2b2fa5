"""Layers with windows against what they mean: every token that a sequence still sees is there."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from cache.test_cache import SIZE, Cache
from unladen.cache import BlockPool, CachedSequence, WindowPool


class Groups(Cache):
    """The same with layers that see windows, in a cache that has fewer blocks for these."""

    n_blocks, max_blocks, most_live = 25, 9, 4
    windows = ((3, 12), (10, 12))
    tokens = st.lists(st.integers(0, 1), max_size=9)

    @invariant()
    def windows_hold_little(self) -> None:
        for seq in self.live:
            end = -(-len(seq.tokens) // SIZE)  # a step that was given up may have reserved more
            for (window, _), table in zip(self.windows, seq.cached.windows, strict=True):
                assert min(table.end, end) - table.first <= -(-(window + 2 * SIZE) // SIZE) + 1


def through(pool: BlockPool, tokens: list[int], n_prompt: int = 0) -> int:
    """Let a sequence write ``tokens`` in small steps and leave; how many were found."""
    cached = CachedSequence(pool, lambda target, source, group=0: None, 1000)
    n_found = cached.attach(tokens)
    for n in range(n_found + 1, len(tokens) + 1):
        assert cached.reserve(n)
        cached.commit(tokens[:max(n, n_prompt)], n)
    cached.release()
    return n_found


def test_a_long_prompt_takes_no_window_from_others() -> None:
    """It passes many blocks of a window, and needs few of them at its end. The end of another
    sequence stays, and so does the end of its prompt; a beginning that was found is found again."""
    window = WindowPool(2 * SIZE, 40)
    pool = BlockPool(1000, SIZE, 0, [window])
    chat = list(range(25 * SIZE))
    through(pool, chat, n_prompt=10 * SIZE)
    shared = list(range(1000, 1000 + 10 * SIZE))
    through(pool, [*shared, *range(2000, 2020)], n_prompt=10 * SIZE + 20)
    assert through(pool, [*shared, *range(3000, 3030)], n_prompt=10 * SIZE + 30) == 10 * SIZE
    through(pool, list(range(4000, 4400)), n_prompt=400)
    assert through(pool, [*shared, 9]) == 10 * SIZE
    assert through(pool, [*chat, 9]) == 25 * SIZE
    assert through(pool, [*chat[:10 * SIZE], 9]) == 10 * SIZE
    assert window.n_available == window.n_blocks


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
