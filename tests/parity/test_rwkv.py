"""RWKV 6 and 7 give the answers of rwkv.cpp and llama.cpp with trained models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.parity.recipes import error

from unladen import Model

EXACT, CPU_F32 = 1e-9, 1e-8


@pytest.fixture(scope="module", params=["rwkv6-1m", "rwkv7-834K"])
def trained(shared: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
            ) -> tuple[Path, dict[str, Any], np.ndarray[Any, np.dtype[np.float32]]]:
    """A file, prompt and answer, and the logits after the prompt. Only ids are compared, so the
    texts in the file's vocabulary don't matter."""
    data = (shared / f"models/{request.param}-f32.gguf").read_bytes()
    key = b"tokenizer.ggml.model"
    at = data.index(key) + len(key) + 12
    assert data[at:at + 4] == b"rwkv"
    path = tmp_path_factory.mktemp("rwkv") / f"{request.param}.gguf"
    path.write_bytes(data[:at] + b"test" + data[at + 4:])
    refs = shared / "models/refs"
    expected = np.fromfile(refs / f"{request.param}-expected-logits-fp32.bin", np.float32)
    return path, json.loads((refs / f"{request.param}-f32.json").read_text()), expected


Trained = tuple[Path, dict[str, Any], "np.ndarray[Any, np.dtype[np.float32]]"]


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("batch_size", [512, 7])
def test_logits_and_the_text_that_follows(trained: Trained, device: str, batch_size: int) -> None:
    path, answer, expected = trained
    prompt, tokens = answer["prompt_tokens"], answer["tokens"]
    with Model(path, devices=[device], context_size=128, batch_size=batch_size) as model:
        logits = model.logits([*prompt, *tokens])
    bound = EXACT if device == "reference" else CPU_F32
    assert error(logits[len(prompt) - 1], expected) < bound
    assert logits[len(prompt) - 1:-1].argmax(axis=1).tolist() == tokens


def test_generated_and_restored(trained: Trained) -> None:
    path, answer, _ = trained
    prompt, tokens = answer["prompt_tokens"], answer["tokens"]
    with Model(path, context_size=128) as model:
        assert model.generate(prompt, max_tokens=len(tokens), temperature=0.0).tokens == tokens
        data = model.save_state([*prompt, *tokens[:-5]])
    with Model(path, context_size=256) as model:
        n = len(model.load_state(data))
        assert n == len(prompt) + len(tokens) - 5
        part = [*prompt, *tokens][:n + 1]
        more = model.generate(part, max_tokens=len(tokens) - (n + 1 - len(prompt)), temperature=0.0)
    assert more.usage.n_cached == n
    assert [*part, *more.tokens] == [*prompt, *tokens]
