"""``unladen ps``: shows what a running server has in memory, and what it does."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from unladen.cli._running import Key, NoServer, Running, Server
from unladen.cli._sizes import size_text
from unladen.cli._table import fitted, paragraph, room, width
from unladen.cli._text import visible

EVERY_S: Final = 1.0
"""Seconds between two looks at the server: it knows nothing newer before."""
NEVER: Final = 9999
"""The year in which Ollama's API has models unloaded that stay for ever."""
HEAD: Final = ("model", "state", "context", "memory", "running", "waiting", "tokens/s", "unloads")
UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
"""Units of time, in seconds."""


def command(
    server: Server = None, key: Key = None,
    once: Annotated[bool, typer.Option("--once", help="Show it once, also on a terminal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write a JSON array, once.")] = False,
) -> None:
    """Show the models that a running unladen serve has in memory.

    On a terminal the table is written anew every second until Ctrl-C; in a pipe it is written once.
    """
    running = Running(server, key)
    if as_json:
        json.dump(models_of(running), sys.stdout)
        sys.stdout.write("\n")
    elif once or not _can_redraw():
        for line in table(models_of(running), room(), width(), time.time()):
            print(line)
    else:
        _live(running)


def _can_redraw() -> bool:
    """Whether stdout is a terminal whose last lines can be written again."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb").lower() not in ("dumb", "unknown")


def _live(running: Running) -> None:
    from unladen.cli._talk.live import LastRows
    size = shutil.get_terminal_size

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    rows = LastRows(write, lambda: (size().columns, size().lines))
    shown: Sequence[str] = ()
    try:
        while True:
            # The last column stays free: some terminals break a line that fills it.
            columns = width() - 1
            shown = [line[:columns] for line in
                     table(models_of(running), columns, columns, time.time())]
            rows.show(shown)
            time.sleep(EVERY_S)
    finally:
        rows.keep(shown)


def models_of(running: Running) -> list[dict[str, Any]]:
    """Every model in memory, on its way there, or that failed to get there."""
    found = running.get("/api/ps")
    models = found.get("models") if isinstance(found, dict) else None
    if not isinstance(models, list) or not all(isinstance(each, dict) for each in models):
        raise NoServer(f"what answers at {running.address} isn't unladen serve",
                       hint="--server ADDRESS names the right one")
    return [_facts(each) for each in models]


def _facts(told: Mapping[str, Any]) -> dict[str, Any]:
    """A model of ``/api/ps``, of which Ollama itself tells less."""
    total, on_gpu = _number(told.get("size")), _number(told.get("size_vram"))
    memory = told.get("size_by_device")
    if not isinstance(memory, dict):
        memory = {"gpu": on_gpu, "cpu": max(0, total - on_gpu)}
    return {
        "name": str(told.get("name", "")).removesuffix(":latest"),
        "state": str(told.get("state", "ready")), "progress": told.get("progress", 1.0),
        "error": str(told.get("error") or ""),
        "context_size": _number(told.get("context_length")),
        "memory": {str(name): _number(n) for name, n in memory.items() if _number(n)},
        "running": _number(told.get("running")), "waiting": _number(told.get("waiting")),
        "tokens_per_second": told.get("tokens_per_second", 0.0),
        "unloads_at": _until(told.get("expires_at"))}


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _until(text: object) -> str | None:
    """The time ``text`` where it is one at which a model is unloaded; None: it stays."""
    return text if isinstance(text, str) and _time(text) is not None else None


def _time(text: str) -> float | None:
    """``text`` in seconds since 1970; None where it is no time, or stands for ever."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return None if found.year >= NEVER else found.timestamp()


def table(models: Sequence[Mapping[str, Any]], columns: int, of_text: int, now: float
          ) -> list[str]:
    """``models`` as a table of at most ``columns``, and below it why some failed, in lines of at
    most ``of_text``. ``now``: seconds since 1970."""
    if not models:
        return ["no model is in memory"]
    rows = [(visible(each["name"]), _state(each), f"{each['context_size']:,}"
             if each["context_size"] else "-", _memory(each), str(each["running"]),
             str(each["waiting"]), _speed(each), _unloads(each, now)) for each in models]
    lines = fitted(HEAD, rows, columns, idle=("-", "0"))
    for each in models:
        if each["error"]:
            lines += paragraph(f"{visible(each['name'])}: {visible(each['error'])}", of_text, "  ")
    return lines


def _state(model: Mapping[str, Any]) -> str:
    if model["state"] == "loading":
        return f"loading {min(1.0, max(0.0, float(model['progress'] or 0))):.0%}"
    return visible(model["state"])


def _memory(model: Mapping[str, Any]) -> str:
    if model["state"] == "failed":
        return "-"
    return ", ".join(f"{visible(name)} {size_text(n)}"
                     for name, n in model["memory"].items()) or "-"


def _speed(model: Mapping[str, Any]) -> str:
    speed = model["tokens_per_second"]
    return f"{speed:,.1f}" if isinstance(speed, int | float) and speed > 0 else "-"


def _unloads(model: Mapping[str, Any], now: float) -> str:
    """When the model is unloaded."""
    if model["state"] != "ready":
        return "-"
    if model["running"] or model["waiting"]:
        return "in use"
    at = None if model["unloads_at"] is None else _time(model["unloads_at"])
    if at is None:
        return "never"
    left = max(0.0, at - now)
    size, unit = next(((size, unit) for size, unit in UNITS if left >= size), UNITS[-1])
    return f"in {left / size:.0f} {unit}"
