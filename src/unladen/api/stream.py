"""A completion, piece by piece while it is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unladen.api.closes import Closes

if TYPE_CHECKING:
    from unladen.engine import Engine, Request
    from unladen.types import Completion


class Stream(Closes, Iterator[str]):
    """Text as it is written. Ending it early (by ``close``, at the end of a ``with``, by dropping
    it) cancels the rest."""

    def __init__(self, engine: Engine, request: Request) -> None:
        self._engine = engine
        self._request = request

    def __next__(self) -> str:
        request = self._request
        if not request.pieces and not request.done:
            try:
                self._engine.advance(request)
            except BaseException:
                self.close()
                raise
        if request.pieces:
            return request.pieces.popleft()
        result_of(request)
        raise StopIteration

    @property
    def result(self) -> Completion:
        """The completion so far; all of it once the iteration has ended."""
        return self._request.completion()

    def close(self) -> None:
        """Cancel the part that is not written yet."""
        if not self._request.done:
            self._engine.cancel(self._request)

    def __repr__(self) -> str:
        request = self._request
        state = ("failed" if request.error is not None else
                 f"ended by {request.stop_reason}" if request.done else "going on")
        return f"<Stream: {len(request.tokens) - request.n_prompt} tokens so far, {state}>"


def result_of(request: Request) -> Completion:
    """The completion of ``request``; raises the request's error, if it has one."""
    if request.error is not None:
        raise request.error
    return request.completion()
