"""A conversation that keeps its sequence in the cache from one request to the next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from unladen.cache import CachedSequence
from unladen.cache.blocks import n_same
from unladen.engine.request import Request
from unladen.errors import InvalidArgument


class Session:
    """The tokens of a conversation, and the sequence in the cache that holds its first tokens, if
    there is one.

    One request at a time continues a session. A request that ends with an error leaves the tokens
    as they were before the request. After any other end, the tokens that it wrote stay.
    """

    def __init__(self, tokens: list[int] | None = None) -> None:
        self._tokens = tokens or []
        self._n_begun = 0
        self._begun: dict[int, Request] = {}
        self.is_closed = False
        self.cached: CachedSequence | None = None
        """The sequence between requests; None where other requests needed its blocks. Only the
        thread that runs steps uses it."""
        self.cached_tokens: Sequence[int] = ()
        """The tokens that :attr:`cached` holds come first in these."""

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
        """The request under way; None without one."""
        request = self._begun.get(self._n_begun)
        return None if request is None or request.done else request

    def check_free(self) -> None:
        """Raise :class:`InvalidArgument` while a request is under way, and after the end."""
        if self.is_closed:
            raise InvalidArgument("the session is closed", hint="use model.session() for a new one")
        if self.request is not None:
            raise _busy()

    def begin(self, request: Request) -> None:
        """Let ``request`` continue the session. Raises as :meth:`check_free` does, and where the
        session got further tokens after the prompt was made."""
        self.check_free()
        tokens = self.tokens
        # If several threads come at once, the first thread's request is stored.
        if (self._begun.setdefault(self._n_begun, request) is not request
                or request.tokens[:len(tokens)] != tokens):
            raise _busy()

    def append(self, tokens: list[int]) -> None:
        """Add ``tokens`` to the conversation; raises as :meth:`check_free` does."""
        self.check_free()
        self._tokens = [*self.tokens, *tokens]

    def rewind(self, tokens: Sequence[int]) -> None:
        """Keep those of the session's tokens with which ``tokens`` begins too, so that a request
        for ``tokens`` can go on from there. Raises as :meth:`check_free` does."""
        self.check_free()
        self._tokens = self.tokens[:n_same(self.tokens, tokens)]


def _busy() -> InvalidArgument:
    return InvalidArgument("the session is writing for another caller",
                           hint="wait for that, or fork() the session before")


class Kept:
    """Sessions whose sequences are in the cache, the least recently used one first."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[Session, None] = OrderedDict()

    def __iter__(self) -> Iterator[CachedSequence]:
        return iter([s.cached for s in self._sessions if s.cached is not None])

    def put(self, session: Session, cached: CachedSequence, tokens: Sequence[int]) -> None:
        """Keep ``cached``, which holds the first of ``tokens``, for ``session``; blocks beyond its
        tokens are given back."""
        cached.trim()
        self.release(session)
        session.cached, session.cached_tokens = cached, tokens
        self._sessions[session] = None

    def take(self, session: Session) -> CachedSequence | None:
        """The sequence of ``session``, which the caller owns from here on; None: it isn't in the
        cache any more."""
        cached, session.cached = session.cached, None
        self._sessions.pop(session, None)
        return cached

    def fork(self, session: Session, other: Session) -> None:
        """Let ``other`` begin with the sequence of ``session``, if that is in the cache."""
        if session.cached is not None:
            self.put(other, session.cached.fork(), session.cached_tokens)

    def release_oldest(self) -> bool:
        """Give back the blocks of the least recently used session; False: there is none."""
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
        """Drop all sequences without giving blocks back, because the whole cache was emptied."""
        for session in list(self._sessions):
            self.take(session)
