"""The family of kernel texts in a subset of C, for every driver whose compiler takes C or C++.

A text is a file in ``kernels/c/``, or in the folder ``c/`` of a plug-in folder. Besides the subset
of C, which ``docs/concepts/gpu-kernels.md`` describes, it may have the lines of
:mod:`unladen.backends._gpu.assembly`, and these:

* ``#bind KIND TYPE NAME`` declares an argument of the kernel: ``in`` and ``out`` are memory that it
  reads, or also writes; ``struct`` is a struct of numbers;
* ``#shared TYPE NAME SIZE`` declares an array that the threads of a workgroup share;
* ``#launched NAME SIZE`` declares such an array of u4 whose memory the launch gives, where the
  driver can; SIZE is a product of numbers and constants, and a kernel has one at most;
* ``#grid NAME`` binds a codebook as ``grid``;
* ``#words`` inserts the number of each word in the step's header.

The port for a compiler is a header in ``ports/``. It defines how arguments and shared arrays are
declared and what the subset's names mean, and comes before everything else.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unladen.backends._gpu.assembly import Assembly, Line, Shelf
from unladen.backends._gpu.step_header import CONSTANTS
from unladen.backends._gpu.target import Constants
from unladen.errors import UnsupportedOp

FOLDER = Path(__file__).parent / "kernels" / "c"
"""The folder of the package's texts."""
INCLUDE = re.compile(r'^#include "(.+)"$', re.M)
"""A line of a port that stands for another file, beside it or of ``ports/``."""
NVIDIA_ONLY = frozenset({
    "attention_mma", "gated_rows", "matmul_mma", "matvec_mma", "moe_mma", "split_rows"})
"""Kernels that WGSL has not: they use the matrix units of NVIDIA's chips (the feature "mma"), by
primitives that only the port for CUDA and the emulator define."""
WAIT_THEMSELVES = frozenset({
    "gated_rows", "matvec", "matvec_mma", "norm_quantize", "norm_write", "rms_norm"})
"""Kernels that do something before they wait for the launch before, where launches may begin early
(the constant PDL). All others wait at once."""
ELEMENT_BYTES = 16
"""Bytes of a u4."""
KINDS = ("in", "out", "struct")
"""The kinds of arguments."""


@dataclass(frozen=True, slots=True)
class Binding:
    """An argument of a kernel; its place among the arguments is that in :attr:`Source.bindings`."""

    kind: str
    type: str
    name: str


@dataclass(frozen=True, slots=True)
class Source:
    """A kernel's text for a compiler. ``grid``: the name of the codebook that the argument ``grid``
    is, "" for none. ``launched_bytes``: shared memory that a launch gives the kernel."""

    text: str
    bindings: tuple[Binding, ...]
    grid: str = ""
    launched_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Shared:
    type: str
    name: str
    size: str
    how: str = "SHARED"


class _Directives:
    """Collects the lines that declare something."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.bindings: list[Binding] = []
        self.shared: list[_Shared] = []
        self.grid = ""
        self.launched_bytes = 0

    def bind(self, rest: str) -> Iterator[str]:
        kind, of, name = rest.split()
        assert kind in KINDS, rest
        self.bindings.append(Binding(kind, of, name))
        return iter(())

    def share(self, rest: str) -> Iterator[str]:
        of, name, size = rest.split(maxsplit=2)
        self.shared.append(_Shared(of, name, size))
        return iter(())

    def launch(self, rest: str) -> Iterator[str]:
        assert not self.launched_bytes, rest
        name, size = rest.split(maxsplit=1)
        factors = [factor.strip() for factor in size.split("*")]
        self.launched_bytes = ELEMENT_BYTES * math.prod(
            int(f.removesuffix("u")) if f[0].isdigit() else self.constants[f] for f in factors)
        self.shared.append(_Shared("u4", name, f"({size})", "LAUNCHED"))
        return iter(())

    def use_grid(self, name: str) -> Iterator[str]:
        self.grid = name
        return self.bind("in u32 grid")


def assemble(kernel: str, quant: str, constants: Constants, port: Path) -> Source:
    """The text of ``kernels/c/KERNEL.h`` for weights in format ``quant`` ("": without weights),
    and for the compiler that ``port`` is for."""
    found = _Directives(constants)
    work = Assembly(_shelf(), quant, constants, {
        "#bind": found.bind, "#shared": found.share, "#launched": found.launch,
        "#grid": found.use_grid, "#words": _words})
    types, rest = _apart(list(work.expand(_shelf().file(kernel))),
                         {b.type for b in found.bindings} | {s.type for s in found.shared})
    head = [port_text(port), port_text(FOLDER / "ports/all.h")]
    numbers = [f"#define {name} {int(value)}{'' if isinstance(value, bool) else 'u'}"
               for name, value in constants.items()]
    begin = ["begin_early();", "wait_for_previous();"] if constants.get("PDL") else []
    begin = begin[:1] if kernel in WAIT_THEMSELVES else begin
    text = "\n".join([*head, *numbers, *_numbered(types),
                      *_arguments(found.bindings, found.shared, begin), *_numbered(rest), ""])
    return Source(text, tuple(found.bindings), found.grid, found.launched_bytes)


def not_compiled(kernel: str, said: str, hint: str, target: str = "") -> UnsupportedOp:
    """The error for a kernel that a compiler refuses; a trial takes it and goes on with the plain
    kernel.

    * ``kernel``: the device and the kernel: "opencl:0: kernel add".
    * ``said``: the compiler's words.
    * ``hint``: what to try.
    * ``target``: the chip that it was compiled for; "" where that is the device's own.
    """
    device, _, name = kernel.partition(": ")
    what = f"{kernel} doesn't compile" + (f" for {target}" if target else "")
    return UnsupportedOp(f"{what}:\n{said}", node=name, device=device, hint=hint)


def _apart(lines: Sequence[Line], wanted: set[str]) -> tuple[list[Line], list[Line]]:
    """The definitions of types that are among ``wanted`` or in one that is, and the other lines.
    Every function takes the kernel's arguments, so the types of these come before all functions."""
    places: list[slice] = []
    at = 0
    while at < len(lines):
        end = at + 1
        if lines[at][2].startswith("typedef "):
            while not re.match(r"(\}|typedef ).*;", lines[end - 1][2]):
                end += 1
            places.append(slice(at, end))
        at = end
    needed: list[slice] = []
    for place in reversed(places):  # a type comes after those that it consists of
        words = re.findall(r"\w+", " ".join(line for _, _, line in lines[place]))
        if words[-1] in wanted:
            wanted = wanted | set(words)
            needed.insert(0, place)
    moved = {i for place in needed for i in range(place.start, place.stop)}
    return ([line for place in needed for line in lines[place]],
            [line for i, line in enumerate(lines) if i not in moved])


