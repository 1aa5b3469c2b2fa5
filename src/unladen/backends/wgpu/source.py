"""Assembles a kernel's text from its parts, the format of its weights, and its constants.

A text is a file in ``kernels/``, or in the folder ``wgsl/`` of a plug-in folder. In addition to
WGSL it may have the lines of :mod:`unladen.backends._gpu.assembly`, and these:

* ``#words`` inserts the number of each word in the step's header;
* ``#grid NAME`` binds a codebook, ``#enable NAME`` enables an extension of the language.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unladen.backends._gpu.assembly import Assembly, Shelf
from unladen.backends._gpu.step_header import CONSTANTS
from unladen.backends._gpu.target import Constants

FOLDER = Path(__file__).parent / "kernels"
"""The folder of the package's texts."""
BINDING = re.compile(r"@group\(1\) @binding\((\d+)\) var<([\w, ]+)> (\w+)\s*:")
"""Finds the bindings in a kernel's text: number, kind and name."""
KINDS = {"uniform": "uniform", "storage, read": "read-only-storage",
         "storage, read_write": "storage"}


@dataclass(frozen=True, slots=True)
class Source:
    """A kernel's text for the compiler, and its bindings in group 1 as (number, kind, name).
    ``grid``: the name of the codebook that it reads, "" for none."""

    text: str
    bindings: tuple[tuple[int, str, str], ...]
    grid: str = ""


def assemble(kernel: str, quant: str, constants: Constants) -> Source:
    """The text of ``kernels/KERNEL.wgsl`` for weights in format ``quant`` ("": without weights)."""
    grids: list[str] = []
    enabled: list[str] = []

    def grid(name: str) -> Iterator[str]:
        grids.append(name)
        return iter(())

    def enable(name: str) -> Iterator[str]:
        enabled.append(f"enable {name};")
        return iter(())

    work = Assembly(_shelf(), quant, constants,
                    {"#grid": grid, "#enable": enable, "#words": _words})
    head = [f"const {name} = {value}u;" for name, value in constants.items()
            if not isinstance(value, bool)]
    body = [line for _, _, line in work.expand(text_file(kernel))]
    text = "\n".join([*enabled, *head, *body, ""])
    found = sorted((int(n), KINDS[kind], name) for n, kind, name in BINDING.findall(text))
    return Source(text, tuple(found), grids[0] if grids else "")


def _words(_: str) -> Iterator[str]:
    return (f"const {name} = {value}u;" for name, value in CONSTANTS.items())


def _shelf() -> Shelf:
    return Shelf(FOLDER, ".wgsl", "wgsl")


def text_file(name: str) -> Path:
    """The path of the text ``name``, in the package or else in a plug-in folder. The file may not
    exist."""
    return _shelf().file(name)


def quant_file(quant: str) -> Path:
    """The path of the text for block format ``quant``."""
    return _shelf().quant_file(quant)


@functools.cache
def has_kernel(kernel: str) -> bool:
    """Whether there is a text for ``kernel``."""
    return text_file(kernel).exists()


@functools.cache
def has_format(quant: str) -> bool:
    """Whether kernels can decode weights in block format ``quant``."""
    return quant_file(quant).exists()


@functools.cache
def has_codes(quant: str) -> bool:
    """Whether weights in ``quant`` are int8 codes times a scale; see
    ``kernels/parts/packed.wgsl``."""
    return (bool(quant) and has_format(quant)
            and "fn packed(" in quant_file(quant).read_text(encoding="utf-8"))
