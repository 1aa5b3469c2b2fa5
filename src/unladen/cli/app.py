"""The ``unladen`` program: finds the commands by scanning this folder and reports their errors.

Data goes to stdout, messages go to stderr. ``_ending.py`` decides the exit codes.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import logging
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from io import TextIOWrapper
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperGroup

from unladen import __version__
from unladen.cli import COMPLETE_VARIABLE
from unladen.cli import _ending as ending
from unladen.cli._pasted import PastingCommand
from unladen.cli._stdio import take_over
from unladen.cli._table import room
from unladen.cli._text import Once, VisibleFormatter
from unladen.discover import Found, is_plugin, modules, name_of

DEBUG_VARIABLE = "UNLADEN_DEBUG"
"""The environment variable that does the same as ``--debug``."""
WIDE_ENOUGH = 64
"""Columns of a terminal that help with boxes needs."""
N_BEFORE_COLLECTION = 50_000
"""New objects after which Python's garbage collector runs. Imports create many objects, which are
never garbage, so the default would run it often for nothing."""


class Commands(TyperGroup):
    """The commands. For an unknown name the error says what to use instead."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See :class:`typer.core.TyperGroup`."""
        name = args[0]
        if ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name):
            return super().resolve_command(ctx, args)
        from unladen.cli._elsewhere import unknown
        raise unknown(name, args[1:], self.list_commands(ctx))


def build_app(only: str | None = None) -> typer.Typer:
    """The application. Each module in this folder with a ``command`` function is a command, called
    as the module, or as its ``NAME`` says.
    ``only``: build this command alone, so that the others aren't imported."""
    # Boxes leave no room for the names of options in a narrow terminal.
    is_wide = (columns := room()) >= WIDE_ENOUGH
    settings = {"help_option_names": ["-h", "--help"],
                "terminal_width": None if is_wide else columns}
    app = typer.Typer(add_completion=True, pretty_exceptions_enable=False, cls=Commands,
                      rich_markup_mode="rich" if is_wide else None, context_settings=settings,
                      help="Run GGUF language models on your own machine.")
    app.callback()(_global_options)
    completes = COMPLETE_VARIABLE in os.environ
    for name, command in found(only).entries.items():
        if completes:
            from unladen.cli._completion import with_values
            command = with_values(command)
        app.command(str(name), cls=PastingCommand)(command)
    return app


def found(only: str | None = None) -> Found[Callable[..., None]]:
    """The commands by name, with those of plug-ins; see :func:`build_app`."""
    result: Found[Callable[..., None]] = Found()
    for module in modules("unladen.cli", "commands", only, report=result.leave_out):
        if is_plugin(module) or hasattr(module, "command"):
            result.add(module, _command_of)
    return result


def _command_of(module: ModuleType) -> list[tuple[str, Callable[..., None]]]:
    name, command = getattr(module, "NAME", name_of(module)), module.command
    if is_plugin(module):
        if find_spec(f"unladen.cli.{name}") is not None:
            raise ValueError(f"unladen has a command {name} already")
        tried = typer.Typer()
        tried.command(name)(command)
        typer.main.get_command(tried)  # raises the error that would break every other command
    return [(name, command)]


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
    """Options of every command. ``main`` removes ``--debug`` before the arguments come here."""


def program() -> None:
    """The console script: runs :func:`main`, then ends the process at once. Python's own shutdown
    would free every object first, which takes as long as a token or two."""
    gc.set_threshold(N_BEFORE_COLLECTION)
    # NumPy's threads compute products of matrices, which the backends do here. They would spin for
    # a while after NumPy's import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code: object = ending.Code.DONE
    try:
        ending.end_on_signals()
        take_over()
        main()
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt as interrupt:
        code = ending.code_of(interrupt)
    if isinstance(code, str):
        print(code, file=sys.stderr)
    os._exit(_close(int(code) if isinstance(code, int) else int(code is not None)))


def _close(code: int) -> int:
    """Run the exit handlers and flush the output; returns ``code``, or another one where that
    fails."""
    try:
        # From here on Ctrl-C ends the process at once: exit handlers may wait for seconds.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except (ending.StdoutFailed, OSError) as error:
        if code == ending.Code.DONE:
            ending.say(error)
            code = ending.code_of(error)
    sys.stderr.flush()
    return code


def main() -> None:
    """Run the command that the process's arguments name. Raises :class:`SystemExit`, or with
    ``--debug`` the command's own exception."""
    arguments, debug = _without_debug(sys.argv[1:])
    _set_up_output(debug)
    try:
        code = _run(arguments or ["--help"])
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        code = ending.code_of(interrupt)
    except Exception as error:
        if debug and not ending.is_usage(error) and not isinstance(error, ending.StdoutFailed):
            raise
        ending.say(error)
        code = ending.code_of(error)
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Run a command; returns its exit code. Raises the command's errors and the parser's."""
    command = typer.main.get_command(build_app(_asked_for(arguments)))
    if COMPLETE_VARIABLE in os.environ:
        return _complete(command)
    try:
        with command.make_context("unladen", arguments) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    return ending.Code.DONE


def _complete(command: Any) -> int:
    """Answer a shell's request for completions, without any other output."""
    from unladen.cli._completion import mend_bash
    known, code = mend_bash(os.environ), ending.Code.DONE
    with io.StringIO() as found:
        try:
            with contextlib.redirect_stdout(found):
                command.main(args=[], prog_name="unladen")
        except SystemExit as end:
            code = ending.Code.FAILED if end.code else ending.Code.DONE
        for line in found.getvalue().splitlines():
            print(line.removeprefix(known))
    return code


def _asked_for(arguments: list[str]) -> str | None:
    """The command of this package that ``arguments`` begin with; None for a plug-in's or none."""
    name = arguments[0] if arguments else ""
    module = f"unladen.cli.{name}"
    if COMPLETE_VARIABLE in os.environ or not name.isidentifier() or find_spec(module) is None:
        return None
    return name if hasattr(import_module(module), "command") else None


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """``arguments`` without each ``--debug`` before ``--``, and whether there was one."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = [a for a in arguments[:end] if a != "--debug"]
    return options + arguments[end:], len(options) < end or bool(os.environ.get(DEBUG_VARIABLE))


def _set_up_output(debug: bool) -> None:
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal's encoding lacks is shown as a question mark; otherwise
        # printing it would end the program.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(VisibleFormatter(
        "%(levelname)s: %(message)s" if debug else "%(message)s"))
    handler.addFilter(Once())
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler])
    # INFO shows the line that says which layers run where.
    logging.getLogger("unladen").setLevel(logging.DEBUG if debug else logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if COMPLETE_VARIABLE in os.environ:
        logging.disable()  # log lines would appear in the middle of the user's command line
