"""``unladen chat MODEL``: a conversation."""

from __future__ import annotations

from typing import Annotated

import typer

from unladen.cli import _options as o
from unladen.cli._extend import Parameters
from unladen.cli._fetch import fetched
from unladen.cli._notes import note_unused
from unladen.cli._placement import placeable
from unladen.cli._sampling import samples
from unladen.cli._tools import tools_of


@placeable
@samples
def command(
    model: o.ModelArg,
    system: o.System = None, tools: o.Tools = None, reasoning: o.Reasoning = None,
    template: o.Template = None,
    max_tokens: Annotated[int | None, typer.Option(
        "--max-tokens", "-n", show_default="to the end of the context",
        help="Tokens of one answer at most.")] = None,
    load: Annotated[str | None, typer.Option(
        "--load", metavar="FILE", show_default="none",
        help="Go on from a conversation that /save wrote.")] = None,
    check_tensors: Annotated[bool, typer.Option(
        "--check-tensors", help="Look for NaN and infinity in the weights first.")] = False,
    context_size: o.ContextSize = None, batch_size: o.BatchSize = 512, threads: o.Threads = None,
    threads_batch: o.ThreadsBatch = None, kv_type: o.KVType = "f16", on_oom: o.OnOom = None,
    tokenizer_file: o.TokenizerFile = None, speculate: o.Speculate = True,
    n_draft: o.NDraft = 15, deterministic: o.Deterministic = False,
    *, sampling: Parameters, repetition: Parameters, placement: Parameters,
) -> None:
    """Talk with a model. /help lists the commands of a conversation.

    The model's calls of tools are shown, and you type their results.

    Where stdin or stdout isn't a terminal, each line of stdin is said in turn, and stdout gets the
    answers alone. A message goes on over a line that ends with a backslash, and between two lines
    that begin and end with triple quotes. The exit code is 1 where a turn failed.
    """
    from unladen.api import Model
    from unladen.cli._talk.conversation import talk
    offered = tools_of(tools)
    wanted: Parameters = {"max_tokens": max_tokens, "template": template,
                          **o.reasoning_of(reasoning), **sampling, **repetition}
    loaded = Model(
        fetched(model), context_size=context_size, batch_size=batch_size,
        kv_type=o.kv_types(kv_type), n_threads=threads, n_threads_batch=threads_batch,
        on_oom=[rung for rung in (on_oom or "").split(",") if rung], tokenizer=tokenizer_file,
        speculate=speculate, n_draft=n_draft, deterministic=deterministic,
        check_tensors=check_tensors, **placement)
    note_unused(loaded, placement)
    with loaded:
        talk(loaded, system=system, tools=offered, given=wanted, load=load)
