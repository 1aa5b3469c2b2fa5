"""One request: what was asked, when it came, who listens, and what came of it."""

from __future__ import annotations

import contextlib
import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unladen.cache import CachedSequence
from unladen.errors import DeadlineExceeded, InvalidArgument
from unladen.sample import Sampler, logprobs
from unladen.tokenizer import StopMatcher, StreamDecoder
from unladen.types import Completion, StopReason, Timings, TokenLogprob, Usage

if TYPE_CHECKING:
    from unladen.engine.session import Session

Logits = npt.NDArray[np.float32]


class Request:
    """A prompt to be continued, or (``sampler`` None) one whose logits are wanted at every token.

    ``decoder`` turns tokens into text. ``n_logprobs`` None wants no log-probabilities, 0 those of
    the chosen tokens, more also that many alternatives. Requests of a higher ``priority`` are begun
    first. ``deadline``: a reading of :func:`time.monotonic`, at which the request ends, done or
    not. ``session``: the conversation whose tokens the prompt is, all of them.

    :attr:`pieces` fills up with text while the engine works. :attr:`stop_reason` or :attr:`error`
    is set at the end. :attr:`n_best` is the sampler's, None where whole logits are wanted for other
    reasons too. :attr:`at_end` is told the sequence before its blocks are given back, and raises
    nothing. :attr:`was_sent_back`: it ran, and had to make room in the cache for others.
    Log-probabilities are those among the tokens of the vocabulary: logits without a token count as
    -inf. Raises :class:`InvalidArgument`.
    """

    def __init__(self, prompt: Sequence[int], *, sampler: Sampler | None, decoder: StreamDecoder,
                 eog_ids: frozenset[int] = frozenset(), max_tokens: int = 0,
                 stop: Sequence[str] = (), n_logprobs: int | None = None, priority: int = 0,
                 deadline: float | None = None, session: Session | None = None) -> None:
        # Checked here too, where it is the caller who gets the error: in a step it would be late.
        if n_logprobs is not None and not _is_count(n_logprobs):
            raise InvalidArgument(f"logprobs must be a whole number from 0 on, got {n_logprobs!r}",
                                  hint="0 for those of the chosen tokens, n for n others too")
        if not _is_count(max_tokens):
            raise InvalidArgument(f"max_tokens must be a whole number from 0 on, got "
                                  f"{max_tokens!r}", hint="None means no limit")
        self.tokens = list(prompt)
        self.n_prompt = len(self.tokens)
        self.sampler = sampler
        self.max_tokens = max_tokens
        self.n_logprobs = None if n_logprobs is None else int(n_logprobs)
        self.priority, self.deadline, self.session = priority, deadline, session
        self.was_sent_back = False
        self.at_end: Callable[[CachedSequence], None] | None = None
        self.n_reused: int | None = None
        self.n_drafted = self.n_accepted = 0
        self.pieces: deque[str] = deque()
        self.logits: list[Logits] = []
        self.stop_reason: StopReason | None = None
        self.error: BaseException | None = None
        self.cancelled = False
        # A subclass of the caller's may pick tokens by other ways than its steps.
        ours = sampler if type(sampler) is Sampler else None
        self.samples_natively = ours is not None and ours.is_native
        self.n_best = ours.n_best if ours is not None and n_logprobs is None else None
        self.is_greedy = ours is not None and ours.is_greedy
        self._is_awaited = False
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.eog_ids = eog_ids
        self._decoder = decoder
        self._matcher = StopMatcher(stop) if stop else None
        self._text: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._submitted = self._first = self._last = time.perf_counter()

    @property
    def done(self) -> bool:
        """Nothing more will come."""
        return self.stop_reason is not None or self.error is not None

    @property
    def wants_all_logits(self) -> bool:
        """Every token's logits are the result."""
        return self.sampler is None

    def n_left(self, context_size: int) -> int:
        """How many tokens can still come."""
        n = len(self.tokens)
        return min(context_size - n, self.max_tokens - (n - self.n_prompt))

    def goes_on(self, context_size: int) -> bool:
        """Whether another token will follow the next one, unless that ends the text."""
        return not (self.done or self.cancelled) and self.n_left(context_size) > 1

    def take_token(self, token: int, row: Logits | None, context_size: int) -> None:
        """Append a sampled ``token``, chosen from logits ``row`` f32 [n_vocab], which are needed
        where log-probabilities are wanted. If that raises, nothing was appended or shown."""
        now, ends = time.perf_counter(), token in self.eog_ids
        text, logprob = "", None
        reason: StopReason | None = "eos"
        if not ends:
            if self.n_logprobs is not None:
                assert row is not None
                chosen, top = logprobs(row, token, self.n_logprobs)
                logprob = TokenLogprob(token, chosen, tuple(top))
            text, stopped = self._decoder.push(token), False
            if self._matcher is not None:
                text, stopped = self._matcher.push(text)
            n = len(self.tokens) + 1
            reason = ("stop" if stopped else "length" if n - self.n_prompt >= self.max_tokens
                      else "context" if n >= context_size else None)
        if reason is not None and reason != "stop":
            text += self._held_back()
        self._last = now
        if len(self.tokens) == self.n_prompt:
            self._first = now
        if not ends:
            self.tokens.append(token)
        if logprob is not None:
            self._logprobs.append(logprob)
        self._emit(text)
        if reason is not None:
            self._end(reason)

    def finish(self, reason: StopReason) -> None:
        """No more tokens; show what was held back."""
        if self.done:
            return
        try:
            text = self._held_back()
        except Exception as error:  # noqa: BLE001  # the decoder's, and so this request's
            self.fail(error)
            return
        self._emit(text)
        self._end(reason)

    def is_late(self, now: float) -> bool:
        """Whether the deadline has passed at ``now``, a reading of :func:`time.monotonic`."""
        return self.deadline is not None and now >= self.deadline

    def expire(self) -> None:
        """No more tokens, because the deadline has passed. Text that was written stays; without any
        this is the error :class:`DeadlineExceeded`."""
        if len(self.tokens) > self.n_prompt:
            self.finish("deadline")
        elif not self.done:
            self.fail(DeadlineExceeded(
                "the deadline passed before the first token was written",
                hint="allow more time, shorten the prompt, or give the request a higher priority"))

    def fail(self, error: BaseException) -> None:
        """No more tokens, because of ``error``."""
        self.error = error
        self.wake()

    def leave_behind(self, error: BaseException) -> None:
        """:meth:`fail` in a forked child, where nobody waits for what was the parent's."""
        self._is_awaited = False
        self.fail(error)

    def sleep(self, seconds: float) -> None:
        """Wait for :meth:`wake`, but not longer than that."""
        self._is_awaited = True
        with contextlib.suppress(queue.Empty):
            self._bell.get(timeout=seconds)
        self._is_awaited = False

    def wake(self) -> None:
        """There is news for whoever waits in :meth:`sleep`."""
        if self._is_awaited:
            self._bell.put(None)

    def completion(self) -> Completion:
        """The result, also of a request that is not done yet."""
        generated, n_reused = self.tokens[self.n_prompt:], self.n_reused or 0
        timings = Timings(self._first - self._submitted, self._last - self._first,
                          self.n_prompt - n_reused, len(generated), self.n_drafted,
                          self.n_accepted)
        return Completion(
            "".join(self._text), generated, self.stop_reason or "cancelled", timings,
            Usage(self.n_prompt, len(generated), n_reused),
            self._logprobs if self.n_logprobs is not None else None)

    def _held_back(self) -> str:
        """What is wanted as well, if no more is to come."""
        text = self._decoder.flush()
        if self._matcher is None:
            return text
        text, stopped = self._matcher.push(text)
        return text if stopped else text + self._matcher.flush()

    def _end(self, reason: StopReason) -> None:
        self.stop_reason = reason
        self.wake()

    def _emit(self, text: str) -> None:
        if text:
            self._text.append(text)
            self.pieces.append(text)
            self.wake()


def _is_count(value: object) -> bool:
    return (isinstance(value, int | np.integer) and not isinstance(value, bool)
            and int(value) >= 0)
