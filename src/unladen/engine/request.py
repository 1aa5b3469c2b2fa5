"""One request: its prompt and options, its times, the caller that waits, and its result."""

from __future__ import annotations

import contextlib
import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Second:
    """The second one of two texts in a prompt begins with token number ``first``. ``row`` f32
    [n_embd] is what the model's graph takes for each of its tokens."""

    first: int
    row: Logits


class Request:
    """A prompt to be continued, or a prompt for which the logits of every token are wanted.

    * ``prompt``: token ids.
    * ``sampler``: chooses the tokens; None: the logits of every token of the prompt are the result.
    * ``decoder``: turns tokens into text.
    * ``eog_ids``: tokens that end the text.
    * ``max_tokens``: tokens to write at most.
    * ``stop``: strings that end the text and aren't part of it.
    * ``n_logprobs``: None: no log-probabilities; 0: those of the chosen tokens; n: those of n
      alternatives too. A logit without a token counts as -inf.
    * ``priority``: requests of a higher priority are begun first.
    * ``deadline``: a reading of :func:`time.monotonic` at which the request ends, complete or not.
    * ``session``: the conversation that the prompt continues; the prompt has all its tokens.

    :attr:`pieces` fills up with text while the engine works. :attr:`stop_reason` or :attr:`error`
    is set at the end. :attr:`n_best` is how many of the best candidates suffice to choose a token;
    None where whole logits are needed. :attr:`at_end` is called with the sequence before its blocks
    are given back, and must raise nothing. :attr:`was_sent_back`: the request ran before, and had
    to make room in the cache for others. :attr:`cut`: the stop reason of a text that comes to its
    end only because its tokens run out. :attr:`admitted`: when it was first admitted to the cache,
    a reading of :func:`time.perf_counter`; None: it waits. :attr:`second`: where the second text of
    the prompt begins, for models that tell two texts apart. Raises :class:`InvalidArgument`.
    """

    def __init__(self, prompt: Sequence[int], *, sampler: Sampler | None, decoder: StreamDecoder,
                 eog_ids: frozenset[int] = frozenset(), max_tokens: int = 0,
                 stop: Sequence[str] = (), n_logprobs: int | None = None, priority: int = 0,
                 deadline: float | None = None, session: Session | None = None) -> None:
        # Checked here so that the caller gets the error at once: a step would raise it later.
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
        self.second: Second | None = None
        self.was_sent_back = False
        self.cut: StopReason | None = None
        self.at_end: Callable[[CachedSequence], None] | None = None
        self.n_reused: int | None = None
        self.admitted: float | None = None
        self.n_drafted = self.n_accepted = 0
        self.pieces: deque[str] = deque()
        self.logits: list[Logits] = []
        self.stop_reason: StopReason | None = None
        self.error: BaseException | None = None
        self.cancelled = False
        # A caller's subclass may choose tokens in another way than by its steps.
        ours = sampler if type(sampler) is Sampler else None
        self.samples_natively = ours is not None and ours.is_native
        self.n_best = ours.n_best if ours is not None and n_logprobs is None else None
        self.is_greedy = ours is not None and ours.is_greedy
        self._bell: queue.SimpleQueue[None] | None = None
        self.eog_ids = eog_ids
        self._decoder = decoder
        self._matcher = StopMatcher(stop) if stop else None
        self._text: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self.submitted = self._first = self._last = time.perf_counter()

    @property
    def done(self) -> bool:
        """Whether the request has ended."""
        return self.stop_reason is not None or self.error is not None

    @property
    def wants_all_logits(self) -> bool:
        """Whether the logits of every token are the result."""
        return self.sampler is None

    @property
    def stop_string(self) -> str:
        """The stop string that ended the text; "" where none did."""
        return "" if self._matcher is None else self._matcher.found

    @property
    def logprobs(self) -> Sequence[TokenLogprob]:
        """The log-probabilities of the tokens so far, if they are wanted. The list grows."""
        return self._logprobs

    def n_left(self, context_size: int) -> int:
        """How many tokens the request may still write."""
        n = len(self.tokens)
        return min(context_size - n, self.max_tokens - (n - self.n_prompt))

    def goes_on(self, context_size: int) -> bool:
        """Whether another token will follow the next one, unless that ends the text."""
        return not (self.done or self.cancelled) and self.n_left(context_size) > 1

    def take_token(self, token: int, row: Logits | None, context_size: int) -> None:
        """Append a sampled ``token``, chosen from logits ``row`` f32 [n_vocab], which are needed
        where log-probabilities are wanted. If this raises, no token and no text was added."""
        now, ends = time.perf_counter(), token in self.eog_ids
        text, logprob = "", None
        reason: StopReason | None = self.cut or "eos"
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
        """End the request for ``reason``, and show the text that was held back."""
        if self.done:
            return
        try:
            text = self._held_back()
        except Exception as error:  # noqa: BLE001  # the decoder is the request's own
            self.fail(error)
            return
        self._emit(text)
        self._end(reason)

    def is_late(self, now: float) -> bool:
        """Whether the deadline has passed at ``now``, a reading of :func:`time.monotonic`."""
        return self.deadline is not None and now >= self.deadline

    def expire(self) -> None:
        """End the request because its deadline has passed. Text that was written stays; without any
        text the request fails with :class:`DeadlineExceeded`."""
        if len(self.tokens) > self.n_prompt:
            self.finish("deadline")
        elif not self.done:
            self.fail(DeadlineExceeded(
                "the deadline passed before the first token was written",
                hint="allow more time, shorten the prompt, or give the request a higher priority"))

    def give_up(self, now: float) -> None:
        """End the request if it was cancelled, or if it is late at ``now``."""
        if self.cancelled:
            self.finish("cancelled")
        elif self.is_late(now):
            self.expire()

    def fail(self, error: BaseException) -> None:
        """End the request with ``error``."""
        self.error = error
        self.wake()

    def leave_behind(self, error: BaseException) -> None:
        """:meth:`fail` in a forked child, where no thread waits for requests of the parent."""
        self._bell = None
        self.fail(error)

    def sleep(self, seconds: float, must_wait: Callable[[], bool]) -> None:
        """Wait for :meth:`wake`, at most ``seconds``. ``must_wait`` is asked once :meth:`wake`
        would be heard, so that none is missed."""
        bell = self._bell = queue.SimpleQueue()
        if must_wait():
            with contextlib.suppress(queue.Empty):
                bell.get(timeout=seconds)
        self._bell = None

    def wake(self) -> None:
        """Wake the caller that waits in :meth:`sleep`."""
        bell = self._bell
        if bell is not None:
            bell.put(None)

    def completion(self) -> Completion:
        """The result; before the request is done, the result so far."""
        generated, n_reused = self.tokens[self.n_prompt:], self.n_reused or 0
        timings = Timings(self._first - self.submitted, self._last - self._first,
                          self.n_prompt - n_reused, len(generated), self.n_drafted,
                          self.n_accepted)
        return Completion(
            "".join(self._text), generated, self.stop_reason or "cancelled", timings,
            Usage(self.n_prompt, len(generated), n_reused),
            self._logprobs if self.n_logprobs is not None else None)

    def _held_back(self) -> str:
        """The text held back so far, part of a character or of a stop string, which belongs to the
        result if no token follows."""
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
