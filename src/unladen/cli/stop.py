"""``unladen stop MODEL``: unloads a model of a running server."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from unladen.cli._running import Key, Refused, Running, Server
from unladen.cli._text import visible
from unladen.cli.ps import models_of
from unladen.errors import ModelNotFound

NOT_FOUND = 404
"""The HTTP status for a model that the server doesn't have."""
LATEST = ":latest"
"""The tag that a name without one has; Ollama's API shows it."""


def command(
    models: Annotated[list[str], typer.Argument(
        metavar="MODEL...", help="Names that unladen ps shows.")],
    server: Server = None, key: Key = None,
) -> None:
    """Unload models of a running unladen serve, once the requests that they answer have ended.

    The server itself goes on: a model is loaded again when somebody asks for it. Ctrl-C in the
    server's terminal, or SIGTERM, ends the server.
    """
    running = Running(server, key)
    for name in models:
        before = {each["name"]: each for each in models_of(running)}
        busy = before.get(name.removesuffix(LATEST), {}).get("running", 0)
        if busy:
            print(f"{visible(name)} answers {busy} request{'s' * (busy != 1)}; it is unloaded once "
                  "they have ended", file=sys.stderr)
        stopped = _unloaded(running, name) or _unloaded(running, name.removesuffix(LATEST))
        if stopped is None:
            raise ModelNotFound(
                f"the server at {running.address} has no model {name}",
                hint=f"in memory: {', '.join(before) or 'none'}; unladen ps shows them")
        print(f"{visible(name)} is unloaded" if stopped.removesuffix(LATEST) in before else
              f"{visible(name)} wasn't in memory")


def _unloaded(running: Running, name: str) -> str | None:
    """Unload the model called ``name``; its own name, or None where there is no such model."""
    try:
        told = running.post("/models/unload", {"model": name})
    except Refused as error:
        if error.status != NOT_FOUND:
            raise
        return None
    return str(told.get("name", name)) if isinstance(told, dict) else name
