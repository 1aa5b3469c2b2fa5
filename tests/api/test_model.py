"""Parameters of a model, its loading and closing, and the costs of import."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiny_model import BOS, N_VOCAB, write_tiny
from unladen import Model, SamplerChain, SamplingParams
from unladen.api.model import KEPT_BREAKERS
from unladen.assembly.setup import device_names
from unladen.backends import backend_of
from unladen.errors import (
    BackendNotInitialised,
    InvalidArgument,
    ModelNotFound,
    OutOfMemory,
    UnsupportedModel,
)

TEXT = "ab, abc. h\u00e9"


@pytest.fixture
def path(tmp_path: Path, rng: np.random.Generator) -> Path:
    return write_tiny(tmp_path / "tiny.gguf", rng, context=96)


@pytest.fixture
def model(path: Path) -> Model:
    return Model(path, kv_type="f32")


def test_text_and_tokens(model: Model) -> None:
    ids = model.tokenize(TEXT)
    assert ids[0] == BOS and model.tokenize(TEXT, add_bos=False) == ids[1:]
    assert model.detokenize(ids) == TEXT
    by_text = model.generate(TEXT, temperature=0.0, max_tokens=8)
    assert by_text.usage.n_prompt == len(ids)
    assert by_text.tokens == model.generate(ids, temperature=0.0, max_tokens=8).tokens
    assert model.generate(np.array(ids), temperature=0.0, max_tokens=8).text == by_text.text


def test_suppressed_tokens_are_not_written(model: Model) -> None:
    first = model.generate(TEXT, temperature=0.0, max_tokens=8).tokens
    model.tokenizer.suppress_ids = frozenset(first)
    for temperature in (0.0, 2.0):
        after = model.generate(TEXT, temperature=temperature, max_tokens=20).tokens
        assert after and not set(after) & set(first)


def test_stream_is_generate_in_pieces(model: Model) -> None:
    expected = model.generate(TEXT, temperature=0.9, seed=5, max_tokens=30)
    stream = model.stream(TEXT, temperature=0.9, seed=5, max_tokens=30)
    assert "".join(stream) == expected.text == stream.result.text
    assert stream.result.tokens == expected.tokens
    assert list(stream) == []

    async def run() -> tuple[str, str]:
        wanted: dict[str, Any] = {"temperature": 0.9, "seed": 5, "max_tokens": 30}
        return ("".join([p async for p in model.astream(TEXT, **wanted)]),
                (await model.agenerate(TEXT, **wanted)).text)
    assert asyncio.run(run()) == (expected.text, expected.text)


def test_seeds_and_samplers(model: Model) -> None:
    def tokens(**wanted: Any) -> list[int]:
        return model.generate(TEXT, max_tokens=20, **wanted).tokens
    assert tokens(temperature=2.0, seed=1) == tokens(temperature=2.0, seed=1)
    assert tokens(temperature=2.0, seed=1) != tokens(temperature=2.0, seed=2)
    assert tokens(temperature=5.0, top_k=0, min_p=0.0, top_p=1.0) != tokens(
        temperature=5.0, top_k=0, min_p=0.0, top_p=1.0)
    greedy = tokens(temperature=0.0)
    assert tokens(sampler=SamplerChain().greedy()) == greedy
    assert tokens(sampler=SamplerChain().greedy().build()) == greedy
    assert tokens(sampler=SamplingParams(temperature=0.0).chain()) == greedy
    assert tokens(top_k=1) == greedy


@pytest.mark.parametrize(("wrong", "named"), [
    ({"temprature": 1.0}, "temprature"), ({"temperature": -1.0}, "temperature"),
    ({"top_p": 2.0}, "top_p"), ({"max_tokens": -1}, "max_tokens"),
    ({"logprobs": -1}, "logprobs"), ({"stop": ["a", ""]}, "stop[1]"),
    ({"sampler": SamplerChain(), "top_k": 3}, "top_k"), ({"seed": -2}, "seed")])
def test_bad_parameters_are_named(model: Model, wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        model.generate(TEXT, **wrong)
    assert named in str(caught.value)
    with pytest.raises(InvalidArgument):
        model.stream(TEXT, **wrong)
    with pytest.raises(InvalidArgument):
        asyncio.run(model.agenerate(TEXT, **wrong))
    assert model.engine.pool.n_available == model.engine.pool.n_blocks


def test_kept_breakers_are_bounded(model: Model) -> None:
    for i in range(2 * KEPT_BREAKERS):
        model.generate("ab", max_tokens=1, dry_multiplier=0.5, dry_sequence_breakers=[f"b{i}"])
    assert model._breakers.cache_info().currsize == KEPT_BREAKERS  # type: ignore[attr-defined]


def test_unknown_parameters_are_told_the_known_ones(model: Model) -> None:
    with pytest.raises(InvalidArgument, match=r"known: .*min_p.*temperature"):
        model.generate(TEXT, foo=1.0, bar=2.0)


@pytest.mark.parametrize(("wrong", "named"), [
    ({"context_size": 0}, "context_size"), ({"batch_size": -1}, "batch_size"),
    ({"max_seqs": 0}, "max_seqs"), ({"kv_type": "f8"}, "kv_type"),
    ({"kv_type": ("f16", "f32", "f16")}, "kv_type"), ({"devices": []}, "devices"),
    ({"devices": "cpu"}, "devices"), ({"devices": ["cpu", "cpu:0"]}, "twice"),
    ({"split_mode": "x"}, "split_mode"), ({"n_gpu_layers": -3}, "n_gpu_layers"),
    ({"tensor_split": [1, 2]}, "tensor_split"),
    ({"expert_split": [1, 2]}, "expert_split"), ({"override_tensor": {"(": "cpu"}}, "override"),
    ({"n_threads": 0}, "n_threads"), ({"n_threads_batch": 1000}, "n_threads_batch"),
    ({"cpu_moe": True, "devices": ["null:0"]}, "add cpu")])
def test_bad_model_parameters(path: Path, wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Model(path, **wrong)
    assert named in str(caught.value)


def test_heads_that_a_cache_type_does_not_fit(path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"heads of 16.*blocks of 32"):
        Model(path, kv_type="q8_0")


def test_unknown_things(path: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    with pytest.raises(BackendNotInitialised, match="abacus"):
        Model(path, devices=["abacus"])
    with pytest.raises(BackendNotInitialised):
        Model(path, devices=["cpu:x"])
    with pytest.raises(ModelNotFound):
        Model(tmp_path / "no.gguf")
    with pytest.raises(UnsupportedModel, match="abacus") as caught:
        Model(write_tiny(tmp_path / "other.gguf", rng, arch="abacus"))
    assert caught.value.arch == "abacus"


def test_devices(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.delenv("UNLADEN_DEVICES", raising=False)
    assert device_names(None) == ("cpu:0",)
    assert device_names(["cpu:1", "null"]) == ("cpu:1", "null:0")
    monkeypatch.setenv("UNLADEN_DEVICES", "reference, cpu:2")
    assert device_names(None) == ("reference:0", "cpu:2")
    assert device_names(["cpu"]) == ("cpu:0",)
    with Model(path) as model:
        placement = model.placement()
        assert "reference:0" in placement and "cpu:2" in placement
        assert [m.device.name for m in model.memory().devices] == ["reference:0", "cpu:2"]


def test_vocabulary_only(path: Path) -> None:
    with Model(path, vocab_only=True) as model:
        assert model.detokenize(model.tokenize(TEXT)) == TEXT
        assert model.metadata["general.architecture"] == "llama"
        assert model.tensors["output.weight"].shape == (N_VOCAB, 64)
        check_unusable(model)


def check_unusable(model: Model) -> None:
    uses: list[Any] = [
        lambda: model.generate(TEXT), lambda: model.generate(TEXT, max_tokens=0),
        lambda: model.stream(TEXT), lambda: model.logits([5]), model.placement, model.memory,
        lambda: asyncio.run(model.agenerate(TEXT))]
    for use in uses:
        with pytest.raises(InvalidArgument, match="no weights in memory"):
            use()


def test_closed(path: Path) -> None:
    with Model(path) as model:
        stream = model.stream(TEXT, temperature=0.0)
        next(stream)
    check_unusable(model)
    model.close()


def test_close_frees_memory_at_once(path: Path) -> None:
    """Without waiting for the garbage collector: the next model may need it."""
    null: Any = backend_of("null")
    gc.collect()
    gc.disable()
    try:
        model = Model(path, devices=["cpu", "null:0"], n_gpu_layers=2)
        list(model.stream(TEXT, max_tokens=3))
        assert null.used_bytes("null:0") > 0
        model.close()
        assert null.used_bytes("null:0") == 0
    finally:
        gc.enable()


def test_not_enough_memory(path: Path) -> None:
    with pytest.raises(OutOfMemory) as caught:
        Model(path, context_size=2**40)
    assert caught.value.device == "cpu:0" and caught.value.hint


def test_placement_and_memory(path: Path) -> None:
    with Model(path, devices=["cpu", "null:0"], n_gpu_layers=1) as model:
        assert model.placement().count("null:0") > 3
        cpu, null = model.memory().devices
        assert cpu.mapped_bytes > 0 == null.mapped_bytes < null.weight_bytes


def test_importing_costs_little() -> None:
    code = ("import sys, unladen; heavy = {'numpy', 'typer', 'huggingface_hub', 'asyncio',"
            "'unladen._native'} & set(sys.modules); assert not heavy, heavy;"
            "assert 'Model' in dir(unladen); unladen.Model; assert 'unladen.api' in sys.modules;"
            "assert not {'numpy', 'typer', 'huggingface_hub'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_name() -> None:
    import unladen
    with pytest.raises(AttributeError, match="Modell"):
        unladen.Modell  # noqa: B018
