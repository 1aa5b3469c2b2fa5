"""``unladen rm NAME``: removes a model from a store of this machine."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from unladen.cli._sizes import size_text
from unladen.cli._text import visible


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name that unladen list shows.")],
    from_store: Annotated[bool, typer.Option(
        "--from-store", help="Remove it even from a store of another program.")] = False,
) -> None:
    """Remove a model from Hugging Face's cache, with the files that no other model needs; or one
    that unladen create or cp made, whose weights stay."""
    from unladen.gguf.glance import glance
    from unladen.hub.stores.removal import remove
    removed = remove(name, glance, from_other=from_store)
    for path in removed.files:
        print(f"removed {visible(os.fspath(path))}")
    print(f"{size_text(removed.n_bytes)} are free again")
