"""What is told of faults in the text that only products of joined nodes run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends._gpu.storing import Storing
from emulator.backend import EmulatorBackend, KernelFault
from emulator.mutants import Mutant, mutants, plant
from unladen.backends._gpu import c_texts

Rng = np.random.Generator
FILE = "parts/cached.h"
STORES = list(mutants("matvec", "store"))
PLACES = [mutant for mutant in STORES if mutant.file == FILE]
CHANGED = {
    "the wrong partner": ("slot ^ (params.neox ? 2u : 1u)", "slot ^ (params.neox ? 1u : 2u)",
                          "not equal"),
    "rows in sequence": ("return group * R - d / 2u + slot % 2u + slot / 2u * (params.n_rot / 2u);",
                         "return group * R + slot;", "not equal"),
    "values rotated": ("which + 1u != VALUES && d < params.n_rot", "d < params.n_rot",
                       "not equal"),
    "numbers too close": ("d * (kind == F32 ? 4u : 2u)", "d * 2u", "race")}
"""Faults by name: what is replaced, by what, and what is told."""


def told(mutant: Mutant, folder: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the emulator or the comparison tells of the fault in any of a few cases."""
    plant(mutant, folder)
    monkeypatch.setattr(c_texts, "FOLDER", folder)
    for style, kv_types in (("neox", ("F32", "F32")), ("norm", ("F16", "F16"))):
        # Heads of two sizes, and several, so that every wrong row shows.
        case = Storing(rng, style, 2, formats=["F32"] * 3, kv_types=kv_types, rotated=(0, 16))
        try:
            case.check(EmulatorBackend(), joined=True)
        except KernelFault as error:
            return str(error)
        except AssertionError as error:
            return f"not equal: {error}"
    return ""


def test_every_store_is_known() -> None:
    text = (c_texts.FOLDER / FILE).read_text()
    assert len(PLACES) == text.count("store_u32(") + text.count("y[token") == 8


@pytest.mark.parametrize("mutant", [
    pytest.param(mutant, id=str(mutant), marks=[pytest.mark.long] if i else [])
    for i, mutant in enumerate(PLACES)])
def test_a_store_beside_its_place(mutant: Mutant, tmp_path: Path, rng: Rng,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(mutant, tmp_path / "c", rng, monkeypatch)


@pytest.mark.parametrize("name", CHANGED)
def test_a_row_at_the_wrong_place(name: str, tmp_path: Path, rng: Rng,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, expected = CHANGED[name]
    text = (c_texts.FOLDER / FILE).read_text()
    assert text.count(old) == 1
    mutant = Mutant(FILE, 0, old, text.replace(old, new))
    assert expected in told(mutant, tmp_path / "c", rng, monkeypatch)


def test_a_thread_that_stores_what_another_does(tmp_path: Path, rng: Rng,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """Told as a race in every order of threads."""
    text = (c_texts.FOLDER / "matvec.h").read_text()
    old = "if (slot < R && first + slot < m.n_rows && token < count)"
    assert text.count(old) == 1
    mutant = Mutant("matvec.h", 0, old, text.replace(
        old, "if (slot / 2u < R && first + slot / 2u < m.n_rows && token < count)").replace(
            "store_two(args, which, group, slot,", "store_two(args, which, group, slot / 2u,"))
    assert "race" in told(mutant, tmp_path / "c", rng, monkeypatch)
