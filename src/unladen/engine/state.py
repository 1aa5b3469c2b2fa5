"""Saves the state of a sequence in an engine's cache, and loads it again."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.cache import CachedSequence
from unladen.engine.engine import Engine
from unladen.engine.request import Request
from unladen.errors import ContextOverflow, UnladenError
from unladen.runtime.saved import SavedState, pack


def save(engine: Engine, request: Request) -> bytes:
    """The state after the prompt of ``request``, which this submits and finishes. Raises the
    request's error, and :class:`UnladenError` where the model was placed elsewhere meanwhile."""
    made: list[bytes | Exception] = []

    def read(cached: CachedSequence) -> None:
        # All of the prompt is computed by now. Tokens after the prompt are left out.
        n = cached.length if cached.is_recurrent else min(cached.length, request.n_prompt)
        try:
            made.append(pack(engine.plan, request.tokens[:n], cached.tables, cached.slot,
                             cached.checkpoint(), cached.firsts))
        except Exception as error:  # noqa: BLE001  # raised below, outside of the step
            made.append(error)

    request.at_end = read
    engine.submit(request)
    engine.finish(request)
    engine.between_steps(lambda: None)  # wait for a thread that may still call read()
    if request.error is not None:
        raise request.error
    result = made[-1] if made else UnladenError(
        "the model was placed elsewhere while its state was saved", hint="save it again")
    if isinstance(result, Exception):
        raise result
    return result


def load(engine: Engine, data: bytes) -> list[int]:
    """Put a state that :func:`save` returned into the cache, where prompts that begin with its
    tokens find it. Returns the tokens. Raises :class:`InvalidArgument` for bytes that are damaged
    or of another model, :class:`ContextOverflow` where the cache is too small."""
    saved = SavedState.read(data)
    tokens = saved.tokens

    def write() -> list[int]:
        saved.check(engine.plan)
        if not tokens:
            return []
        cached = engine.sequence()
        try:
            if len(tokens) > engine.context_size:
                raise _too_long(tokens)
            cached.begin_at(saved.firsts)
            _reserve(cached, tokens)
            arrays = saved.arrays(engine.plan, cached.n_blocks)
            saved.put_blocks(engine.plan, arrays, cached.tables)
            if saved.checkpoint:
                saved.put_slots(engine.plan, arrays, cached.next_slot, at_checkpoint=True)
                cached.commit(tokens, saved.checkpoint)
                _reserve(cached, tokens)
            saved.put_slots(engine.plan, arrays, cached.next_slot)
            cached.commit(tokens, len(tokens))
            cached.publish_tail(tokens)
        finally:
            cached.release()
        return tokens
    return engine.between_steps(write)


def _reserve(cached: CachedSequence, tokens: Sequence[int]) -> None:
    if not cached.reserve(len(tokens)):
        raise _too_long(tokens)


def _too_long(tokens: Sequence[int]) -> ContextOverflow:
    return ContextOverflow(
        f"a state of {len(tokens)} tokens doesn't fit into the cache",
        hint="load the model with a larger context_size, or free sequences first")
