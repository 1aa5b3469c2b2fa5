"""A conversation that keeps its sequence in the cache from one request to the next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from unladen.cache import CachedSequence
from unladen.engine.request import Request
from unladen.errors import InvalidArgument


class Session:
    """The tokens of a conversation, and the sequence that holds the first of them, if one does.

    One request at a time continues it. A request that ends with an error leaves the tokens as they
    were before it; whatever else ends one, what it wrote stays.
    """

    def __init__(self, tokens: list[int] | None = None) -> None:
        self._tokens = tokens or []
        self._n_begun = 0
        self._begun: dict[int, Request] = {}
        self.is_closed = False
        self.cached: CachedSequence | None = None
        """Between requests, unless others needed the blocks; the thread that runs steps owns it."""

    @property
    def tokens(self) -> list[int]:
        """All tokens, without those of a request under way."""
        n = self._n_begun
        request = self._begun.get(n)
        if request is not None and request.done:
            if request.error is None:
                self._tokens = request.tokens
            self._n_begun = n + 1
            self._begun.pop(n, None)
        return self._tokens

    @property
    def request(self) -> Request | None:
        """The request under way."""
        request = self._begun.get(self._n_begun)
        return None if request is None or request.done else request

    def check_free(self) -> None:
        """Raise :class:`InvalidArgument` while a request is under way, and after the end."""
        if self.is_closed:
            raise InvalidArgument("the session is closed", hint="use model.session() for a new one")
        if self.request is not None:
            raise _busy()

    def begin(self, request: Request) -> None:
        """``request`` continues the session. Raises as :meth:`check_free` does, and where the
        session went on after the prompt was made."""
        self.check_free()
        tokens = self.tokens
        # If several threads come at once, the first thread's request is stored.
        if (self._begun.setdefault(self._n_begun, request) is not request
                or request.tokens[:len(tokens)] != tokens):
            raise _busy()

    def append(self, tokens: list[int]) -> None:
        """The conversation goes on with ``tokens``; raises as :meth:`check_free` does."""
        self.check_free()
        self._tokens = [*self.tokens, *tokens]


def _busy() -> InvalidArgument:
    return InvalidArgument("the session is writing for another caller",
                           hint="wait for that, or fork() the session before")


class Kept:
    """Sessions whose sequences are in the cache, the one that was used longest ago first."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[Session, None] = OrderedDict()

    def __iter__(self) -> Iterator[CachedSequence]:
        return iter([s.cached for s in self._sessions if s.cached is not None])

    def put(self, session: Session, cached: CachedSequence) -> None:
        """Keep ``cached`` for ``session``; what lies beyond its tokens is given back."""
        cached.trim()
        self.release(session)
        session.cached = cached
        self._sessions[session] = None

    def take(self, session: Session) -> CachedSequence | None:
        """The sequence of ``session``, which the caller owns from here on; None: it was given
        away."""
        cached, session.cached = session.cached, None
        self._sessions.pop(session, None)
        return cached

    def fork(self, session: Session, other: Session) -> None:
        """Let ``other`` begin with the sequence of ``session``, if that is there."""
        if session.cached is not None:
            self.put(other, session.cached.fork())

    def release_oldest(self) -> bool:
        """Give back the blocks of the session that was used longest ago; False: there is none."""
        if not self._sessions:
            return False
        self.release(next(iter(self._sessions)))
        return True

    def release(self, session: Session) -> None:
        """Give back the blocks of ``session``."""
        cached = self.take(session)
        if cached is not None:
            cached.release()

    def release_closed(self) -> None:
        """Give back the blocks of sessions that were closed."""
        for session in [s for s in self._sessions if s.is_closed]:
            self.release(session)

    def forget(self) -> None:
        """The cache is empty."""
        for session in list(self._sessions):
            self.take(session)
