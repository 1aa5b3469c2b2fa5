"""``unladen chat MODEL``: a conversation."""

from __future__ import annotations

from typing import Annotated

import typer

from unladen.cli import _options as o
from unladen.cli._extend import Parameters
from unladen.cli._fetch import fetched
from unladen.cli._loading import ANSWERING, loadable
from unladen.cli._notes import note_unused
from unladen.cli._placement import placeable
from unladen.cli._sampling import samples
from unladen.cli._tools import tools_of


@placeable
@samples
@loadable(*ANSWERING)
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
    *, loading: Parameters, sampling: Parameters, repetition: Parameters, placement: Parameters,
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
    loaded = Model(fetched(model), **loading, **placement)
    note_unused(loaded, placement)
    with loaded:
        talk(loaded, system=system, tools=offered, given=wanted, load=load)
