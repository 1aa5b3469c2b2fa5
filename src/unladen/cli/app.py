"""``unladen``: the commands, found by scanning this folder, and what happens to their errors.

Data goes to stdout, talk to stderr. Exit code 0 is success, 1 an error that says what to try, 2 a
wrong command line, 130 an interrupt.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from io import TextIOWrapper

import typer

from unladen import __version__
from unladen.cli._text import VisibleFormatter, visible
from unladen.discover import modules
from unladen.errors import UnladenError

DEBUG_VARIABLE = "UNLADEN_DEBUG"
N_BEFORE_COLLECTION = 50_000
"""New objects before Python looks for cycles among them: importing makes many, and they stay."""


def build_app(only: str | None = None) -> typer.Typer:
    """The application: each module here with a ``command`` function is one command. ``only``: of
    these, the one of this name; the others needn't be imported to run it."""
    app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False,
                      context_settings={"help_option_names": ["-h", "--help"]},
                      help="Run GGUF language models on your own machine.")
    app.callback()(_global_options)
    for module in modules("unladen.cli", "commands", only):
        if hasattr(module, "command"):
            app.command(module.__name__.rpartition(".")[2])(module.command)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"unladen {__version__}")
        raise typer.Exit


def _global_options(
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks and debug messages; "
                                                      "also after the command."),
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True,
                                 help="Show the version and exit."),
) -> None:
    """Options of every command; ``main`` takes ``--debug`` before it comes here."""


def program() -> None:
    """The console script: :func:`main`, then the end of the process at once. Python would take
    everything apart first, which takes as long as a token or two."""
    gc.set_threshold(N_BEFORE_COLLECTION)
    # NumPy's threads are for products of matrices, which are the backends' business here. They spin
    # for a while when it has been imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code: int | str | None = None
    try:
        main()
    except SystemExit as end:
        code = end.code
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        sys.exit(code)  # Python says what became of the rest
    if isinstance(code, str):
        sys.exit(code)
    os._exit(code or 0)


def main() -> None:
    """Run the command that the process's arguments name; may raise :class:`SystemExit`."""
    arguments, debug = _without_debug(sys.argv[1:])
    _set_up_output(debug)
    try:
        build_app(_asked_for(arguments))(args=arguments, prog_name="unladen")
    except UnladenError as error:
        if debug:
            raise
        # What they quote may come from a file.
        print(f"error: {visible(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"hint: {visible(error.hint)}", file=sys.stderr)
        sys.exit(1)


def _asked_for(arguments: list[str]) -> str | None:
    """The command of this package that ``arguments`` begin with; None: another, or none."""
    name = arguments[0] if arguments else ""
    module = f"unladen.cli.{name}"
    if "_UNLADEN_COMPLETE" in os.environ or not name.isidentifier() or find_spec(module) is None:
        return None
    return name if hasattr(import_module(module), "command") else None


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """``arguments`` without ``--debug``, wherever before ``--`` it stands, and whether it did."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = [a for a in arguments[:end] if a != "--debug"]
    return options + arguments[end:], len(options) < end or bool(os.environ.get(DEBUG_VARIABLE))


def _set_up_output(debug: bool) -> None:
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a character shows a question mark instead of ending the program.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(VisibleFormatter(
        "%(levelname)s: %(message)s" if debug else "%(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler])
    # What was offloaded where is worth a line, before anything else is said.
    logging.getLogger("unladen").setLevel(logging.DEBUG if debug else logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
