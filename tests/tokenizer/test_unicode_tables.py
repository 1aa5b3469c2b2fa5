"""The generated Unicode tables are up to date."""

from __future__ import annotations

import importlib.util
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_tables_are_current() -> None:
    spec = importlib.util.spec_from_file_location("gen", ROOT / "tools/gen_unicode_tables.py")
    assert spec is not None
    assert spec.loader is not None
    gen = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gen)
    table = gen.TABLE.read_text()
    if f"Unicode {unicodedata.unidata_version}\n" not in table:
        pytest.skip(f"the table is of a Unicode version other than {unicodedata.unidata_version}")
    assert table == gen.render()
    assert gen.FORMS.read_text() == gen.render_forms()
