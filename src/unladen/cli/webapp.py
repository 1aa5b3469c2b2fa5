"""``unladen app [MODEL ...]``: a server with its page in the browser."""

from __future__ import annotations

import html
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote

import typer

from unladen.cli._extend import Parameters
from unladen.cli._loading import SERVING, loadable
from unladen.cli._placement import placeable
from unladen.cli._running import KEY_VARIABLE
from unladen.cli.serve import found, options_of, say, serve, with_key

NAME: Final = "app"
"""The command's name: the module of this name is the program."""
DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""Environment variables of which one is set where Linux can show a browser."""


def started(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options of how models are loaded and of where they run."""
    return placeable(loadable(*SERVING)(command))


@started
def command(
    models: Annotated[list[str] | None, typer.Argument(
        metavar="[MODEL]...", show_default="all on this machine",
        help="GGUF files, 'tiny', 'tiny-chat' or org/repo:QUANT on Hugging Face; the first is "
             "loaded at once.")] = None,
    port: Annotated[int, typer.Option("--port", "-p", help="The port; 0: a free one.")] = 0,
    key: Annotated[str | None, typer.Option(
        "--key", show_default="$UNLADEN_KEY, else made",
        help="The key that the page sends.")] = None,
    keep_alive: Annotated[str, typer.Option(
        "--keep-alive",
        help="How long a model stays loaded when nobody asks; -1: for ever.")] = "1h",
    no_browser: Annotated[bool, typer.Option(
        "--no-browser", help="Only print the page's address.")] = False,
    *, loading: Parameters, placement: Parameters,
) -> None:
    """Open the app: models, chat and what runs where, in the browser."""
    from dataclasses import replace

    from unladen.server.config import settings_of
    from unladen.server.keys import make_key
    options = options_of(loading, placement)
    settings = settings_of({"port": port, "allow_any": True, "keep_alive": keep_alive},
                           found(models or [], [], options))
    key = key or os.environ.get(KEY_VARIABLE) or make_key()
    settings, _ = with_key(replace(settings, any_options=options), key)
    with tempfile.TemporaryDirectory(prefix="unladen-") as folder:
        def opened(address: str) -> None:
            page = f"{address}/#key={quote(key, safe='')}"
            is_shown = not no_browser and can_show(os.environ) and _show(page, Path(folder))
            say(f"the page {'opens at' if is_shown else 'is at'} {page}")

        serve(settings, "", opened)


def can_show(environment: Mapping[str, str]) -> bool:
    """Whether this machine has a browser with a window, as far as ``environment`` tells."""
    return not sys.platform.startswith("linux") or any(
        environment.get(name) for name in DISPLAYS)


def _show(page: str, folder: Path) -> bool:
    """Open the address ``page`` in the browser; whether one began. Other users of this machine can
    see the arguments of its processes, so the browser gets a file in ``folder``, which only this
    user can read and which leads to the page with its key."""
    import webbrowser
    file = folder / "unladen.html"
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w",
              encoding="utf-8") as out:
        out.write(f'<!doctype html><meta charset="utf-8"><title>unladen</title>'
                  f'<meta http-equiv="refresh" content="0;url={html.escape(page)}">\n')
    return webbrowser.open(file.as_uri())