def port_text(path: Path) -> str:
    """The text of a port, or of another file there. What it includes in quotation marks is
    inserted, since compilers in a library get one text."""
    text = path.read_text(encoding="utf-8")

    def included(found: re.Match[str]) -> str:
        beside = path.parent / found[1]
        return port_text(beside if beside.exists() else FOLDER / "ports" / found[1])
    return INCLUDE.sub(included, text)


def _numbered(lines: Iterable[Line]) -> Iterator[str]:
    """The texts of ``lines``; a compiler's messages will name the files that they are from."""
    after: tuple[Path | None, int] = None, 0
    for path, number, line in lines:
        if (path, number) != after:
            yield f'#line {number} "{path.parent.name}/{path.name}"'
        yield line
        after = (None, 0) if "\n" in line else (path, number + 1)


def _words(_: str) -> Iterator[str]:
    yield "\n".join(f"#define {name} {value}u" for name, value in CONSTANTS.items())


def _arguments(bindings: Sequence[Binding], shared: Sequence[_Shared],
               statements: Sequence[str]) -> Iterator[str]:
    """Macros for the kernel's arguments, in terms of the port's macros. The kernel begins with
    ``statements``."""
    kinds = [(b.kind.upper(), b.type, b.name) for b in bindings]
    params = ", ".join(f"{kind}_PARAM({i}, {of}, {name})"
                       for i, (kind, of, name) in enumerate(kinds))
    begin = [f"{kind}_BEGIN({i}, {of}, {name})" for i, (kind, of, name) in enumerate(kinds)]
    begin += [f"{s.how}_BEGIN({s.type}, {s.name}, {s.size})" for s in shared]
    begin += statements
    args = [f"{kind}_ARG({of}, {name})" for kind, of, name in kinds]
    args += [f"SHARED_ARG({s.type}, {s.name})" for s in shared]
    names = [*(b.name for b in bindings), *(s.name for s in shared)]
    yield f"#define KERNEL_PARAMS {params}"
    yield f"#define KERNEL_BEGIN {' '.join(begin)}"
    yield f"#define ARGS THREAD_ARG {', '.join(args)}"
    yield f"#define args THREAD_PASS {', '.join(names)}"


def _shelf() -> Shelf:
    return Shelf(FOLDER, ".h", "c")


@functools.cache
def has_kernel(kernel: str) -> bool:
    """Whether there is a text for ``kernel``."""
    return _shelf().file(kernel).exists()


@functools.cache
def has_format(quant: str) -> bool:
    """Whether kernels can decode weights in block format ``quant``."""
    return _shelf().quant_file(quant).exists()


@functools.cache
def has_codes(quant: str) -> bool:
    """Whether weights in ``quant`` are int8 codes times a scale; see
    ``kernels/c/parts/packed.h``."""
    return (bool(quant) and has_format(quant)
            and " packed(ARGS" in _shelf().quant_file(quant).read_text(encoding="utf-8"))
