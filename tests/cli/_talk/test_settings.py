"""What ``/set`` and the options take."""

from __future__ import annotations

from typing import Any

import pytest

from unladen.cli._talk.settings import NAMES, Settings
from unladen.errors import InvalidArgument


@pytest.mark.parametrize(("name", "text", "value"), [
    ("temperature", "0.5", 0.5), ("temp", "1", 1.0), ("top_k", "7", 7), ("seed", "none", None),
    ("max_tokens", "20", 20), ("num_predict", "20", 20), ("ignore_eos", "on", True),
    ("ignore_eos", "False", False), ("stop", "5", "5"), ("stop", '["a", "b"]', ["a", "b"]),
    ("stop", "a;b", "a;b"), ("order", "top_k;temperature", ["top_k", "temperature"]),
    ("logit_bias", '{"13": -2.5}', {13: -2.5}), ("on_overflow", "shift", "shift"),
    ("response_format", '{"type": "object"}', {"type": "object"}),
    ("template_variables", '{"x": 1}', {"x": 1}), ("reasoning", "off", False),
    ("reasoning", "high", "high"), ("template", "chatml", "chatml")])
def test_values(name: str, text: str, value: Any) -> None:
    settings = Settings({})
    settings.set(name, text)
    assert list(settings.values.values()) == [value]
    ours, = settings.values
    assert ours in NAMES and type(settings.values[ours]) is type(value)
    assert next(iter(settings.lines())).startswith(f"{ours} = ")
    settings.set(ours, "default")
    assert not settings.values


@pytest.mark.parametrize(("name", "text"), [
    ("temperature", "abc"), ("temperature", "-1"), ("temperature", "nan"), ("top_k", "0.5"),
    ("max_tokens", "[1]"), ("on_overflow", "drop"), ("reasoning", "maybe"), ("seed", "1e400"),
    ("max_tokens", "9" * 5000), ("top_p", "[" * 100_000), ("logit_bias", '{"a": 1}')])
def test_wrong_values_change_nothing(name: str, text: str) -> None:
    settings = Settings({"temperature": 0.5})
    with pytest.raises(InvalidArgument) as found:
        settings.set(name, text)
    assert name in found.value.message and found.value.hint
    assert settings.values == {"temperature": 0.5}


@pytest.mark.parametrize("name", ["tempe", "", "continues", "logprobs", "n_gpu_layers", "\x1b[31m"])
def test_wrong_names_list_the_right_ones(name: str) -> None:
    for use in (Settings({}).about, lambda name: Settings({}).set(name, "1")):
        with pytest.raises(InvalidArgument) as found:
            use(name)
        assert all(each in found.value.hint for each in NAMES)
    assert "did you mean temperature" in _hint("tempera")


def _hint(name: str) -> str:
    with pytest.raises(InvalidArgument) as found:
        Settings({}).about(name)
    return found.value.hint
