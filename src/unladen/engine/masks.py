"""Masks of constraints, made in a thread of their own while a device computes the logits."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from unladen.engine.batcher import Work
from unladen.engine.blame import charge
from unladen.engine.request import Request

_Failed = Sequence[tuple[Request, BaseException]]
"""Requests whose constraints raised an exception, and that exception."""


class MaskMaker:
    """Looks ahead for the samplers of one step at a time. The thread that runs steps calls it."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._pending: Future[_Failed] | None = None

    def begin(self, work: Sequence[Work], n_vocab: int) -> None:
        """Begin to make the masks that ``work`` needs, in a vocabulary of ``n_vocab``."""
        self.wait()
        wanted = [item for item in work
                  if item.n_outputs and item.request.sampler is not None
                  and item.request.sampler.looks_ahead]
        if not wanted:
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "unladen-masks")
        self._pending = self._thread.submit(_look_ahead, wanted, n_vocab)

    def wait(self) -> None:
        """Return when all masks are made. Until then no other thread may use the samplers. An
        exception of a constraint ends its request."""
        pending = self._pending
        if pending is not None:
            for request, error in pending.result():
                if not request.done:
                    request.fail(error)
            self._pending = None

    def leave_parent(self) -> None:
        """In a forked child, which has no such thread: begin again."""
        self._thread = self._pending = None

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None


def _look_ahead(wanted: Sequence[Work], n_vocab: int) -> _Failed:
    failed: list[tuple[Request, BaseException]] = []
    for item in wanted:
        assert item.request.sampler is not None
        try:
            item.request.sampler.look_ahead(item.draft, n_vocab)
        except BaseException as error:  # noqa: BLE001 - a caller's constraint may raise anything
            failed.append((item.request, error))
    return failed


def hurry(request: Request, context_size: int) -> None:
    """Let the text of ``request`` come to an end in time, if a constraint says how it may end: JSON
    that breaks off is of no use. The request then ends as one that is cut off. An exception of the
    constraint ends the request."""
    try:
        _hurry(request, context_size)
    except BaseException as error:  # noqa: BLE001  # charge() ends the request
        charge(request, error)


def append_forced(request: Request, context_size: int) -> None:
    """Append the tokens to ``request`` that a constraint leaves no choice about. The next step
    computes them together. Log-probabilities need each token's own logits, so where they are wanted
    each token has its step. An exception of the constraint ends the request."""
    sampler = request.sampler
    if sampler is None or request.n_logprobs is not None:
        return
    try:
        while not (request.done or request.cancelled) and (token := sampler.forced()) is not None:
            sampler.accept(token)
            request.take_token(token, None, context_size)
            _hurry(request, context_size)
    except BaseException as error:  # noqa: BLE001  # charge() ends the request
        charge(request, error)


def _hurry(request: Request, context_size: int) -> None:
    sampler = request.sampler
    if sampler is None or request.done:
        return
    if sampler.hurry(request.n_left(context_size)):
        n_written = len(request.tokens) - request.n_prompt
        request.cut = "length" if (request.max_tokens - n_written
                                   <= context_size - len(request.tokens)) else "context"
