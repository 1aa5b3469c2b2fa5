"""The programs in ``tools/tiny`` as modules."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def dialogues(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Composes the dialogues that the chat model learns from."""
    monkeypatch.syspath_prepend(ROOT / "tools/tiny")
    return importlib.import_module("dialogues")


@pytest.fixture
def stories(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Composes the stories that the tiny model learns from."""
    monkeypatch.syspath_prepend(ROOT / "tools/tiny")
    return importlib.import_module("stories")


@pytest.fixture
def score_chat(dialogues: ModuleType) -> ModuleType:
    """Scores the chat model's answers to ``dialogues``."""
    return importlib.import_module("score_chat")
