"""What all routes share: lines, times, names, errors."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from starlette.responses import JSONResponse, Response

from unladen.server.asked import Chat, Text
from unladen.server.core import Wish
from unladen.server.endpoint import Exchange
from unladen.server.events import Begun, CallArguments, CallBegun, Ended, Event, Piece, Reasoning
from unladen.server.faults import Fault
from unladen.server.streaming import NDJSON, Streamed, begun, whole

REASONS = {"end": "stop", "stop": "stop", "length": "length", "context": "length",
           "tool_calls": "stop", "deadline": "length", "cancelled": "stop"}
"""Ollama's words for why an answer ended."""
LATEST = ":latest"
"""The tag that a name without a tag has."""
_UNITS = {"ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
"""Go's units of time, in seconds."""
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|\u00b5s|ms|s|m|h)")
LAST = 253402300799.0
"""The last second of the year 9999, in seconds since 1970: later times can't be written."""
FULL = 503
"""Ollama's status of a server that takes no more requests."""


def error(fault: Fault) -> tuple[int, Any, Mapping[str, str]]:
    """Status, JSON and headers of ``fault``."""
    return FULL if fault.kind == "full" else fault.status, {"error": str(fault)}, {}


def line(value: Any) -> bytes:
    """A line of a stream."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def now() -> str:
    """The time as Ollama writes it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def at(seconds: float | None) -> str:
    """A time since 1970 as Ollama writes it. None and times after its last one: the last one."""
    last = LAST if seconds is None else min(max(seconds, 0.0), LAST)
    return datetime.fromtimestamp(last, UTC).isoformat().replace("+00:00", "Z")


def nanoseconds(seconds: float) -> int:
    """A duration as Ollama writes it."""
    return round(seconds * 1e9)


def shown_name(name: str) -> str:
    """A model's name with its tag."""
    return name if ":" in name.rpartition("/")[2] else name + LATEST


async def known_name(exchange: Exchange, name: str) -> str:
    """The name by which the server knows the model: ``tiny:latest`` and ``tiny`` are one."""
    if not name:
        raise Fault("bad_request", "model is required", param="model")
    for each in dict.fromkeys((name, name.removesuffix(LATEST), shown_name(name))):
        try:
            return (await exchange.core.card(each)).name
        except Fault as fault:
            if fault.kind != "unknown_model":
                raise
    raise Fault("unknown_model", f"model '{name}' not found",
                hint="/api/tags lists the models")


def seconds_of(keep_alive: Any) -> float | None:
    """Seconds of a duration: a number, or Go's text such as "5m" or "-1"; None for None. One that
    never ends is -1, as Ollama writes it. Raises a ``Fault``."""
    seconds = _seconds_of(keep_alive)
    return seconds if seconds is None or seconds < LAST else -1.0


def _seconds_of(keep_alive: Any) -> float | None:
    if keep_alive is None:
        return None
    if isinstance(keep_alive, int | float) and not isinstance(keep_alive, bool):
        return float(keep_alive)
    if isinstance(keep_alive, str):
        text = keep_alive.strip()
        sign = -1.0 if text.startswith("-") else 1.0
        text = text.lstrip("+-")
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return sign * float(text)
        if text and re.fullmatch(f"(?:{_PART.pattern})+", text):
            return sign * sum(float(n) * _UNITS[unit] for n, unit in _PART.findall(text))
    raise Fault("bad_request", f"keep_alive {str(keep_alive)[:40]!r} is no duration",
                hint='a number of seconds, or a text such as "5m"', param="keep_alive")


