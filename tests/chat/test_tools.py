"""Dialects are found by scanning, and each is chosen by its own signs."""

from __future__ import annotations

from pathlib import Path

import pytest

from unladen.chat.tools import dialect_for, dialects


def test_names_are_unique_and_signs_choose() -> None:
    found = dialects()
    assert len(found) > 25
    for dialect in found:
        if dialect.signs:
            chosen = dialect_for(" ".join(dialect.signs))
            assert chosen is not None
            assert chosen.name == dialect.name
    assert dialect_for("nothing") is None


def test_a_dialect_may_be_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dialects").mkdir()
    (tmp_path / "dialects/mine.py").write_text('''
from unladen.chat.forms import CallForm, JsonCalls
from unladen.chat.tools.base import Dialect

class Mine(Dialect):
    name = "mine"
    signs = ("<my_call>",)
    forms = (CallForm((JsonCalls(),), begin="<my_call>", end="</my_call>"),)
''')
    monkeypatch.setenv("UNLADEN_PLUGIN_PATH", str(tmp_path))
    dialect = dialect_for("Write <my_call>.")
    assert dialect is not None
    assert dialect.name == "mine"
