"""The perplexity of every shared file equals that of dequantized weights in float32 arithmetic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import SHARED

from unladen import Model
from unladen.measure.perplexity import Evaluation

REFERENCE = SHARED / "models/refs/PERPLEXITY_numpy_dequant_f32.txt"


def _listed() -> list[tuple[str, float]]:
    if not REFERENCE.exists():
        return []
    lines = REFERENCE.read_text().splitlines()
    found = [(line.split()[0], float(line.rpartition("=")[2])) for line in lines]
    return [(name, value) for name, value in found if (SHARED / f"models/{name}.gguf").exists()]


def test_files_are_listed(shared: Path) -> None:
    assert len(_listed()) >= 20


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize(("name", "expected"), _listed())
def test_perplexity(shared: Path, name: str, expected: float, device: str) -> None:
    vocabulary = name.partition("-")[0]
    ids = json.loads((shared / f"models/texts/ppl_story.{vocabulary}.ids").read_text())
    with Model(shared / f"models/{name}.gguf", devices=[device], context_size=128) as model:
        value = Evaluation(model, ids, 128).perplexity().value
    exact = device == "reference" or name.endswith(("f32", "f16", "bf16"))
    assert value == pytest.approx(expected, rel=1e-3 if exact else 2e-2)
