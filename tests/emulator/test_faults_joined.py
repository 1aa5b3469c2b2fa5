"""What is told of faults in the texts that only joined nodes run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from backends._gpu.storing import Joined, Norming, Storing
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
"""Faults of products by name: what is replaced, by what, and what is told."""
NORM = "norm_write.h"
IN_NORMS = {
    "no wait for the head": ("  BARRIER();\n}", "}", "race|no thread wrote"),
    "half of the threads wait": ("  BARRIER();\n}", "  if (LANE < WG / 2u) BARRIER();\n}",
                                 "barrier"),
    "no wait for rotated keys": ("beyond = max_all(args, beyond);", ";", "race|no thread wrote"),
    "queries one further": ("y[row * params.k_numbers + d]", "y[row * params.k_numbers + d + 1u]",
                            "out of bounds|race|not equal"),
    "eps of the other": ("is_query ? params.query_eps : params.key_eps",
                         "is_query ? params.key_eps : params.query_eps", "not equal"),
    "weights of the other": ("is_query ? query_w[d] : key_w[d]", "is_query ? key_w[d] : query_w[d]",
                             "not equal"),
    "heads of keys for queries": ("t * (is_query ? params.n_queries : params.n_heads)",
                                  "t * params.n_heads", "not equal|race|no thread wrote"),
    "values of the first head": ("row * params.v_numbers + d", "t * params.v_numbers + d",
                                 "not equal"),
    "too few values": ("d < params.v_numbers", "d < params.v_numbers - 32u", "not equal")}
"""Faults of norms by name, likewise."""


def of_norms(rng: Rng) -> list[Norming]:
    """Cases with several heads, and with more of queries than of keys."""
    found = list[Norming]()
    while len(found) < 2:
        case = Norming(rng, "neox", 2, kv_types=(("F32", "F32"), ("Q8_0", "F16"))[len(found)])
        n_heads = case.spec.n_kv_heads
        if n_heads > 1 and case.m.shape(case.q.shape)[1] > n_heads * case.spec.k_dim:
            found.append(case)
    return found


def of_products(rng: Rng) -> list[Storing]:
    """Cases with heads of two sizes, and several, so that every wrong row shows."""
    return [Storing(rng, style, 2, formats=["F32"] * 3, kv_types=kv_types, rotated=(0, 16))
            for style, kv_types in (("neox", ("F32", "F32")), ("norm", ("F16", "F16")))]


def told(mutant: Mutant, cases: Sequence[Joined], folder: Path, monkeypatch: pytest.MonkeyPatch
         ) -> str:
    """What the emulator or the comparison tells of the fault in any of the cases."""
    plant(mutant, folder)
    monkeypatch.setattr(c_texts, "FOLDER", folder)
    for case in cases:
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
    assert told(mutant, of_products(rng), tmp_path / "c", monkeypatch)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.long] if i > 3 else [])
    for i, name in enumerate(IN_NORMS)])
def test_a_fault_of_norms(name: str, tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch
                          ) -> None:
    old, new, expected = IN_NORMS[name]
    text = (c_texts.FOLDER / NORM).read_text()
    assert text.count(old) == 1
    mutant = Mutant(NORM, 0, old, text.replace(old, new))
    assert re.search(expected, told(mutant, of_norms(rng), tmp_path / "c", monkeypatch))


@pytest.mark.parametrize("name", CHANGED)
def test_a_row_at_the_wrong_place(name: str, tmp_path: Path, rng: Rng,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, expected = CHANGED[name]
    text = (c_texts.FOLDER / FILE).read_text()
    assert text.count(old) == 1
    mutant = Mutant(FILE, 0, old, text.replace(old, new))
    assert expected in told(mutant, of_products(rng), tmp_path / "c", monkeypatch)


def test_a_thread_that_stores_what_another_does(tmp_path: Path, rng: Rng,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """Told as a race in every order of threads."""
    text = (c_texts.FOLDER / "matvec.h").read_text()
    old = "slot < R && first + slot < m.n_rows && token < count"
    assert text.count(old) == 1
    mutant = Mutant("matvec.h", 0, old, text.replace(
        old, "slot / 2u < R && first + slot / 2u < m.n_rows && token < count").replace(
            "(args, which, group, slot,", "(args, which, group, slot / 2u,"))
    assert "race" in told(mutant, of_products(rng), tmp_path / "c", monkeypatch)
