"""An answer as it is written, in its parts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from unladen.api.closes import Closes
from unladen.api.stream import result_of
from unladen.chat.deltas import ContentDelta

if TYPE_CHECKING:
    from unladen.api.answering import Answering
    from unladen.chat.completion import ChatCompletion
    from unladen.chat.deltas import Delta
    from unladen.engine import Engine


class ChatStream(Closes, Iterator["Delta"]):
    """What happens while an answer is written: :data:`unladen.chat.Delta`. :meth:`text` gives the
    text alone. Leaving early (``close``, the end of a ``with``, dropping it) cancels the rest."""

    def __init__(self, engine: Engine, answering: Answering) -> None:
        self._engine, self._answering = engine, answering
        self._deltas: deque[Delta] = deque()

    def __next__(self) -> Delta:
        answering, request = self._answering, self._answering.request
        while not self._deltas:
            if not request.pieces and not request.done:
                try:
                    self._engine.advance(request)
                except BaseException:
                    self.close()
                    raise
            self._deltas.extend(answering.read())
            if request.done and not self._deltas and not request.pieces:
                result_of(request)
                raise StopIteration
        return self._deltas.popleft()

    def text(self) -> Iterator[str]:
        """The pieces of the answer's text, without reasoning and calls."""
        return (delta.text for delta in self if isinstance(delta, ContentDelta))

    @property
    def result(self) -> ChatCompletion:
        """The answer so far; all of it once the iteration has ended."""
        return self._answering.completion()

    def close(self) -> None:
        """Cancel what is not written yet."""
        if not self._answering.request.done:
            self._engine.cancel(self._answering.request)
