"""Names of other programs, and how objects show themselves."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import unladen
from unladen import Model, SamplingParams
from unladen.errors import InvalidArgument

GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 6}


def test_a_script_for_llama_cpp_python(path: Path) -> None:
    made = Model(model_path=str(path), n_ctx=64, n_batch=32, n_threads=1, n_gpu_layers=-1,
                 verbose=False, logits_all=False, embedding=False, offload_kqv=True,
                 flash_attn=True, type_k="f32", type_v="f32", seed=-1, use_mmap=True,
                 rope_freq_base=0.0, lora_path=None)
    assert made.context_size == 64
    written = made.generate("ab", max_tokens=6, temp=0.0, repeat_last_n=64, tfs_z=1.0,
                            mirostat_mode=0, stop=["zzz"], echo=False, stream=False)
    plain = Model(path, context_size=64, batch_size=32, n_threads=1, kv_type="f32")
    assert written.tokens == plain.generate("ab", **GREEDY).tokens


@pytest.mark.parametrize(("theirs", "ours"), [
    ({"n_ctx": 64}, {"context_size": 64}), ({"num_ctx": 64}, {"context_size": 64}),
    ({"n_ctx": 0}, {"context_size": None}), ({"n_ubatch": 32}, {"batch_size": 32}),
    ({"type_k": "f32"}, {"kv_type": ("f32", "f16")}), ({"n_gpu_layers": 99}, {}),
    ({"cache_type_v": "f32"}, {"kv_type": ("f16", "f32")})])
def test_plan_and_place_take_them_too(path: Path, theirs: dict[str, Any], ours: dict[str, Any]
                                      ) -> None:
    def facts(**names: Any) -> tuple[int, str]:
        report = unladen.plan(path, **names)
        return report.context_size, str(report.memory if hasattr(report, "memory") else "")
    assert facts(**theirs) == facts(**ours)
    with Model(path, context_size=80) as model:
        model.place(**theirs)
        assert model.context_size == facts(**{"context_size": 80, **ours})[0]


@pytest.mark.parametrize(("theirs", "ours"), [
    ({"max_new_tokens": 3}, {"max_tokens": 3}), ({"n_predict": 3}, {"max_tokens": 3}),
    ({"num_predict": -1, "ignore_eos": True}, {"max_tokens": None, "ignore_eos": True}),
    ({"stop_sequences": "b"}, {"stop": "b"}), ({"n_probs": 2}, {"logprobs": 2}),
    ({"repetition_penalty": 1.5}, {"repeat_penalty": 1.5}), ({"do_sample": True}, {})])
def test_a_generation(model: Model, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    common = {} if {"max_new_tokens", "n_predict", "num_predict"} & set(theirs) else {
        "max_tokens": 6}
    a, b = (model.generate("ab", temperature=0.0, **common, **names) for names in (theirs, ours))
    assert (a.tokens, a.text, a.stop_reason) == (b.tokens, b.text, b.stop_reason)
    assert (a.logprobs is None) == (b.logprobs is None)


@pytest.mark.parametrize(("names", "said"), [
    ({"logits_all": True}, r"Model has no parameter logits_all.*Model\.logits\(ids\)"),
    ({"embedding": True}, r"Model\.embed"), ({"type_k": 8}, r"type_k.*kv_type="),
    ({"n_ctx": 64, "context_size": 64}, "both n_ctx and context_size"),
    ({"type_k": "f16", "kv_type": "f16"}, "both type_k and kv_type"),
    ({"type_k": "f16", "cache_type_k": "f16"}, "both type_k and cache_type_k"),
    ({"model_path": "tiny"}, "both path and model_path"), ({"type_k": "q9"}, "type_k must be"),
    ({"n_ctx": "64"}, "n_ctx must be"), ({"context_sizes": 5}, "did you mean context_size"),
    ({"verbose": True}, "logging"),
    ({"device": "cuda"}, r'devices=\["cuda:0", "cpu:0"\]'),
    ({"device": "mps"}, r'devices=\["metal:0", "cpu:0"\]'),
    ({"device": "cuda:1"}, r'devices=\["cuda:1", "cpu:0"\]'),
    ({"device": "cpu"}, r'devices=\["cpu:0"\]'), ({"device": 0}, r'devices=\["wgpu:0", "cpu:0"\]'),
    ({"device_map": "cuda"}, r'devices=\["cuda:0", "cpu:0"\]'),
    ({"flash_attn": False}, "flash_attn"), ({"kv_type": ("f16", "f32", "f16")}, "kv_type")])
def test_what_is_not_taken_says_why(path: Path, names: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        Model(path, **names)
    with pytest.raises(InvalidArgument, match=said):
        unladen.plan(path, **names)


@pytest.mark.parametrize(("names", "said"), [
    ({"temprature": 1.0}, "generate has no parameter temprature.*did you mean temperature"),
    ({"logits_processor": [len]}, r"SamplerChain\(\)\.step"), ({"n": 2}, r"\[prompt\] \* n"),
    ({"stream": True}, r"Model\.stream"), ({"echo": True}, "Completion.text"),
    ({"grammar": "root ::= x"}, r"unladen\.grammar\(text\)"),
    ({"do_sample": False}, r"temperature=0\.0"),
    ({"temp": 1.0, "temperature": 1.0}, "both temperature and temp|both temp and temperature"),
    ({"max_tokens": 5, "n_predict": 5}, "both max_tokens and n_predict"),
    ({"n_predict": -3}, "n_predict must be"), ({"max_length": 5}, "max_tokens")])
def test_what_a_generation_does_not_take(model: Model, names: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        model.generate("ab", **names)


def test_no_file_is_named() -> None:
    with pytest.raises(InvalidArgument, match="path must be"):
        Model()


def test_a_seed_of_minus_one_is_a_new_one(model: Model) -> None:
    hot: dict[str, Any] = {"temperature": 5.0, "top_k": 0, "min_p": 0.0, "top_p": 1.0,
                           "max_tokens": 20}
    assert model.generate("ab", seed=-1, **hot).tokens != model.generate("ab", seed=-1,
                                                                         **hot).tokens
    assert SamplingParams(seed=-1).seed is None


def test_methods_of_other_programs_are_answered(model: Model) -> None:
    with pytest.raises(AttributeError, match=r"create_completion.*use generate\(\)"):
        model.create_completion("ab")  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"has no attribute 'xyzzy'$"):
        model.xyzzy  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(model, "n_ctx")


def test_objects_show_what_they_are(path: Path) -> None:
    with Model(path) as model:
        completion = model.generate("ab", **GREEDY)
        assert repr(completion).startswith(f"<Completion {completion.text!r}: 6 tokens")
        assert repr(completion).endswith("ended by length>") and len(repr(completion)) < 150
        assert len(repr(model.generate("ab", temperature=0.0))) < 150
        stream = model.stream("ab", temperature=0.0, max_tokens=3)
        assert repr(stream) == "<Stream: 0 tokens so far, going on>"
        list(stream)
        assert repr(stream) == "<Stream: 3 tokens so far, ended by length>"
    assert repr(SamplingParams()) == "SamplingParams()"
    assert repr(SamplingParams(top_k=3, seed=5)) == "SamplingParams(top_k=3, seed=5)"


def test_the_signature_is_shown() -> None:
    shown = str(inspect.signature(Model))
    assert "context_size=None" in shown and "kv_type='f16'" in shown
