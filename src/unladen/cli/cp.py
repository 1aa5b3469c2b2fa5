"""``unladen cp SOURCE NAME``: gives a model another name."""

from __future__ import annotations

from typing import Annotated

import typer

from unladen.cli._making import finder, tell


def command(
    source: Annotated[str, typer.Argument(
        metavar="SOURCE", help="A model: any that unladen run takes.")],
    name: Annotated[str, typer.Argument(
        metavar="NAME", help="The new name: model, or model:tag.")],
) -> None:
    """Give a model another name, with the settings that it has. The weights stay where they are."""
    from unladen.gguf.glance import glance
    from unladen.hub.creating import copy
    tell(copy(source, name, finder(), glance))
