"""States of sequences out of an engine's cache and into it."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.cache import CachedSequence
from unladen.engine.engine import Engine
from unladen.engine.request import Request
from unladen.errors import ContextOverflow, UnladenError
from unladen.runtime.saved import SavedState, pack


def save(engine: Engine, request: Request) -> bytes:
    """The state after the prompt of ``request``, which this submits and finishes. Raises what made
    the request fail, and :class:`UnladenError` where the model was placed elsewhere meanwhile."""
    made: list[bytes | Exception] = []

    def read(cached: CachedSequence) -> None:
        # All of it is computed; what was written beyond the prompt is left out.
        n = cached.length if cached.is_recurrent else min(cached.length, request.n_prompt)
        try:
            made.append(pack(engine.plan, request.tokens[:n], cached.blocks,
                             cached.slot, cached.checkpoint()))
        except Exception as error:  # noqa: BLE001  # the step that ends the request goes on
            made.append(error)

    request.at_end = read
    engine.submit(request)
    engine.finish(request)
    engine.between_steps(lambda: None)  # another thread may still be at that step
    if request.error is not None:
        raise request.error
    result = made[-1] if made else UnladenError(
        "the model was placed elsewhere while its state was saved", hint="save it again")
    if isinstance(result, Exception):
        raise result
    return result


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
            if len(tokens) > engine.context_size:
                raise _too_long(tokens)
            _reserve(cached, tokens)
            arrays = saved.arrays(engine.plan, cached.n_blocks)
            saved.put_caches(engine.plan, arrays, cached.blocks)
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
