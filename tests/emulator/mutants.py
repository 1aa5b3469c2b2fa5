"""Plants faults in the kernels' texts: where each kind of fault can be, by kernel and class."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from unladen.backends._gpu import c_texts
from unladen.backends._gpu.lowering import registry

OPS = MappingProxyType({
    "products": ("linear", "head_linear", "embed", "adapter_scale"), "experts": ("moe",),
    "cache and attention": ("kv_write", "attention", "pooled_attention", "pool_tokens"),
    "recurrent": ("token_shift", "conv1d", "ssm_scan", "linear_attention", "rwkv_mix"),
    "streams": ("hyper_weights", "hyper_mix"), "choosing": ("argmax", "top_k")})
"""The ops whose kernels are of a class. Kernels of other ops are of the class "rows"."""
CLASSES = ("rows", *OPS)
HALF = "if (LANE < WG / 2u) BARRIER();"
STORE = re.compile(r"\bstore_u(?P<bits>16|32)\((?P<memory>\w+), |\b(?P<name>\w+)\[")


@dataclass(frozen=True)
class Mutant:
    """The text of ``file`` with a fault in line ``number``, which was ``line``."""

    file: str
    number: int
    line: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


def kernels_of(kind: str) -> list[str]:
    """The kernels of a class, by name."""
    known = {op for ops in OPS.values() for op in ops}
    ops = OPS.get(kind, tuple(op for op in registry() if op not in known))
    named = {name for op in ops for name in registry()[op].kernels}
    if kind != "rows":
        named -= set(kernels_of("rows"))
    if kind == "experts":
        named -= set(kernels_of("products"))
    return sorted(named)


def ops_with(kernel: str) -> list[str]:
    """The ops that may need ``kernel``, those first that need few others."""
    found = [op for op, how in registry().items() if kernel in how.kernels]
    return sorted(found, key=lambda op: (len(registry()[op].kernels), op))


def files_of(kernel: str) -> list[str]:
    """The files of the kernel's text, its own one first, without formats of weights."""
    found = [f"{kernel}.h"]
    for name in found:
        for line in re.findall(r"^#use (.+)", (c_texts.FOLDER / name).read_text(), re.M):
            found += [f"parts/{part}.h" for part in line.split()
                      if part != "quant" and f"parts/{part}.h" not in found]
    return found


def barriers(line: str, _: set[str]) -> Iterator[str]:
    """The line without its barrier."""
    if "BARRIER();" in line:
        yield line.replace("BARRIER();", ";")


def waits(line: str, _: set[str]) -> Iterator[str]:
    """The line without its wait for copies, or for a phase that copies end."""
    if re.search(r"copy_wait\(|wait_for_arrivals\(", line):
        yield re.sub(r"(copy_wait|wait_for_arrivals)\([^;]*\);", ";", line)


def divergences(line: str, _: set[str]) -> Iterator[str]:
    """The line with a barrier that half of the threads reach."""
    if "BARRIER();" in line:
        yield line.replace("BARRIER();", HALF)
    elif line.startswith("KERNEL("):
        yield f"{line} {HALF}"


def stores(line: str, outputs: set[str]) -> Iterator[str]:
    """The line with a store one element further, for each of its stores in ``outputs``."""
    for found in STORE.finditer(line):
        if (found["name"] or found["memory"]) not in outputs:
            continue
        end = _end_of_index(line, found.end())
        if found["bits"]:
            yield f"{line[:end]} + {int(found['bits']) // 8}u{line[end:]}"
        elif re.match(r"\] ([-+*/]?=) ", line[end:]):
            yield f"{line[:end]} + 1u{line[end:]}"


def _end_of_index(line: str, start: int) -> int:
    """Where what begins at ``start`` ends: before a comma or a bracket that closes."""
    depth = 0
    for i, letter in enumerate(line[start:], start):
        depth += (letter in "([") - (letter in ")]")
        if depth < 0 or (letter == "," and not depth):
            return i
    return len(line)


@dataclass(frozen=True)
class Fault:
    """A kind of fault. ``changed``: yields a line of a text with it, for each place in the line.
    ``told``: matches what the emulator says."""

    changed: Callable[[str, set[str]], Iterator[str]]
    told: str


FAULTS: Mapping[str, Fault] = MappingProxyType({
    "barrier": Fault(barriers, "race|no thread wrote"),
    "wait": Fault(waits, "race|no thread wrote|hasn't waited|before a copy is waited for"),
    "store": Fault(stores, "out of bounds|race|no thread wrote"),
    "divergent barrier": Fault(divergences, "deadlock")})


def mutants(kernel: str, fault: str) -> Iterator[Mutant]:
    """Every place in the files of ``kernel`` where the fault can be, one at a time."""
    files, folder = files_of(kernel), c_texts.FOLDER
    outputs = {name for file in files
               for name in re.findall(r"^#bind out \w+ (\w+)", (folder / file).read_text(), re.M)}
    for file in files:
        lines = (folder / file).read_text().splitlines()
        for i, line in enumerate(lines):
            if not line.startswith(("#", "//")):
                for changed in FAULTS[fault].changed(line, outputs):
                    text = "\n".join([*lines[:i], changed, *lines[i + 1:], ""])
                    yield Mutant(file, i + 1, line.strip(), text)


def plant(mutant: Mutant, folder: Path) -> None:
    """A copy of the texts in ``folder``, with the fault."""
    for path in c_texts.FOLDER.rglob("*.h"):
        copy = folder / path.relative_to(c_texts.FOLDER)
        copy.parent.mkdir(exist_ok=True, parents=True)
        copy.write_text(path.read_text())
    (folder / mutant.file).write_text(mutant.text)
