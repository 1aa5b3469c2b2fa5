"""Every mix gives each tensor the same format as llama.cpp."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantizing.models import MODELS, Paper, shapes, write
from unladen.errors import InvalidArgument, UnsupportedQuant
from unladen.gguf import open_gguf
from unladen.quantizing.imatrix import Imatrix
from unladen.quantizing.mixes import ALIASES, MIXES, mix
from unladen.quantizing.plan import QuantizePlan, Wishes, make_plan

ANSWERS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "llama_cpp.json").read_text(encoding="utf-8"))


def planned(path: Path, name: str, imatrix: Imatrix | None = None, **wishes: Any) -> QuantizePlan:
    with open_gguf(path) as file:
        return make_plan(file, name, imatrix, Wishes(**wishes))


def formats(plan: QuantizePlan) -> str:
    runs = [(quant, len(list(run))) for quant, run in groupby(row.quant for row in plan.rows)]
    return " ".join(quant if n == 1 else f"{quant}*{n}" for quant, n in runs)


def types(plan: QuantizePlan) -> dict[str, str]:
    return {row.source.name: row.quant for row in plan.rows}


def ones(model: Paper) -> Imatrix:
    return Imatrix("ones.gguf", {
        name: np.ones(shape[-1] * (shape[0] if len(shape) > 2 else 1), np.float32)
        for name, shape in shapes(model)})


@pytest.mark.parametrize("name", MODELS)
def test_as_llama_cpp(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", MODELS[name])
    for type_name, expected in ANSWERS["mixes"][name].items():
        if expected:
            assert formats(planned(path, type_name)) == expected, type_name
        else:
            with pytest.raises(InvalidArgument, match="importance matrix"):
                planned(path, type_name)


@pytest.mark.parametrize("name", MODELS)
def test_as_llama_cpp_with_importance(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", MODELS[name])
    for type_name, expected in ANSWERS["weighted"][name].items():
        assert formats(planned(path, type_name, ones(MODELS[name]))) == expected, type_name


def test_answers_are_of_all_mixes() -> None:
    for answers in ANSWERS["mixes"].values():
        assert set(answers) == set(MIXES)


def test_names_of_mixes() -> None:
    assert mix("q4_k_m") is MIXES["Q4_K_M"]
    assert {alias: mix(alias).name for alias in ALIASES} == ALIASES
    with pytest.raises(InvalidArgument, match="IQ2_XS"):
        mix("IQ2_XS")


def test_fallbacks_are_told(tmp_path: Path) -> None:
    plan = planned(write(tmp_path / "m.gguf", MODELS["narrow"]), "Q4_K_M")
    told = [note for note in plan.notes if "blk.1.attn_q.weight" in note]
    assert told == ["blk.1.attn_q.weight: Q5_0 in place of Q4_K: its rows of 288 don't divide"]


def test_wishes(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", MODELS["grouped"])
    plain = types(planned(path, "Q4_K_M"))
    changed = types(planned(path, "Q4_K_M", output_tensor_type="q8_0", token_embedding_type="F16",
                            tensor_types=[(r"blk\.[01]\.ffn_down", "Q5_0"), ("ffn", "Q3_K")]))
    assert changed["output.weight"] == "Q8_0" and changed["token_embd.weight"] == "F16"
    assert changed["blk.1.ffn_down.weight"] == "Q5_0" and changed["blk.2.ffn_down.weight"] == "Q3_K"
    assert changed["blk.2.ffn_up.weight"] == "Q3_K"
    assert {k: v for k, v in changed.items() if "attn" in k} == {
        k: v for k, v in plain.items() if "attn" in k}
    pure = types(planned(path, "Q4_K_M", pure=True))
    assert {v for k, v in pure.items() if "norm" not in k} == {"Q4_K"}


def test_output_type_of_tied_embeddings(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", MODELS["plain"])
    assert types(planned(path, "Q4_0", output_tensor_type="Q5_K"))["token_embd.weight"] == "Q5_K"


@pytest.mark.parametrize(("wishes", "error"), [
    ({"output_tensor_type": "IQ2_S"}, UnsupportedQuant),
    ({"token_embedding_type": "nonsense"}, UnsupportedQuant),
    ({"tensor_types": [("(", "Q4_K")]}, InvalidArgument),
])
def test_wrong_wishes(wishes: dict[str, Any], error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error):
        planned(write(tmp_path / "m.gguf", MODELS["odd"]), "Q4_K_M", **wishes)


def test_importance_of_another_shape(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", MODELS["plain"])
    entries = dict(ones(MODELS["plain"]).entries)
    entries["token_embd.weight"] = np.ones(3, np.float32)
    assert types(planned(path, "Q4_K_M", Imatrix("i", entries)))
    entries["blk.0.attn_q.weight"] = np.ones(255, np.float32)
    with pytest.raises(InvalidArgument, match=r"attn_q.* 255 numbers"):
        planned(path, "Q4_K_M", Imatrix("i", entries))
    del entries["blk.0.attn_q.weight"]
    plan = planned(path, "Q4_K_M", Imatrix("i", entries))
    assert "blk.0.attn_q.weight: not in the importance matrix" in plan.notes
