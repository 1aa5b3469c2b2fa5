"""docs/reference/architectures.md names every architecture; a tool writes it."""

from __future__ import annotations

from pathlib import Path

from unladen.models import registry

DOC = Path(__file__).resolve().parents[2] / "docs/reference/architectures.md"


def test_none_is_left_out() -> None:
    text = DOC.read_text()
    listed = {line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")}
    rest = text.rpartition("trained models: ")[2].rstrip(".\n").split(", ")
    assert set(registry()) == listed - {"architecture", "---"} | set(rest)
