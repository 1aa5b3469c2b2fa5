"""Every barrier, wait and store of the kernels for matrix units, with every kind of fault: the
emulator tells each of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from backends._gpu.attending import Attending
from backends._gpu.rounding import Feeding
from backends._gpu.storing import Storing
from cases import running
from cases.base import Case
from emulator import test_faults_nvidia as nvidia
from emulator import test_mutants
from emulator.backend import EmulatorBackend, KernelFault
from emulator.mutants import FAULTS, Mutant, files_of, mutants, plant
from emulator.test_nvidia import attention
from unladen.backends._gpu import c_texts
from unladen.backends.base import BackendOptions

Rng = np.random.Generator
ONE_WARP = nvidia.MATRICES | {"pdl"}
FOUR_WARPS = ONE_WARP | {"wgmma"}
DRAWS = 12
"""How often the cases are drawn until a fault is told."""


def decode(rng: Rng) -> Case:
    return attention(rng, 1, 8, 2, 64, 64, history=1500)


def attended(rng: Rng, features: frozenset[str]) -> None:
    """Rows that ``attention_join`` rounds."""
    case = Attending(rng, [520])
    wanted, bound = case.bounded()
    _, y = case.computed(EmulatorBackend(features), joined=True)
    assert np.all(np.abs(y - wanted) <= bound)


def fed(rng: Rng, features: frozenset[str]) -> None:
    """Rows that ``gated_rows`` rounds."""
    case = Feeding(rng, ("Q4_K", "Q8_0"), 3)
    (mine,), (wanted,) = (case.on(EmulatorBackend(features), joined=j)[1] for j in (True, False))
    np.testing.assert_array_equal(mine, wanted)


def written(rng: Rng, features: frozenset[str]) -> None:
    """Products that ``matvec_mma`` rotates and stores in the cache."""
    Storing(rng, "norm", 9, formats=["F16"] * 3).check(EmulatorBackend(features), joined=True)


def few_written(rng: Rng, features: frozenset[str]) -> None:
    """Likewise, products with int8 by ``matvec``."""
    Storing(rng, "norm", 3, formats=["Q8_0"] * 3).on(
        EmulatorBackend(features), joined=True, options=BackendOptions())


def apart(rng: Rng) -> Case:
    """A gated unit of an odd number of tiles: ``matvec`` computes both of its products."""
    return nvidia.gate("Q8_0", 1, rng, 48, 256)


Tried = Callable[[Rng, frozenset[str]], None]


def op(make: Callable[[Rng], Case]) -> Tried:
    def tried(rng: Rng, features: frozenset[str]) -> None:
        error = nvidia.fault_of(running.Bench(EmulatorBackend(features), make(rng)))
        if error is not None:
            raise error
    return tried


CODED, SPLIT, EXPERTS = op(nvidia.coded), op(nvidia.split), op(nvidia.experts)
CASES = {
    "attention_join.h": (ONE_WARP, [attended]),
    "attention_mma.h": (ONE_WARP, [op(nvidia.prefill), op(decode)]),
    "gated_rows.h": (ONE_WARP, [op(nvidia.gated), fed]),
    "matmul_mma.h": (ONE_WARP, [CODED, SPLIT]),
    "matvec_mma.h": (ONE_WARP, [op(nvidia.skinny), op(nvidia.paired), written]),
    "moe_mma.h": (ONE_WARP, [EXPERTS]),
    "parts/bulk_tile.h": (FOUR_WARPS, [op(nvidia.together)]),
    "parts/mma_tile.h": (ONE_WARP, [EXPERTS, CODED]),
    "parts/skinny_tile.h": (ONE_WARP, [op(nvidia.skinny), op(nvidia.skinny_split)]),
    "parts/tile_rows.h": (ONE_WARP, [op(nvidia.few), op(nvidia.gated), op(apart)]),
    "parts/tile_units.h": (ONE_WARP, [op(nvidia.several), few_written]),
    "split_rows.h": (ONE_WARP, [SPLIT, op(nvidia.shares)])}
"""For each file the features of the device, and cases that run its lines between them."""


def places(file: str, fault: str) -> list[Mutant]:
    """The faults in ``file`` that ``test_mutants.py`` doesn't plant."""
    found = {(m.file, m.text): m for kernel in sorted(c_texts.NVIDIA_ONLY | {
        "attention_join", "matvec"}) for m in mutants(kernel, fault)}
    return [m for m in found.values() if m.file == file and (
        file not in test_mutants.FILES or m.line.startswith(test_mutants.BY_ROUNDED))]


def test_every_file_has_cases() -> None:
    files = {file for kernel in c_texts.NVIDIA_ONLY | {"matvec"} for file in files_of(kernel)
             if any(m.file == file for fault in FAULTS for m in mutants(kernel, fault))}
    elsewhere = set(test_mutants.FILES) | test_mutants.BY_JOINED_FILES
    assert files - elsewhere == CASES.keys() - {"attention_join.h"}


@pytest.mark.long
@pytest.mark.parametrize(("file", "fault"), [
    (file, fault) for file in CASES for fault in FAULTS if places(file, fault)])
def test_every_place(file: str, fault: str, rng: Rng, tmp_path: Path,
                     monkeypatch: pytest.MonkeyPatch) -> None:
    missed = []
    for mutant in places(file, fault):
        plant(mutant, tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(c_texts, "FOLDER", tmp_path)
            told = what_is_told(file, rng)
        if not re.search("." if fault == "store" else FAULTS[fault].told, told):
            missed.append(f"{mutant}: {mutant.line}: {told}")
    assert not missed


def what_is_told(file: str, rng: Rng) -> str:
    """What the emulator or the results tell in any of the file's cases."""
    features, cases = CASES[file]
    for _ in range(DRAWS):
        for case in cases:
            try:
                case(rng, features)
            except KernelFault as error:
                return str(error)
            except AssertionError as error:
                return f"wrong: {error}"
    return ""
