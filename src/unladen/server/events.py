"""What comes back from a model, the same for all dialects. Everything here becomes JSON.

An answer is: any number of :class:`Waiting`, one :class:`Begun` before the prompt is computed, then
pieces, then one :class:`Ended` for each of the ``n`` answers. :class:`Fault` ends it at any place.
Where a worker dies between :class:`Begun` and the first piece, another one begins again: then
:class:`Waiting` may come there, but no second :class:`Begun`.
"""

from __future__ import annotations

import array
import base64
import sys
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeAlias

Reason: TypeAlias = Literal["end", "stop", "length", "context", "tool_calls", "deadline",
                            "cancelled"]
"""Why an answer ended: the model ended it, a stop string, ``max_tokens``, a full context, the model
waits for the results of calls, the deadline, a cancel."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The request waits. ``why``: "loading", then ``share`` of the weights is there, from 0 to 1;
    or "queued", then ``place`` requests are before it."""

    code: ClassVar[str] = "w"
    why: Literal["loading", "queued"]
    share: float = 0.0
    place: int = 0


@dataclass(frozen=True, slots=True)
class Begun:
    """The prompt has ``n_prompt`` tokens, of which nothing is computed yet. ``n_truncated`` tokens
    of the conversation were left out, as the request allowed. ``notes``: what was changed in the
    messages, a sentence each."""

    code: ClassVar[str] = "b"
    n_prompt: int
    n_truncated: int = 0
    notes: tuple[str, ...] = ()

    def told(self) -> list[str]:
        """The sentences that a client must see: what was left out and what was changed."""
        left = ([f"{self.n_truncated} tokens of the conversation were left out: the context "
                 "doesn't hold them"] if self.n_truncated else [])
        return [*left, *self.notes]


@dataclass(frozen=True, slots=True)
class Piece:
    """Answer number ``choice`` goes on with ``text``."""

    code: ClassVar[str] = "p"
    choice: int
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The reasoning of answer number ``choice`` goes on with ``text``."""

    code: ClassVar[str] = "r"
    choice: int
    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """Call number ``index`` of answer number ``choice`` begins; ``id`` and ``name`` are whole."""

    code: ClassVar[str] = "c"
    choice: int
    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The arguments of that call go on with ``text``; together they are a JSON object."""

    code: ClassVar[str] = "a"
    choice: int
    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Probabilities:
    """Tokens that answer number ``choice`` goes on with, before the :class:`Piece` of their text.
    Each is (id, bytes as Latin-1 text, log-probability, [(id, bytes, log-probability), ...]).
    With ``echo``, the first token of a prompt has None."""

    code: ClassVar[str] = "l"
    choice: int
    tokens: list[tuple[int, str, float | None, list[tuple[int, str, float]]]]


@dataclass(frozen=True, slots=True)
class Ended:
    """Answer number ``choice`` is complete. ``stop``: the stop string that ended it, else "".

    ``n_prompt``, ``n_cached``, ``n_completion``, ``n_reasoning``: tokens of the prompt, those of
    them that came from the cache, tokens written, those of them that are reasoning.
    ``load_s``, ``wait_s``, ``prompt_s``, ``completion_s``: seconds of loading, in the queue, for
    the prompt, and for the rest.
    """

    code: ClassVar[str] = "e"
    choice: int
    reason: Reason
    stop: str
    n_prompt: int
    n_cached: int
    n_completion: int
    n_reasoning: int
    load_s: float
    wait_s: float
    prompt_s: float
    completion_s: float
    n_drafted: int = 0
    n_accepted: int = 0


@dataclass(frozen=True, slots=True)
class Vectors:
    """The result of :class:`~unladen.server.asked.Embed`: ``rows`` has a vector for each input,
    little-endian float32 as base64; ``n_tokens`` their tokens."""

    code: ClassVar[str] = "v"
    rows: list[str]
    n_tokens: list[int]

    def numbers(self) -> list[list[float]]:
        """The vectors as numbers."""
        found = [array.array("f", base64.b64decode(row)) for row in self.rows]
        if sys.byteorder == "big":
            for row in found:
                row.byteswap()
        return [row.tolist() for row in found]


@dataclass(frozen=True, slots=True)
class Scores:
    """The result of :class:`~unladen.server.asked.Rank`: a number for each document, higher is
    better; ``n_tokens``: tokens computed."""

    code: ClassVar[str] = "s"
    scores: list[float]
    n_tokens: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """The result of :class:`~unladen.server.asked.Count`."""

    code: ClassVar[str] = "n"
    text: str
    n_tokens: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """The result of :class:`~unladen.server.asked.Tokenize` and ``Detokenize``: ids, the bytes of
    each as Latin-1 text, and the text of all."""

    code: ClassVar[str] = "t"
    ids: list[int]
    pieces: list[str]
    text: str


Event: TypeAlias = (Waiting | Begun | Piece | Reasoning | CallBegun | CallArguments | Probabilities
                    | Ended)
"""What an answer consists of."""
Result: TypeAlias = Vectors | Scores | Prompt | Tokens
"""What a question has that is answered at once."""

_KINDS: dict[str, type[Event | Result]] = {kind.code: kind for kind in (
    Waiting, Begun, Piece, Reasoning, CallBegun, CallArguments, Probabilities, Ended, Vectors,
    Scores, Prompt, Tokens)}

_FIELDS = {code: [each.name for each in fields(kind)] for code, kind in _KINDS.items()}


def pack(event: Event | Result) -> list[Any]:
    """``event`` as JSON: its code and its fields in their order."""
    return [event.code, *(getattr(event, name) for name in _FIELDS[event.code])]


def unpack(packed: list[Any]) -> Event | Result:
    """What :func:`pack` made JSON of."""
    code, *values = packed
    if code == Begun.code:
        n_prompt, n_truncated, notes = values
        return Begun(n_prompt, n_truncated, tuple(notes))  # JSON has lists only
    kind: Any = _KINDS[code]
    found: Event | Result = kind(*values)
    return found
