"""Hyper-parameters have the right type, or reading them raises an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unladen.errors import GGUFError, UnsupportedModel
from unladen.gguf import GGUFWriter, HParams, open_gguf


@pytest.fixture
def hp(tmp_path: Path) -> HParams:
    path = tmp_path / "a.gguf"
    writer = GGUFWriter(path, "llama")
    for key, value in {"n": 8, "neg": -1, "f": 0.5, "s": "yarn", "b": True, "kv": [1, 2, 3],
                       "negs": [1, -2, 3], "flags": [True, False, True], "fs": [0.5, 1.5, 2.5],
                       "nan": float("nan"), "words": ["a", "b", "c"]}.items():
        writer.set(f"llama.{key}", value)
    writer.set("tokenizer.ggml.bos_token_id", 1)
    writer.write()
    with open_gguf(path) as file:
        return HParams(file.metadata, path=file.path)


def test_values(hp: HParams) -> None:
    assert hp.arch == "llama"
    assert (hp.int("n"), hp.float("f"), hp.str("s"), hp.bool("b")) == (8, 0.5, "yarn", True)
    assert hp.int("neg", minimum=None) == -1
    assert (hp.float("n"), type(hp.float("n"))) == (8.0, float)
    assert hp.get_int("tokenizer.ggml.bos_token_id") == hp.get_int("none", 1) == 1
    assert (hp.int("none", 0), hp.float("none", 0.0), hp.str("none", "")) == (0, 0.0, "")
    assert hp.bool("none", False) is False
    assert hp.numbers("kv").tolist() == [1, 2, 3]
    assert "n" in hp
    assert "none" not in hp


def test_per_layer(hp: HParams) -> None:
    assert hp.per_layer("kv", 3) == [1, 2, 3]
    assert hp.per_layer("n", 3) == [8, 8, 8]
    assert hp.per_layer("none", 2, 4) == [4, 4]
    assert hp.per_layer("negs", 3, minimum=None) == [1, -2, 3]
    assert hp.per_layer_bool("flags", 3) == [True, False, True]
    assert hp.per_layer_bool("b", 2) == [True, True]
    assert hp.per_layer_float("fs", 3) == [0.5, 1.5, 2.5]
    assert hp.per_layer_float("f", 2) == [0.5, 0.5]


@pytest.mark.parametrize(("method", "arguments", "message"), [
    ("int", ("f",), "FLOAT32"), ("int", ("b",), "BOOL"), ("int", ("s",), "STRING"),
    ("int", ("kv",), r"UINT32\[\]"), ("int", ("neg",), "at least 0"), ("float", ("b",), "BOOL"),
    ("float", ("s",), "STRING"), ("float", ("nan",), "nan"), ("str", ("n",), "UINT32"),
    ("bool", ("n",), "UINT32"), ("numbers", ("words",), "STRING"), ("numbers", ("n",), "UINT32"),
    ("per_layer", ("kv", 4), "each of 4 layers"), ("per_layer", ("negs", 3), "at least 0"),
    ("per_layer", ("flags", 3), "an integer"), ("per_layer", ("f", 3), "an integer"),
    ("per_layer", ("s", 4), "an integer"), ("per_layer_bool", ("kv", 3), "a boolean"),
    ("per_layer_float", ("words", 3), "a number")])
def test_wrong_types(hp: HParams, method: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(GGUFError, match=message) as caught:
        getattr(hp, method)(*arguments)
    assert f"llama.{arguments[0]} " in str(caught.value)
    assert caught.value.path.endswith("a.gguf")
    assert caught.value.offset > 24


@pytest.mark.parametrize("method", ["int", "float", "str", "bool", "numbers"])
def test_missing_keys(hp: HParams, method: str) -> None:
    with pytest.raises(GGUFError, match=r"llama\.none is missing"):
        getattr(hp, method)("none")


def test_a_mapping_will_do() -> None:
    assert HParams({"general.architecture": "x", "x.n": 3}).int("n") == 3
    with pytest.raises(GGUFError, match=r"x\.n is 'a' \(str\), not an integer"):
        HParams({"general.architecture": "x", "x.n": "a"}).int("n")
    with pytest.raises(UnsupportedModel, match=r"general\.architecture"):
        HParams({})
    with pytest.raises(GGUFError):
        HParams({"general.architecture": 3})
