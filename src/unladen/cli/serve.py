"""``unladen serve [MODEL ...]``: models for every client, over HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from unladen.cli._ending import Ended, Misused
from unladen.cli._extend import Parameters, extended
from unladen.cli._fetch import fetched
from unladen.cli._loading import SERVING, loadable
from unladen.cli._placement import placeable
from unladen.cli._running import KEY_VARIABLE
from unladen.cli._text import visible
from unladen.errors import InvalidArgument

if TYPE_CHECKING:
    from unladen.server.core import Card, Core
    from unladen.server.settings import ModelSettings, Settings

OLLAMA_PORT: Final = 11434
"""Where Ollama's clients look for it."""
COMMAND_KEY: Final = "command-line"
"""The name of the key that isn't from a key file."""


def where(
    *, host: Annotated[str | None, typer.Option(
        "--host", show_default="127.0.0.1, this machine alone",
        help="The address to listen at; 0.0.0.0: all, which needs a key.")] = None,
    port: Annotated[int | None, typer.Option(
        "--port", "-p", show_default="8080", help="The port; 0: a free one.")] = None,
    ollama: Annotated[bool, typer.Option(
        "--ollama", help="Listen at Ollama's port, 11434.")] = False,
    socket: Annotated[Path | None, typer.Option(
        "--socket", metavar="PATH", show_default="none",
        help="Listen at this Unix socket instead.")] = None,
    cert: Annotated[Path | None, typer.Option(
        "--cert", metavar="FILE", show_default="plain HTTP",
        help="A certificate for TLS, in PEM form.")] = None,
    cert_key: Annotated[Path | None, typer.Option(
        "--cert-key", metavar="FILE", show_default="none", help="Its key.")] = None,
    allow_origin: Annotated[list[str] | None, typer.Option(
        "--allow-origin", metavar="ORIGIN", show_default="none",
        help="Let web pages of this origin ask; may be repeated.")] = None,
    allow_host: Annotated[list[str] | None, typer.Option(
        "--allow-host", metavar="NAME", show_default="none",
        help="A name by which clients reach this machine; may be repeated.")] = None,
) -> Parameters:
    """The settings of where the server listens, and to whom."""
    return {"host": host, "port": OLLAMA_PORT if ollama and port is None else port,
            "socket": socket, "cert": cert, "cert_key": cert_key, "origins": allow_origin or None,
            "hosts": allow_host or None}


def bounds(
    *, keep_alive: Annotated[str | None, typer.Option(
        "--keep-alive", show_default="5m",
        help="How long a model stays loaded when nobody asks; -1: for ever.")] = None,
    max_waiting: Annotated[int | None, typer.Option(
        "--max-waiting", show_default="64",
        help="Requests of one model that may wait.")] = None,
    max_loaded: Annotated[int | None, typer.Option(
        "--max-loaded", show_default="as many as memory holds",
        help="Models in memory at once.")] = None,
    audit: Annotated[Path | None, typer.Option(
        "--audit", metavar="FILE", show_default="none",
        help="Append a line of JSON for each request, without its text.")] = None,
    log_requests: Annotated[bool, typer.Option(
        "--log-requests", help="Show a line for each request: how fast each part was.")] = False,
) -> Parameters:
    """The settings of what models may take, and of what is written down."""
    return {"keep_alive": keep_alive, "max_waiting": max_waiting, "max_loaded": max_loaded,
            "audit": audit, "log_requests": log_requests or None}