def parameters_of(options: Mapping[str, Any], form: Any, think: bool | str | None
                  ) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parameters of :meth:`unladen.Model.chat`, parameters of :class:`unladen.Model`)."""
    given: dict[str, Any] = {}
    for name, ours in _SAMPLING.items():
        if options.get(name) is not None:
            given[ours] = options[name]
    limit = options.get("num_predict")
    if isinstance(limit, int) and limit >= 0:
        given["max_tokens"] = limit
    if stop := options.get("stop"):
        given["stop"] = [stop] if isinstance(stop, str) else stop
    if think is not None:
        given["reasoning"] = think
    if form == "json":
        given["response_format"] = {"type": "json_object"}
    elif isinstance(form, dict):
        given["response_format"] = {"type": "json_schema", "schema": form}
    elif form not in (None, ""):
        raise Fault("bad_request", f"format must be json or a schema, got {str(form)[:40]!r}",
                    param="format")
    loading = {ours: options[name] for name, ours in _LOADING.items()
               if isinstance(options.get(name), int) and options[name] > 0}
    if isinstance(options.get("num_gpu"), int) and options["num_gpu"] >= 0:
        loading["n_gpu_layers"] = options["num_gpu"]
    return given, loading


_SAMPLING = {
    "temperature": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p",
    "typical_p": "typical_p", "repeat_penalty": "repeat_penalty",
    "repeat_last_n": "penalty_last_n", "seed": "seed", "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty", "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau", "mirostat_eta": "mirostat_eta"}
"""Ollama's options of sampling, and this package's names for them."""
_LOADING = {"num_ctx": "context_size", "num_batch": "batch_size", "num_thread": "n_threads"}
"""Ollama's options of loading, and this package's names for them."""


@dataclass
class Answer:
    """An answer as it grows: :meth:`take` returns what is to be sent."""

    text: str = ""
    thinking: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    end: Ended | None = None
    notes: list[str] = field(default_factory=list)
    _open: list[str] | None = None
    _name: str = ""

    def take(self, event: Event) -> list[dict[str, Any]]:
        """Parts of messages that ``event`` completes: texts at once, calls when they are whole."""
        if isinstance(event, Begun):
            self.notes = event.told()
        if isinstance(event, Piece):
            self.text += event.text
            return [*self._closed(), {"content": event.text}]
        if isinstance(event, Reasoning):
            self.thinking += event.text
            return [{"content": "", "thinking": event.text}]
        if isinstance(event, CallBegun):
            done = self._closed()
            self._open, self._name = [], event.name
            return done
        if isinstance(event, CallArguments) and self._open is not None:
            self._open.append(event.text)
        elif isinstance(event, Ended):
            self.end = event
            return self._closed()
        return []

    def _closed(self) -> list[dict[str, Any]]:
        if self._open is None:
            return []
        try:
            arguments = json.loads("".join(self._open) or "{}")
        except ValueError:  # the answer broke off inside the call
            arguments = {}
        call = {"function": {"name": self._name, "arguments": arguments}}
        self._open = None
        self.calls.append(call)
        return [{"content": "", "tool_calls": [call]}]

    def counts(self) -> dict[str, Any]:
        """The counts and durations of the last line, and what was left out or changed."""
        assert self.end is not None
        end = self.end
        told = {"notes": self.notes} if self.notes else {}
        return {**told, "done_reason": REASONS[end.reason],
                "total_duration": nanoseconds(end.load_s + end.wait_s + end.prompt_s
                                              + end.completion_s),
                "load_duration": nanoseconds(end.load_s), "prompt_eval_count": end.n_prompt,
                "prompt_eval_duration": nanoseconds(end.prompt_s),
                "eval_count": end.n_completion, "eval_duration": nanoseconds(end.completion_s)}


@dataclass(frozen=True, slots=True)
class Shape:
    """What the lines of a route have. ``part``: the fields of a part of a message. ``last``: the
    fields of the last line, from the whole answer; with False in a stream, whose texts were
    sent."""

    part: Callable[[dict[str, Any]], dict[str, Any]]
    last: Callable[[Answer, bool], dict[str, Any]]


async def respond(exchange: Exchange, name: str, asked: Chat | Text, wish: Wish, shape: Shape,
                  *, streams: bool) -> Response:
    """Answer ``asked`` in lines of ``shape``, or in one object."""
    context = exchange.core.answer(name, asked, wish)
    label = exchange.body.model
    if not streams:
        return JSONResponse(_ended(label, shape, await whole(exchange.request, _all(context)),
                                   with_text=True))
    events, held = await begun(exchange.request, context)
    return Streamed(
        _lines(events, label, shape), held, failed=lambda fault: line({"error": str(fault)}),
        heartbeat=lambda: line(_under_way(label, shape, {"content": ""})),
        interval=exchange.state.settings.heartbeat_s, media_type=NDJSON)


async def _all(context: AbstractAsyncContextManager[AsyncIterator[Event]]) -> Answer:
    answer = Answer()
    async with context as events:
        async for event in events:
            answer.take(event)
    return answer


async def _lines(events: AsyncIterator[Event], label: str, shape: Shape
                 ) -> AsyncGenerator[bytes, None]:
    answer = Answer()
    async for event in events:
        for part in answer.take(event):
            yield line(_under_way(label, shape, part))
    yield line(_ended(label, shape, answer, with_text=False))


def _under_way(label: str, shape: Shape, part: dict[str, Any]) -> dict[str, Any]:
    return {"model": label, "created_at": now(), **shape.part(part), "done": False}


def _ended(label: str, shape: Shape, answer: Answer, *, with_text: bool) -> dict[str, Any]:
    return {"model": label, "created_at": now(), **shape.last(answer, with_text), "done": True,
            **answer.counts()}
