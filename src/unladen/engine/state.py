"""States of sequences out of an engine's cache and into it."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.engine.engine import Engine
from unladen.errors import ContextOverflow
from unladen.schedule.saved import SavedState, pack


def save(engine: Engine, tokens: Sequence[int]) -> bytes:
    """The state after as many of ``tokens`` as are in whole blocks in the cache and, for recurrent
    models, up to a checkpoint."""
    def read() -> bytes:
        cached = engine.sequence()
        try:
            # The last token is never taken from the cache: one more lets all of these be.
            n = cached.attach([*tokens, 0])
            blocks = cached.table[:cached.n_blocks].tolist()
            return pack(engine.plan, tokens[:n], blocks, cached.slot)
        finally:
            cached.release()
    return engine.between_steps(read)


def load(engine: Engine, data: bytes) -> list[int]:
    """Put what :func:`save` gave into the cache, where prompts that begin with its tokens find it;
    returns these. Raises :class:`InvalidArgument` for bytes that are damaged or of another model,
    :class:`ContextOverflow` where the cache is too small."""
    saved = SavedState.read(data)
    tokens = saved.tokens

    def write() -> list[int]:
        saved.check(engine.plan)
        if not tokens:
            return []
        cached = engine.sequence()
        try:
            if len(tokens) > engine.context_size or not cached.reserve(len(tokens)):
                raise ContextOverflow(
                    f"a state of {len(tokens)} tokens doesn't fit into the cache",
                    hint="load the model with a larger context_size, or free sequences first")
            saved.put(engine.plan, cached.table[:cached.n_blocks].tolist(), cached.next_slot)
            cached.commit(tokens, len(tokens))
        finally:
            cached.release()
        return tokens
    return engine.between_steps(write)
