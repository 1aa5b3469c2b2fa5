"""A name and a quant choose the right files of a repository."""

from __future__ import annotations

import random

import pytest

from unladen.errors import InvalidArgument, ModelNotFound
from unladen.hub.resolve import candidates, kind_of, parts, pick, quant_of, quants_in

FILES = [
    "README.md", ".gitattributes", "config.json", "imatrix.gguf", "mmproj-F16.gguf",
    "mmproj-model-Q8_0.gguf", "Model-7B-Q4_K_M.gguf", "Model-7B-Q4_K_S.gguf", "Model-7B-Q4_0.gguf",
    "Model-7B-IQ4_XS.gguf", "Model-7B-UD-Q4_K_XL.gguf", "Model-7B-Q2_K.gguf",
    "Model-7B-UD-Q2_K.gguf", "Model-7B-Q2_K_L.gguf", "model.q5_k_m.gguf", "Model_7B_Q6_K.gguf",
    "BF16/Model-7B-BF16-00001-of-00002.gguf", "BF16/Model-7B-BF16-00002-of-00002.gguf",
    "Q8_0/weights.gguf", "Model-7B-fp16.gguf", "Model-7B-TQ1_0.gguf", "Model-7B-MXFP4_MOE.gguf",
    "Model-7B-F32-00002-of-00003.gguf", "Model-7B-F32-00001-of-00003.gguf"]


@pytest.mark.parametrize(("quant", "expected"), [
    (None, ["Model-7B-Q4_K_M.gguf"]), ("Q4_K_M", ["Model-7B-Q4_K_M.gguf"]),
    ("q4_k_s", ["Model-7B-Q4_K_S.gguf"]), ("Q4_0", ["Model-7B-Q4_0.gguf"]),
    ("IQ4_XS", ["Model-7B-IQ4_XS.gguf"]), ("UD-Q4_K_XL", ["Model-7B-UD-Q4_K_XL.gguf"]),
    ("Q4_K_XL", ["Model-7B-UD-Q4_K_XL.gguf"]), ("Q2_K", ["Model-7B-Q2_K.gguf"]),
    ("UD-Q2_K", ["Model-7B-UD-Q2_K.gguf"]), ("Q2_K_L", ["Model-7B-Q2_K_L.gguf"]),
    ("Q5_K_M", ["model.q5_k_m.gguf"]), ("Q6_K", ["Model_7B_Q6_K.gguf"]),
    ("BF16", [f"BF16/Model-7B-BF16-0000{i}-of-00002.gguf" for i in (1, 2)]),
    ("Q8_0", ["Q8_0/weights.gguf"]), ("F16", ["Model-7B-fp16.gguf"]),
    ("FP16", ["Model-7B-fp16.gguf"]), ("TQ1_0", ["Model-7B-TQ1_0.gguf"]),
    ("MXFP4_MOE", ["Model-7B-MXFP4_MOE.gguf"])])
def test_pick(quant: str | None, expected: list[str]) -> None:
    files = random.sample(FILES, len(FILES))
    assert pick(files, quant, where="org/repo") == tuple(expected)


@pytest.mark.parametrize("quant", ["Q4_K", "Q3_K_M", "XS", "", "Q4_K_X", "Q4"])
def test_absent(quant: str) -> None:
    with pytest.raises(ModelNotFound, match=f"org/repo has no {quant}") as caught:
        pick(FILES, quant, where="org/repo")
    assert "BF16, F16, F32, IQ4_XS, MXFP4_MOE, Q2_K, Q2_K_L, Q4_0, Q4_K_M, Q4_K_S, Q5_K_M, " in (
        caught.value.hint)


def test_missing_parts() -> None:
    with pytest.raises(ModelNotFound, match="lacks Model-7B-F32-00003-of-00003"):
        pick(FILES, "F32", where="org/repo")


def test_the_only_model_will_do_if_none_was_named() -> None:
    assert pick(["m-Q8_0.gguf", "mmproj-F16.gguf"], None, where="r") == ("m-Q8_0.gguf",)
    assert pick(["ggml-model.gguf"], None, where="r") == ("ggml-model.gguf",)
    with pytest.raises(ModelNotFound, match="has no Q4_K_M"):
        pick(["m-Q8_0.gguf", "m-Q6_K.gguf"], None, where="r")
    with pytest.raises(ModelNotFound, match="has no Q4_K_M") as caught:
        pick(["m-Q8_0.gguf"], "Q4_K_M", where="r")
    assert "it has: Q8_0" in caught.value.hint
    with pytest.raises(ModelNotFound) as caught:
        pick(["model.safetensors"], None, where="r")
    assert "no GGUF" in caught.value.hint


def test_several_models() -> None:
    with pytest.raises(InvalidArgument, match=r"a-Q4_0\.gguf, b-Q4_0\.gguf"):
        pick(["b-Q4_0.gguf", "a-Q4_0.gguf"], "Q4_0", where="r")
    both = ["a-Q4_0.gguf", "a-Q4_0-00001-of-00002.gguf", "a-Q4_0-00002-of-00002.gguf"]
    assert pick(both, "Q4_0", where="r") == ("a-Q4_0.gguf",)


def test_names() -> None:
    assert quant_of("F16-tuned-Q3_K_S.gguf") == "Q3_K_S"
    assert quant_of("sub/Q3_K_S/model.gguf") == "Q3_K_S"
    assert quant_of("Qwen2.5-7B.gguf") == quant_of("FQ4_0x.gguf") == ""
    assert parts("a.gguf") == ("a.gguf",)
    assert parts("d/a-00002-of-00002.gguf") == ("d/a-00001-of-00002.gguf",
                                                "d/a-00002-of-00002.gguf")


@pytest.mark.parametrize(("name", "kind"), [
    ("m-Q4_0.gguf", "model"), ("sub/mmproj-F16.gguf", "projector"), ("m-MMPROJ.gguf", "projector"),
    ("mmproj/m-F16.gguf", "model"), ("m.imatrix.gguf", "imatrix"), ("mtp-m-Q8_0.gguf", "draft"),
    ("m-eagle3-Q8_0.gguf", "draft"), ("dflash-m.gguf", "draft"), ("dspark-m.gguf", "draft"),
    ("Model-MTP-Q4_0.gguf", "model")])
def test_kinds(name: str, kind: str) -> None:
    assert kind_of(name) == kind
    assert [m.files for m in candidates([name])] == ([(name,)] if kind == "model" else [])


def test_every_quant_of_a_name() -> None:
    assert quants_in("Q4_K_S/tuned-F16-fp32.gguf") == {"Q4_K_S", "F16", "F32"}
    assert quants_in("plain.gguf") == frozenset()
