"""The parts of the docs that tools write are up to date."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.mark.parametrize("tool", ["gen_vram_table", "gen_plan_picture", "gen_parameters",
                                  "gen_matrices", "gen_history", "gen_talk"])
def test_up_to_date(monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    monkeypatch.setattr("sys.argv", [tool, "--check"])
    assert importlib.import_module(tool).main() == 0


def test_mixture_of_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes match published files: Llama 2 7B is 4.08 GB in Q4_K_M and 13.48 GB in F16."""
    monkeypatch.syspath_prepend(TOOLS)
    table = importlib.import_module("gen_vram_table")
    _, shape, _ = table.MODELS["7B"]
    for quant, published in (("Q4_K_M", 4.08e9), ("Q5_K_M", 4.78e9), ("Q6_K", 5.53e9),
                             ("Q8_0", 7.16e9), ("F16", 13.48e9)):
        assert table.memory(shape, quant, 2048).weight_bytes == pytest.approx(published, rel=0.003)
