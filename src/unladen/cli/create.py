"""``unladen create NAME``: makes a model of a Modelfile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unladen.cli._input import from_stdin
from unladen.cli._making import finder, tell


def command(
    name: Annotated[str, typer.Argument(
        metavar="NAME", help="The new model's name: model, or model:tag.")],
    file: Annotated[Path, typer.Option(
        "--file", "-f", metavar="FILE", help="The Modelfile; -: stdin.")] = Path("Modelfile"),
) -> None:
    """Make a model of a Modelfile: another model with a system message, parameters, a template.

    The weights stay where they are; FROM may name any model that unladen run takes. A model that
    has the name already is replaced.
    """
    from unladen.gguf.glance import glance
    from unladen.hub.creating import create
    from unladen.hub.modelfile import parse, read
    modelfile = read(file) if str(file) != "-" else parse(from_stdin(
        f"cat Modelfile | unladen create {name} -f -", "Modelfile"))
    tell(create(name, modelfile, file.parent, finder(), glance))
