"""Architectures are found by the name of their file, and all of them by scanning."""

from __future__ import annotations

import pytest

from unladen.discover import PLUGIN_PATH
from unladen.models import named, registry


def test_each_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PLUGIN_PATH, raising=False)
    assert {arch: named(arch) for arch in registry()} == dict(registry())


@pytest.mark.parametrize("arch", ["", "_parts", "__init__", "os.path", "no", "../llama", "ll ama"])
def test_what_is_none(arch: str) -> None:
    assert named(arch) is None


def test_where_plug_ins_may_want_a_name_the_registry_looks(monkeypatch: pytest.MonkeyPatch
                                                           ) -> None:
    monkeypatch.setenv(PLUGIN_PATH, "/somewhere")
    assert named("llama") is None
