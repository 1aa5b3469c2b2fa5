"""``unladen run MODEL [PROMPT]``: answer a question, or continue a text."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from unladen.cli import _options as o
from unladen.cli._answer import asked, check_options, write_json, write_text
from unladen.cli._extend import Parameters
from unladen.cli._fetch import fetched
from unladen.cli._form import form_of
from unladen.cli._input import from_stdin
from unladen.cli._loading import ANSWERING, loadable
from unladen.cli._notes import note_applied, note_unused
from unladen.cli._placement import placeable
from unladen.cli._sampling import samples
from unladen.cli._table import paragraph, room
from unladen.cli._talk import has_terminal
from unladen.cli._text import visible
from unladen.cli._tools import tools_of

if TYPE_CHECKING:
    from unladen.api import Model, Stream
    from unladen.chat.completion import ChatCompletion
    from unladen.types import Completion


@placeable
@samples
@loadable(*ANSWERING)
def command(
    model: o.ModelArg,
    prompt: Annotated[str | None, typer.Argument(
        metavar="PROMPT", show_default="what comes on stdin, without its last line break",
        help="The question, or the text to continue.")] = None,
    max_tokens: Annotated[int | None, typer.Option(
        "--max-tokens", "-n", show_default="to the end of the context",
        help="Tokens to write.")] = None,
    stop: Annotated[list[str] | None, typer.Option(
        "--stop", help="End at this text; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead.")] = False,
    raw: Annotated[bool, typer.Option(
        "--raw", "--no-conversation", "-no-cnv",
        help="Continue the text as it is, also where the model has a chat template.")] = False,
    system: o.System = None, tools: o.Tools = None, reasoning: o.Reasoning = None,
    template: o.Template = None,
    json_schema: Annotated[str | None, typer.Option(
        "--json-schema", metavar="FILE|JSON", show_default="any text",
        help="Write JSON that this schema describes.")] = None,
    grammar: Annotated[str | None, typer.Option(
        "--grammar", metavar="FILE|GBNF", show_default="any text",
        help="Write text that this GBNF grammar describes.")] = None,
    *, loading: Parameters, sampling: Parameters, repetition: Parameters, placement: Parameters,
) -> None:
    """Answer through the model's chat template, or continue the text where it has none.

    Only the text goes to stdout. Calls of tools follow it, each as a line of JSON with name and
    arguments; the exit code is 0. Reasoning is shown on stderr where that is a terminal.
    Without PROMPT on a terminal it is a conversation, as unladen chat is.
    """
    from unladen.api import Model
    form, offered = form_of(json_schema, grammar), tools_of(tools)
    thinks = o.reasoning_of(reasoning)
    path = fetched(model)
    check_options(path, {"--system": system, "--tools": tools, "--reasoning": reasoning},
                  raw=raw, template=template)
    talks = prompt is None and not as_json and not raw and has_terminal()
    text = prompt if prompt is not None else "" if talks else from_stdin(
        f'unladen run {shlex.quote(model)} "Hello!" gives one; so does a pipe', "prompt")
    loaded = Model(path, **loading, **placement)
    note_unused(loaded, placement, as_json=as_json)
    wanted: Parameters = {"max_tokens": max_tokens, "stop": stop or (), "response_format": form,
                          **sampling, **repetition}
    with loaded:
        if raw or not (talks or template is not None or loaded.has_template):
            _continue(loaded, text, wanted, as_json=as_json)
        else:
            act = _converse if talks else _answer
            act(loaded, text, {**wanted, **thinks, "system": system, "tools": offered,
                               "template": template}, as_json=as_json)


def _converse(loaded: Model, question: str, wanted: Parameters, *, as_json: bool) -> None:
    from unladen.cli._talk.conversation import talk
    talk(loaded, system=wanted.pop("system"), tools=wanted.pop("tools"), given=wanted)


def _continue(loaded: Model, text: str, wanted: Parameters, *, as_json: bool) -> None:
    with loaded.stream(text, **wanted) as stream:
        if as_json:
            _write_json(stream)
        else:
            _write_text(text, stream)
        _show_timings(stream.result)


def _answer(loaded: Model, question: str, wanted: Parameters, *, as_json: bool) -> None:
    note_applied(question, as_json=as_json)
    with asked(loaded, question, **wanted) as stream:
        (write_json if as_json else write_text)(stream)
        _show_timings(stream.result)


def _write_text(prompt: str, stream: Stream) -> None:
    if sys.stdout.isatty() and sys.stderr.isatty():
        # On a terminal the prompt comes before the text. It goes to stderr: it isn't output.
        print(prompt, end="", file=sys.stderr, flush=True)
    is_terminal = sys.stdout.isatty()
    try:
        for piece in stream:
            # On a terminal control characters are escaped, so the model can't control it; in a pipe
            # the text is passed on unchanged.
            sys.stdout.write(visible(piece, keep="\n\t") if is_terminal else piece)
            sys.stdout.flush()
    finally:
        if is_terminal:
            # An error message or the shell's prompt begins on a line of its own.
            sys.stdout.write("\n")


def _write_json(stream: Stream) -> None:
    for _ in stream:
        pass
    json.dump(asdict(stream.result), sys.stdout)
    sys.stdout.write("\n")


def _show_timings(result: Completion | ChatCompletion) -> None:
    if not sys.stderr.isatty():
        return
    t, u = result.timings, result.usage
    guessed = f", {t.n_accepted} of {t.n_drafted} guesses right" if t.n_drafted else ""
    text = (f"[{u.n_prompt} tokens of prompt at {t.prompt_per_second:.1f}/s, {u.n_completion} "
            f"written at {t.completion_per_second:.1f}/s{guessed}, ended by {result.stop_reason}]")
    print("\n".join(paragraph(text, room(), " ")), file=sys.stderr)
