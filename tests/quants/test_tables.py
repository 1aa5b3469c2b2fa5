"""The generated codebooks are up to date, and their arrays are read-only."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from unladen.quants import _codebooks

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool() -> ModuleType:
    pytest.importorskip("gguf")
    spec = importlib.util.spec_from_file_location("tool", ROOT / "tools/gen_quant_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_are_up_to_date(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["tool", "--check"])
    assert tool.main() == 0


def test_check_notices_a_change(tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                capsys: pytest.CaptureFixture[str]) -> None:
    stale = tmp_path / "tables.h"
    stale.write_text(tool.cpp_text().replace("0x", "0X", 1), encoding="utf-8")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "CPP", stale)
    monkeypatch.setattr("sys.argv", ["tool", "--check"])
    assert tool.main() == 1
    assert "tables.h is out of date" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["iq2xxs", "iq2xs", "iq2s", "iq3xxs", "iq3s", "iq1s"])
def test_grid_entries_differ(name: str) -> None:
    grid = _codebooks.grid(name)
    assert len(np.unique(grid, axis=0)) == len(grid)
    with pytest.raises(ValueError, match="read-only"):
        grid[0, 0] = 1


def test_sign_codes_mean_an_even_number_of_minuses() -> None:
    codes = _codebooks.even_signs()
    assert np.array_equal(codes & 127, np.arange(128))
    assert ((_codebooks.sign_rows()[codes] < 0).sum(axis=1) % 2 == 0).all()
