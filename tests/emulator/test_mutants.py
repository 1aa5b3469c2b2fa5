"""Every class of kernels with every kind of fault: the emulator tells each of them by its name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import cases
from cases import running
from emulator import build
from emulator.backend import FEATURES, ORDERS, EmulatorBackend, EmulatorProgram, KernelFault
from emulator.mutants import (
    CLASSES,
    FAULTS,
    Mutant,
    files_of,
    kernels_of,
    mutants,
    ops_with,
    plant,
)
from unladen.backends._gpu import c_texts

Rng = np.random.Generator
DRAWS = 4
"""How often the cases are drawn until a fault is told."""
KERNELS = [kernel for kind in CLASSES for kernel in kernels_of(kind)]
BY_MATRIX_UNITS = {"parts/tile_rows.h", "parts/tile_units.h"}
"""Read only where devices have matrix units: ``test_mutants_nvidia.py`` plants faults in them."""
BY_JOINED = "y[q] = "
"""A line of nodes that are joined, which ``test_joining.py`` compares to the bit."""
BY_ROUNDED = ("codes[row * (VD", "if (LANE % 4u == 0u) scales[row * (VD")
"""How the lines begin that store rows of attention as int8, for a product that is joined with it:
``test_mutants_nvidia.py`` plants faults in them."""
BY_JOINED_FILES = {"parts/cached.h"}
"""Read only where nodes are joined: ``test_faults_joined.py`` plants faults in it."""
FILES = sorted({file for kernel in KERNELS for file in files_of(kernel)} - BY_MATRIX_UNITS
               - BY_JOINED_FILES)


@dataclass
class Planter:
    """Tries faults in a copy of the texts. ``seed``: of the cases."""

    folder: Path
    seed: int
    monkeypatch: pytest.MonkeyPatch
    benches: dict[str, Iterator[running.Bench]] = field(default_factory=dict)
    known: dict[str, list[tuple[running.Bench, list[str]]]] = field(default_factory=dict)

    def told(self, kernel: str, mutant: Mutant) -> str | None:
        """What the emulator tells of the fault in cases of ``kernel``; None where no case runs the
        line."""
        told = None
        plant(mutant, self.folder)
        for bench, before in self.cases(kernel):
            with self.monkeypatch.context() as patch:
                patch.setattr(c_texts, "FOLDER", self.folder)
                if texts(bench, kernel) != before:
                    told = faults(bench)
                    if told:
                        break
        return told

    def cases(self, kernel: str) -> Iterator[tuple[running.Bench, list[str]]]:
        """Cases with the kernel's texts without a fault. They are made as they are asked for."""
        made = self.benches.setdefault(kernel, benches(kernel, np.random.default_rng(self.seed)))
        known = self.known.setdefault(kernel, [])
        yield from known
        for bench in made:
            known.append((bench, texts(bench, kernel)))
            yield known[-1]


def benches(kernel: str, rng: Rng) -> Iterator[running.Bench]:
    """Cases that run ``kernel``, drawn several times: some faults show at few sizes."""
    for op in [op for _ in range(DRAWS) for op in ops_with(kernel)]:
        for case in cases.registry()[op](rng):
            for features in (frozenset[str](), FEATURES):
                backend = EmulatorBackend(features)
                if backend.supports(backend.target.device, case.node):
                    bench = running.Bench(backend, case)
                    if texts(bench, kernel):
                        yield bench


def texts(bench: running.Bench, kernel: str) -> list[str]:
    """What is compiled for ``kernel``, once for each of its dispatches in the case's step."""
    program = bench.program
    assert isinstance(program, EmulatorProgram)
    _, size = program.step.pack()
    return [c_texts.assemble(d.kernel, d.quant, d.constants, build.PORT).text
            for d in program.lowered.dispatches if d.kernel == kernel and d.grid(size)]


def faults(bench: running.Bench) -> str:
    """What is told in all orders of threads. Outputs hold ones before each run."""
    try:
        for _ in ORDERS:
            for value, y in zip(bench.case.node.outputs, bench.run(), strict=True):
                if np.any(running.as_bytes(y).view(np.uint32) == 0xffffffff):
                    return f"no thread wrote all of {value.name}"
            if bench.case.kv is not None and not is_kept(bench):
                return "no thread wrote a row of the cache as it should be"
    except KernelFault as error:
        return str(error)
    return ""


def is_kept(bench: running.Bench) -> bool:
    """Whether the cache holds what it should after a step."""
    expected = running.on_paper(bench.case)[2]
    return all(np.array_equal(*pair) for pair in zip(bench.cache(), expected, strict=True))


@pytest.fixture
def planter(tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> Planter:
    # Large products are told from small ones by their tiles alone.
    monkeypatch.setattr("unladen.backends._gpu.lowering._products.ENOUGH_TILES", 2)
    return Planter(tmp_path / "c", int(rng.integers(1 << 31)), monkeypatch)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", CLASSES)
def test_a_class_with_a_fault(kind: str, fault: str, planter: Planter) -> None:
    """In one kernel of the class; ``test_every_place`` tries all of them. A class that has no place
    for the fault has no kernel with a barrier or a copy."""
    places = [(kernel, mutant) for kernel in kernels_of(kind)
              for mutant in mutants(kernel, fault)]
    if not places:
        word = {"barrier": "BARRIER(", "wait": "copy_async("}[fault]
        texts = [(c_texts.FOLDER / file).read_text()
                 for kernel in kernels_of(kind) for file in files_of(kernel)]
        assert texts and not any(word in text for text in texts)
        return
    for kernel, mutant in places:
        told = planter.told(kernel, mutant)
        if told is not None:
            assert re.search(FAULTS[fault].told, told), (kernel, str(mutant), told)
            return
    raise AssertionError(f"no case runs a line where the fault is: {places}")


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("file", FILES)
def test_every_place(file: str, fault: str, planter: Planter) -> None:
    """Each barrier, wait and store of the file, in a kernel that has it."""
    missed: dict[Mutant, bool] = {}
    for kernel in KERNELS:
        if file in files_of(kernel):
            for mutant in mutants(kernel, fault):
                if mutant.line.startswith((BY_JOINED, *BY_ROUNDED)):
                    continue
                if mutant.file == file and missed.get(mutant, True):
                    told = planter.told(kernel, mutant) or ""
                    missed[mutant] = not re.search(FAULTS[fault].told, told)
    assert not [f"{mutant}: {mutant.line}" for mutant, is_missed in missed.items() if is_missed]