def configurable(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options of :func:`where` and :func:`bounds`, and of how models are
    loaded."""
    return extended(extended(loadable(*SERVING)(command), bounds), where)


@placeable
@configurable
def command(
    models: Annotated[list[str] | None, typer.Argument(
        metavar="[MODEL]...", show_default=False,
        help="GGUF files, 'tiny', 'tiny-chat' or org/repo:QUANT on Hugging Face; "
             "NAME=MODEL gives one a name.")] = None,
    config: Annotated[Path | None, typer.Option(
        "--config", metavar="FILE", help="A TOML file of settings and models.",
        show_default="none")] = None,
    key: Annotated[str | None, typer.Option(
        "--key", show_default="$UNLADEN_KEY, else made where one is needed",
        help="The key that clients must send.")] = None,
    key_file: Annotated[Path | None, typer.Option(
        "--key-file", metavar="FILE", show_default="none",
        help="A file with keys, their scopes and limits.")] = None,
    make_key: Annotated[str | None, typer.Option(
        "--make-key", metavar="NAME", show_default="none",
        help="Make a key, add it to --key-file, print it, and end.")] = None,
    *, where: Parameters, bounds: Parameters, loading: Parameters, placement: Parameters,
) -> None:
    """Serve models to OpenAI's, Anthropic's, Ollama's and llama.cpp's clients."""
    from unladen.server.config import settings_of
    if make_key is not None:
        _add_key(make_key, key_file)
        return
    given, named = _from_file(config)
    for name, value in {**where, **bounds, "key_file": key_file}.items():
        if value is not None:
            given[name] = str(value) if isinstance(value, Path) else value
    settings = settings_of(given, found(models or [], named, options_of(loading, placement)))
    if not settings.models and not settings.allow_any:
        raise Misused("there is no model to serve",
                      hint="name one: unladen serve tiny-chat; or give --config FILE")
    serve(*with_key(settings, key))


def serve(settings: Settings, shown_key: str,
          opened: Callable[[str], None] = lambda address: None) -> None:
    """Serve until a signal comes; then raise what it means for the process. ``shown_key``: a key
    that was made, which is shown once. ``opened``: called with the address once it answers."""
    from unladen.server import listening
    from unladen.server.faults import Fault
    from unladen.server.supervisor import Supervisor
    listening.check(settings)
    settings = replace(settings, max_connections=listening.most_connections(settings))
    bound = listening.bind(settings)
    address = listening.address_of(settings, bound)

    async def ready(core: Core) -> None:
        say(*_welcome(settings, address, shown_key))
        opened(address)
        if settings.preload and settings.models:
            with contextlib.suppress(Fault):  # the log says why a model can't be loaded
                card = await core.load(settings.models[0].name)
                say(f"try: {_example(settings, address, card, shown_key)}")

    number = listening.run(settings, bound, lambda: Supervisor(settings), ready)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Ended(number)


def _add_key(name: str, path: Path | None) -> None:
    from unladen.server.keys import add_key
    if path is None:
        raise Misused("--make-key needs --key-file", hint="unladen serve --make-key laptop "
                                                          "--key-file keys.toml")
    key = add_key(path, name)
    print(f"{path} has the hash of this key; it is shown only now:", file=sys.stderr)
    print(key)


def _from_file(path: Path | None) -> tuple[dict[str, Any], list[ModelSettings]]:
    if path is None:
        return {}, []
    from unladen.server.config import read_config
    return read_config(path)


def found(texts: list[str], named: list[ModelSettings], options: Parameters
           ) -> list[ModelSettings]:
    """The models of the command line and then those of the file, each found on the disk or
    downloaded."""
    from unladen.server.config import model_of, with_options
    models = with_options([*(model_of(text) for text in texts), *named], options)
    return [replace(model, ref=_file_of(model.ref)) for model in models]


def _file_of(ref: str) -> str:
    from unladen.hub import INCLUDED, find_model
    if ref in INCLUDED:
        return ref
    # Raises the error that says what is wrong with a name that leads to no file.
    local = fetched(ref)
    found = find_model(local, aliases={})
    return local if found.preset is not None else os.path.abspath(found.path)


def options_of(*given: Parameters) -> Parameters:
    """The options of models in ``given``; those of a file count where none is given here. Workers
    tell themselves how far a load has come."""
    return {name: value for each in given for name, value in each.items() if name != "progress"}


def with_key(settings: Settings, key: str | None) -> tuple[Settings, str]:
    """The settings with the key of the command line, or with one that is made where other machines
    can ask; and the key to show."""
    from unladen.server.keys import SHORTEST, Key, digest_of, make_key
    from unladen.server.pages import is_loopback
    is_local = settings.socket is not None or is_loopback(settings.host)
    # Workers don't get the variable.
    from_environment = os.environ.pop(KEY_VARIABLE, "")
    key = from_environment or None if key is None else key
    shown = ""
    if key is None:
        if is_local or settings.needs_key:
            return settings, ""
        key = shown = make_key()
    elif not key.strip() or not key.isprintable() or (not is_local and len(key) < SHORTEST):
        raise InvalidArgument(f"a key must have at least {SHORTEST} characters where other "
                              "machines can ask, got "
                              f"{len(key)}", hint="leave it out, and one is made")
    return replace(settings, keys=(Key(COMMAND_KEY, digest_of(key)), *settings.keys)), shown


def _welcome(settings: Settings, address: str, shown_key: str) -> Iterator[str]:
    names = [model.name for model in settings.models]
    yield f"unladen serves {', '.join(names) or 'models by their names'} at {address}"
    if shown_key:
        yield f"key, made now and shown once: {shown_key}"
    elif settings.needs_key:
        yield "clients must send a key"
    yield "Ctrl-C ends it"


def _example(settings: Settings, address: str, card: Card, shown_key: str) -> str:
    can_chat = "chat" in card.can
    body = ({"model": card.name, "messages": [{"role": "user", "content": "Hello"}]} if can_chat
            else {"model": card.name, "prompt": "Once upon a time", "max_tokens": 50})
    parts = ["curl"]
    if settings.socket is not None:
        parts += ["--unix-socket", str(settings.socket)]
        address = "http://localhost"
    if settings.needs_key:
        parts += ["-H", f"Authorization: Bearer {shown_key or 'KEY'}"]
    route = "chat/completions" if can_chat else "completions"
    return shlex.join([*parts, f"{address}/v1/{route}", "-d", json.dumps(body)])


def say(*lines: str) -> None:
    """Write ``lines`` to stderr."""
    print("\n".join(map(visible, lines)), file=sys.stderr, flush=True)
