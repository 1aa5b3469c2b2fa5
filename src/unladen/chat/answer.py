"""The answer so far: text, reasoning and calls, and the deltas that weren't given out yet."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass, field

from unladen.chat.deltas import (
    CallArguments,
    CallBegun,
    CallFinished,
    ContentDelta,
    Delta,
    ReasoningDelta,
)
from unladen.chat.marks import WHITE
from unladen.chat.messages import Message, ToolCall

_LETTERS = string.ascii_letters + string.digits
MAX_NOTES = 16
"""Reasons that one message may list for text that isn't understood."""


def new_id(n_random: int = 24, prefix: str = "call_") -> str:
    """An id for a call: ``prefix`` and ``n_random`` random letters and digits."""
    return prefix + "".join(secrets.choice(_LETTERS) for _ in range(n_random))


class Flow:
    """Text of one kind. White space waits for the text that follows it."""

    def __init__(self, emit: Callable[[str], None], keeps_start: bool = False) -> None:
        self.pieces: list[str] = []
        self._emit = emit
        self._keeps_start = keeps_start
        self._waiting: list[str] = []
        self._is_apart = self._skips = False

    @property
    def is_blank(self) -> bool:
        """Whether nothing but white space was written."""
        return not self.pieces

    def write(self, text: str) -> None:
        """Append ``text``."""
        body = text.rstrip(WHITE)
        if not body:
            self._waiting.append(text)
            return
        waiting, self._waiting = "".join(self._waiting), [text[len(body):]]
        if self.is_blank and not self._keeps_start:
            body = (waiting + body).lstrip(WHITE) if self._skips else without_blank(waiting + body)
            waiting = ""
        self._is_apart = False
        self.pieces.append(waiting + body)
        self._emit(waiting + body)

    def start(self) -> None:
        """The text begins here: white space before it doesn't count."""
        if self.is_blank:
            self._waiting, self._keeps_start, self._skips = [], False, True

    def part(self) -> None:
        """Something else comes in between: white space at the end counts only if text follows."""
        self._is_apart = True

    def resume(self) -> None:
        """A new part begins: it is written on a line of its own, without white space before it."""
        self._waiting = ["\n"] if self.pieces else []

    def finish(self) -> None:
        """The text ends: write white space that belongs to it."""
        waiting = "".join(self._waiting)
        if waiting and self.pieces and not self._is_apart:
            self.pieces.append(waiting)
            self._emit(waiting)
        self._waiting = []

    @property
    def text(self) -> str:
        """What was written."""
        return "".join(self.pieces)


def without_blank(text: str) -> str:
    """``text`` without blank lines at its start."""
    white = text[:len(text) - len(text.lstrip(WHITE))]
    return text[max(white.rfind("\n"), white.rfind("\r")) + 1:]


@dataclass(slots=True)
class _Call:
    name: str
    id: str
    pieces: list[str] = field(default_factory=list)
    is_complete: bool = False

    def result(self) -> ToolCall:
        return ToolCall(self.name, "".join(self.pieces), self.id, self.is_complete)


class Answer:
    """Collects what a parser reads. What was given out by :meth:`drain` is never taken back.

    keeps_start: white space at the start belongs to the content. whole_calls: a call is given out
    only when it is complete. make_id: makes the id of a call for which the model wrote none.
    """

    def __init__(self, *, keeps_start: bool = False, whole_calls: bool = False,
                 make_id: Callable[[], str] = new_id) -> None:
        self.content = Flow(lambda text: self._deltas.append(ContentDelta(text)), keeps_start)
        self.reasoning = Flow(lambda text: self._deltas.append(ReasoningDelta(text)))
        self.notes: list[str] = []
        self._whole_calls = whole_calls
        self._make_id = make_id
        self._deltas: list[Delta] = []
        self._calls: list[_Call] = []
        self._open: _Call | None = None
        self._held: list[Delta] | None = None
        self._is_shown = False
        self._begin_at = 0
        self._ids: set[str] = set()

    @property
    def n_calls(self) -> int:
        """Calls begun, the open one included."""
        return len(self._calls)

    @property
    def has_open_call(self) -> bool:
        """Whether a call began and isn't complete."""
        return self._open is not None

    def begin_call(self, name: str, call_id: str = "", *, is_held: bool = False) -> None:
        """A call of ``name`` begins. ``call_id`` is what the model wrote; an id is made where it
        wrote none, or one that an earlier call has. ``is_held``: nothing of the call is given out
        before its end, since its id may come late."""
        is_new = bool(call_id) and call_id not in self._ids
        self._open = _Call(name, call_id if is_new else self._make_id())
        self._begin_at = len(self._deltas)
        self._calls.append(self._open)
        self._held = []
        self._held.append(CallBegun(self.n_calls - 1, self._open.id, name))
        if not (is_held or self._whole_calls):
            self._release()
        self.content.part()

    def _release(self) -> None:
        if self._held is not None:
            self._deltas.extend(self._held)
        self._held = None

    def arguments(self, text: str) -> None:
        """The open call's arguments go on."""
        if text and self._open is not None:
            self._open.pieces.append(text)
            (self._deltas if self._held is None else self._held).append(
                CallArguments(self.n_calls - 1, text))

    def end_call(self, call_id: str = "") -> None:
        """The open call is complete. ``call_id``: what came as its id after its beginning."""
        call, index = self._open, self.n_calls - 1
        if call is None:
            return
        if call_id and self._held is not None and call_id not in self._ids:
            call.id = call_id
            self._held[0] = CallBegun(index, call_id, call.name)
        call.is_complete = True
        self._ids.add(call.id)
        self._release()
        self._deltas.append(CallFinished(index))
        self._open, self._is_shown = None, False

    def keep_cut_call(self) -> bool:
        """The text was cut off: keep the open call as far as it came. False if none is open."""
        if self._open is None:
            return False
        self._release()
        self._open = None
        return True

    def drop_call(self, why: str) -> None:
        """The open call turns out to be none, for the reason ``why``. It goes, unless it was
        given out already: then it stays, incomplete."""
        if why and len(self.notes) < MAX_NOTES:
            self.notes.append(why)
        if self._open is not None and not self._is_shown:
            del self._deltas[self._begin_at:]
            self._calls.pop()
        self._open, self._held, self._is_shown = None, None, False

    def drain(self) -> list[Delta]:
        """The deltas since the last call; neighbours of one kind are joined."""
        deltas, self._deltas = self._deltas, []
        if self._open is not None and self._held is None:
            self._is_shown = True
        return _joined(deltas)

    def message(self) -> Message:
        """The answer so far. A call that is held isn't part of it."""
        calls = self._calls if self._held is None else self._calls[:-1]
        return Message(self.content.text, self.reasoning.text,
                       tuple(call.result() for call in calls), tuple(self.notes))


def _joined(deltas: list[Delta]) -> list[Delta]:
    runs: list[list[Delta]] = []
    for delta in deltas:
        if runs and _goes_on(runs[-1][-1], delta):
            runs[-1].append(delta)
        else:
            runs.append([delta])
    return [_one(run) for run in runs]


def _goes_on(last: Delta, delta: Delta) -> bool:
    return (type(last) is type(delta) and not isinstance(delta, CallBegun | CallFinished)
            and getattr(last, "index", 0) == getattr(delta, "index", 0))


def _one(run: list[Delta]) -> Delta:
    first = run[0]
    if len(run) == 1 or isinstance(first, CallBegun | CallFinished):
        return first
    text = "".join(d.text for d in run if not isinstance(d, CallBegun | CallFinished))
    if isinstance(first, CallArguments):
        return CallArguments(first.index, text)
    return type(first)(text)
