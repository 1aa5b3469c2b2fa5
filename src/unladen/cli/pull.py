"""``unladen pull MODEL``: downloads a model from Hugging Face."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from unladen.cli._fetch import unknown
from unladen.cli._text import visible
from unladen.errors import InvalidArgument, ModelNotFound
from unladen.hub import INCLUDED, LocalFile, parse_ref


def command(
    model: Annotated[str, typer.Argument(
        metavar="MODEL", help="org/repo:QUANT on Hugging Face, without QUANT Q4_K_M; or a short "
                              "name such as llama3.2:1b.")],
) -> None:
    """Download a model, or its newest version, and show where it is. A download that ended early
    goes on where it ended; the result must have the checksum that the hub says."""
    from unladen.cli._progress import Download
    from unladen.hub.fetch import fetch
    from unladen.hub.short_names import blame, meaning
    from unladen.hub.stores.created import created
    if (made := created(model)) is not None:
        raise InvalidArgument(f"{model} was made on this machine, of {made.path}",
                              hint="pull the model that it was made of")
    wanted = meaning(model)
    if wanted != model:
        print(f"{visible(model)} stands for {visible(wanted)}", file=sys.stderr)
    try:
        ref = parse_ref(wanted, aliases=INCLUDED)
    except ModelNotFound as error:
        if "/" in wanted or "did you mean" in error.hint:
            raise
        raise unknown(model, "check the spelling") from None
    if isinstance(ref, LocalFile):
        raise InvalidArgument(f"{model} is a file on this machine already: {ref.path}",
                              hint="give a model of Hugging Face such as org/repo:Q4_K_M")
    try:
        path = fetch(ref, refresh=True, progress=Download)
    except ModelNotFound as error:
        if wanted != model:
            blame(error, model, wanted)
        raise
    print(visible(os.fspath(path)))
