"""``unladen show MODEL``: what is in a file."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Annotated, Any

import typer

from unladen.cli import _options as o


def command(
    model: o.ModelArg,
    tensors: Annotated[bool, typer.Option("--tensors", help="List every tensor.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead.")] = False,
) -> None:
    """Show a file's architecture, metadata and tensors. Reads only the header."""
    from unladen.api import TINY
    from unladen.gguf import open_gguf
    from unladen.hub import resolve_model
    with open_gguf(resolve_model(model, aliases={"tiny": TINY})) as file:
        facts: dict[str, Any] = {
            "path": str(file.path), "version": file.version, "byteorder": file.byteorder,
            "metadata": {key: _shown(value) for key, value in file.metadata.items()},
            "n_tensors": len(file.tensors),
            "n_parameters": sum(t.n_elements for t in file.tensors.values()),
            "n_bytes": sum(t.nbytes for t in file.tensors.values()),
            "quants": dict(Counter(t.quant for t in file.tensors.values())),
            "tensors": [{"name": t.name, "shape": list(t.shape), "quant": t.quant,
                         "n_bytes": t.nbytes} for t in file.tensors.values()],
        }
    if as_json:
        json.dump(facts, sys.stdout)
        sys.stdout.write("\n")
        return
    _print(facts, tensors=tensors)


def _print(facts: dict[str, Any], *, tensors: bool) -> None:
    print(f"{facts['path']}: GGUF version {facts['version']}, {facts['byteorder']}-endian")
    quants = ", ".join(f"{n} {name}" for name, n in facts["quants"].items())
    print(f"{facts['n_parameters']:,} parameters in {facts['n_tensors']} tensors "
          f"({quants}), {facts['n_bytes'] / 2**20:.1f} MiB\n")
    width = max(map(len, facts["metadata"]), default=0)
    for key, value in facts["metadata"].items():
        print(f"{key:{width}}  {_one_line(value)}")
    if tensors:
        print()
        for tensor in facts["tensors"]:
            print(f"{tensor['name']:32} {tensor['quant']:8} {tensor['shape']}")


def _one_line(value: object) -> str:
    text = str(value).replace("\n", "\\n")
    return text if len(text) <= 100 else text[:100] + " ..."


def _shown(value: object) -> object:
    """Scalars as they are, arrays as their length and beginning."""
    if isinstance(value, (str, int, float, bool)):
        return value
    assert hasattr(value, "__len__") and hasattr(value, "__getitem__")
    n = len(value)
    return f"{n} values: " + ", ".join(repr(value[i]) for i in range(min(n, 6)))

