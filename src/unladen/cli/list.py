"""``unladen list``: shows the models in the stores of this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from unladen.cli._sizes import size_text
from unladen.cli._table import fitted, paragraph, room, width
from unladen.cli._text import visible
from unladen.hub.stores import StoredModel, listed


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Write a JSON array.")] = False,
) -> None:
    """List the models of Hugging Face, llama.cpp, LM Studio and Ollama on this machine, and those
    that unladen create and cp made."""
    from unladen.gguf.glance import glance
    found = listed(glance)
    if as_json:
        json.dump([m.facts() for m in found], sys.stdout)
        sys.stdout.write("\n")
    else:
        for line in _lines(found, width()):
            print(line)


def _lines(found: list[StoredModel], columns: int) -> Iterator[str]:
    usable = [m for m in found if m.is_usable]
    if usable:
        yield from fitted(("name", "type", "size", "store"), [
            (visible(m.name), m.quant or "-", size_text(m.size), m.store) for m in usable], room())
        n_bytes = sum({m.place: m.size for m in usable}.values())
        yield from paragraph(f"{len(usable)} models, {size_text(n_bytes)} in all", columns)
    else:
        yield from paragraph("no models yet: unladen pull llama3.2:1b, or unladen pull "
                             "org/repo:Q4_K_M, gets one from Hugging Face", columns)
    broken = [m for m in found if m.kind == "model" and m.problem]
    if broken:
        yield from ("", "can't be used:")
    for m in broken:
        yield from paragraph(f"  {visible(m.name)} ({m.store}): {visible(m.problem)}", columns,
                             "    ")

