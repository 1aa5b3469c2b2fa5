"""docs/reference/architectures.md has every architecture with a recipe; a tool writes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.parity import recipes

from unladen.models import registry

DOC = Path(__file__).resolve().parents[2] / "docs/reference/architectures.md"


def rows() -> dict[str, str]:
    """Each recipe's row."""
    lines = [line.split("|") for line in DOC.read_text(encoding="utf-8").splitlines()
             if line.startswith("| ")][2:]
    return {f"{cells[1].strip()}-{cells[2].strip()}": "|".join(cells) for cells in lines}


def without_recipe() -> set[str]:
    text = DOC.read_text(encoding="utf-8")
    return set(text.rpartition("trained models: ")[2].rstrip(".\n").split(", "))


@pytest.mark.parametrize("arch", sorted(registry()))
def test_none_is_left_out(arch: str) -> None:
    """Without the recipes, whose answers a row is measured by, a new one can't have a row."""
    has_row = any(name.rpartition("-")[0] == arch for name in rows())
    has_recipe = any(name.rpartition("-")[0] == arch for name in recipes.names())
    if not (has_row or has_recipe or arch in without_recipe()):
        pytest.skip(f"no recipe for {arch}: nothing is measured, so there is no row")
    assert has_row != (arch in without_recipe())


def test_every_recipe_has_a_row(shared: Path) -> None:
    assert set(recipes.names()) == set(rows()), "run tools/gen_pages.py"


def test_nothing_is_listed_that_is_gone() -> None:
    assert {name.rpartition("-")[0] for name in rows()} | without_recipe() <= set(registry())
