"""The names of the models that come with the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from unladen import Model
from unladen.errors import ModelNotFound
from unladen.hub import INCLUDED, resolve_model


@pytest.mark.parametrize("name", INCLUDED)
def test_a_name_opens_its_file(name: str) -> None:
    with Model(name, vocab_only=True) as model:
        assert model.path == INCLUDED[name]
        assert model.path.is_file()


def test_a_file_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny-chat").write_bytes(b"GGUF")
    assert resolve_model("tiny-chat", aliases=INCLUDED) == Path("tiny-chat")


def test_an_error_lists_the_names() -> None:
    with pytest.raises(ModelNotFound) as caught:
        resolve_model("tinychat", aliases=INCLUDED)
    assert "tiny-chat or tiny" in str(caught.value)
