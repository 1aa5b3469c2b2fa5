"""``unladen run MODEL [PROMPT]``: continue a text."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from unladen.cli import _options as o
from unladen.cli._extend import Parameters
from unladen.cli._fetch import fetched
from unladen.cli._input import from_stdin
from unladen.cli._notes import note_template, note_unused
from unladen.cli._placement import placeable
from unladen.cli._sampling import samples
from unladen.cli._table import paragraph, room
from unladen.cli._text import visible

if TYPE_CHECKING:
    from unladen.api import Stream
    from unladen.types import Completion


@placeable
@samples
def command(
    model: o.ModelArg,
    prompt: Annotated[str | None, typer.Argument(
        metavar="PROMPT", show_default="what comes on stdin, without its last line break",
        help="The text to continue.")] = None,
    max_tokens: Annotated[int | None, typer.Option(
        "--max-tokens", "-n", show_default="to the end of the context",
        help="Tokens to write.")] = None,
    stop: Annotated[list[str] | None, typer.Option(
        "--stop", help="End at this text; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead.")] = False,
    check_tensors: Annotated[bool, typer.Option(
        "--check-tensors", help="Look for NaN and infinity in the weights first.")] = False,
    context_size: o.ContextSize = None, batch_size: o.BatchSize = 512, threads: o.Threads = None,
    threads_batch: o.ThreadsBatch = None, kv_type: o.KVType = "f16", on_oom: o.OnOom = None,
    no_conversation: Annotated[bool, typer.Option(
        "--no-conversation", "-no-cnv",
        help="Continue the text as it is, without a word about a chat template.")] = False,
    tokenizer_file: o.TokenizerFile = None, speculate: o.Speculate = True,
    n_draft: o.NDraft = 15, deterministic: o.Deterministic = False,
    *, sampling: Parameters, repetition: Parameters, placement: Parameters,
) -> None:
    """Continue a text. Only the continuation goes to stdout."""
    from unladen.api import Model
    text = prompt if prompt is not None else from_stdin(
        f'unladen run {shlex.quote(model)} "Once upon a time" continues a text; conversations come '
        "with a later version", "prompt")
    loaded = Model(
        fetched(model), context_size=context_size, batch_size=batch_size,
        kv_type=o.kv_types(kv_type), n_threads=threads, n_threads_batch=threads_batch,
        on_oom=[rung for rung in (on_oom or "").split(",") if rung], tokenizer=tokenizer_file,
        speculate=speculate, n_draft=n_draft, deterministic=deterministic,
        check_tensors=check_tensors, **placement)
    note_unused(loaded, placement, as_json=as_json)
    if not no_conversation:
        note_template(loaded, text, as_json=as_json)
    with loaded, loaded.stream(text, max_tokens=max_tokens, stop=stop or (),
                               **sampling, **repetition) as stream:
        if as_json:
            _write_json(stream)
        else:
            _write_text(text, stream)
        if sys.stderr.isatty():
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


def _show_timings(result: Completion) -> None:
    t, u = result.timings, result.usage
    guessed = f", {t.n_accepted} of {t.n_drafted} guesses right" if t.n_drafted else ""
    text = (f"[{u.n_prompt} tokens of prompt at {t.prompt_per_second:.1f}/s, {u.n_completion} "
            f"written at {t.completion_per_second:.1f}/s{guessed}, ended by {result.stop_reason}]")
    print("\n".join(paragraph(text, room(), " ")), file=sys.stderr)
