"""Assembles a kernel's text from its parts, the format of its weights, and its constants.

A text is a file in ``kernels/``, or in the folder ``wgsl/`` of a plug-in folder. In addition to
WGSL it may have these lines:

* ``#use NAME ...`` inserts files of ``parts/``, each once; the name ``quant`` inserts the file of
  the weights' format;
* ``#words`` inserts the number of each word in the step's header;
* ``#grid NAME`` binds a codebook, ``#enable NAME`` enables an extension of the language;
* ``#if NAME`` ... ``#else`` ... ``#end`` keep lines if the constant NAME is given and neither false
  nor 0.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from unladen.backends._gpu.step_header import CONSTANTS
from unladen.backends._gpu.target import Constants
from unladen.discover import plugin_folders

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


@dataclass(slots=True)
class _Assembly:
    quant: str
    constants: Constants
    used: set[str] = field(default_factory=set)
    grid: str = ""
    enabled: list[str] = field(default_factory=list)

    def expand(self, path: Path) -> Iterator[str]:
        kept = [True]
        for line in path.read_text(encoding="utf-8").splitlines():
            word, _, rest = line.partition(" ")
            if word == "#if":
                kept.append(kept[-1] and bool(self.constants.get(rest)))
            elif word == "#else":
                kept[-1] = kept[-2] and not kept[-1]
            elif word == "#end":
                kept.pop()
            elif not kept[-1]:
                continue
            elif word == "#use":
                for name in rest.split():
                    yield from self._part(name)
            elif word == "#grid":
                self.grid = rest
            elif word == "#words":
                yield from (f"const {name} = {value}u;" for name, value in CONSTANTS.items())
            elif word == "#enable":
                self.enabled.append(f"enable {rest};")
            else:
                yield line

    def _part(self, name: str) -> Iterator[str]:
        if name not in self.used:
            self.used.add(name)
            path = quant_file(self.quant) if name == "quant" else text_file(f"parts/{name}")
            yield from self.expand(path)


def assemble(kernel: str, quant: str, constants: Constants) -> Source:
    """The text of ``kernels/KERNEL.wgsl`` for weights in format ``quant`` ("": without weights)."""
    work = _Assembly(quant, constants)
    head = [f"const {name} = {value}u;" for name, value in constants.items()
            if not isinstance(value, bool)]
    body = list(work.expand(text_file(kernel)))
    text = "\n".join([*work.enabled, *head, *body, ""])
    found = sorted((int(n), KINDS[kind], name) for n, kind, name in BINDING.findall(text))
    return Source(text, tuple(found), work.grid)


def text_file(name: str) -> Path:
    """The path of the text ``name``, in the package or else in a plug-in folder. The file may not
    exist."""
    own = FOLDER / f"{name}.wgsl"
    strangers = (folder / f"{name}.wgsl" for folder in plugin_folders("wgsl"))
    return own if own.exists() else next((path for path in strangers if path.exists()), own)


def quant_file(quant: str) -> Path:
    """The path of the text for block format ``quant``."""
    return text_file(f"quants/{quant.lower()}")


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
