"""``unladen``: the commands, found by scanning this folder, and what happens to their errors.

Data goes to stdout, talk to stderr. Exit code 0 is success, 1 an error that says what to try, 2 a
wrong command line, 130 an interrupt.
"""

from __future__ import annotations

import logging
import os
import sys

import typer

from unladen.discover import modules
from unladen.errors import UnladenError

DEBUG_VARIABLE = "UNLADEN_DEBUG"


def build_app() -> typer.Typer:
    """The application: each module here with a ``command`` function is one command."""
    app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False,
                      context_settings={"help_option_names": ["-h", "--help"]},
                      help="Run GGUF language models on CPU and GPUs.")
    app.callback()(_global_options)
    for module in modules("unladen.cli", "commands"):
        if hasattr(module, "command"):
            app.command(module.__name__.rpartition(".")[2])(module.command)
    return app


def _global_options(
    context: typer.Context,
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks and debug messages."),
) -> None:
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, stream=sys.stderr,
                        format="%(levelname)s: %(message)s" if debug else "%(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)


def main() -> None:
    """The console script."""
    # --debug is welcome anywhere on the line, also after the command.
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    if len(arguments) < len(sys.argv) - 1:
        arguments.insert(0, "--debug")
    try:
        build_app()(args=arguments)
    except UnladenError as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        _say(f"error: {error.message}")
        if error.hint:
            _say(f"hint: {error.hint}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has gone; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
