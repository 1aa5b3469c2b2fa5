"""Published tokenizers give the published ids."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unladen.errors import InvalidArgument
from unladen.tokenizer import Tokenizer

VOCABS = ["llama-bpe", "llama-spm", "gpt-2", "qwen2", "phi-3", "starcoder", "deepseek-coder",
          "gemma-4", "bert-bge"]
SEPARATOR = "\n__ggml_vocab_test__\n"


@pytest.mark.parametrize("name", VOCABS)
def test_ids_and_round_trip(shared: Path, published_tokenizer: Callable, name: str) -> None:
    tokenizer = published_tokenizer(name)
    given = shared / f"vocabs/ggml-vocab-{name}.gguf.inp"
    texts = given.read_bytes().decode().split(SEPARATOR)
    lines = given.with_suffix(".out").read_text().split("\n")[:len(texts)]
    assert len(texts) == len(lines) > 40
    for text, line in zip(texts, lines, strict=True):
        ids = tokenizer.encode(text, add_bos=False, add_eos=False, special=False)
        assert ids == [int(n) for n in line.split()], text
        if name != "bert-bge":  # BERT normalizes the text first
            assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("name", [name for name in VOCABS if name != "bert-bge"])
def test_mixed_text_survives(published_tokenizer: Callable, random_text: Callable,
                             rng: np.random.Generator, name: str) -> None:
    for _ in range(300):
        assert_round_trip(published_tokenizer(name), random_text(rng))


@pytest.mark.parametrize("name", [name for name in VOCABS
                                  if name not in ("starcoder", "bert-bge")])
@settings(deadline=None)  # the first text loads the vocabulary
@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\u2581")))
def test_any_text_survives(published_tokenizer: Callable, name: str, text: str) -> None:
    assert_round_trip(published_tokenizer(name), text)


def assert_round_trip(tokenizer: Tokenizer, text: str) -> None:
    for special in (False, True):
        ids = tokenizer.encode(text, add_bos=False, special=special)
        assert tokenizer.decode(ids, special=True) == text


def test_threads_share_a_tokenizer(published_tokenizer: Callable, random_text: Callable,
                                   rng: np.random.Generator) -> None:
    tokenizer = published_tokenizer("gpt-2")
    texts = ["".join(random_text(rng) for _ in range(400)) for _ in range(32)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tokenizer.encode, texts)) == [tokenizer.encode(t) for t in texts]


def test_prompts_of_small_models(shared: Path, published: Callable) -> None:
    n_cases = 0
    for path in sorted((shared / "models/refs").glob("*.json")):
        reference = json.loads(path.read_text())
        cases = [case for case in reference.get("cases", []) if "prompt" in case]
        if not cases:
            continue
        tokenizer = Tokenizer.from_gguf(published(f"models/{reference['model']}"))
        for case in cases:
            assert tokenizer.encode(case["prompt"]) == case["prompt_tokens"], path.name
            assert tokenizer.decode(case["tokens"], at_start=False) == case["text"]
            n_cases += 1
    assert n_cases > 50


def test_defaults_of_published_files(published_tokenizer: Callable) -> None:
    llama = published_tokenizer("llama-bpe")
    assert llama.add_bos  # the file has no such key, the pre-tokenizer implies it
    assert llama.eog_ids == {128001, 128009}
    assert llama.encode("<|eot_id|>")[-1] == 128009
    assert len(llama.encode("<|eot_id|>", special=False)) > 2
    assert llama.encode("<|begin_of_text|>hi")[:2].count(128000) == 1
    qwen = published_tokenizer("qwen2")
    assert {qwen.token_text(i) for i in qwen.eog_ids} == {"<|endoftext|>", "<|im_end|>"}
    assert (qwen.add_bos, qwen.clean_spaces) == (False, False)


def test_a_vocabulary_without_all_bytes(published_tokenizer: Callable) -> None:
    starcoder = published_tokenizer("starcoder")
    assert starcoder.is_control(starcoder.unk_id)
    with pytest.raises(InvalidArgument, match="no token for byte 241"):
        starcoder.encode("\U00040000")


def test_phi3_tokens_swallow_white_space_on_their_right(published: Callable) -> None:
    metadata = published("vocabs/ggml-vocab-phi-3.gguf")
    tokenizer = Tokenizer.from_gguf({**metadata, "general.name": "Phi-3 mini"})
    user = tokenizer.encode("<|user|>", add_bos=False)
    assert len(user) == 1
    assert tokenizer.encode("<|user|> \n hi", add_bos=False) == [
        *user, *tokenizer.encode("hi", add_bos=False)]
    plain = Tokenizer.from_gguf({**metadata, "general.name": "other"})
    assert plain.encode("<|user|> \n hi", add_bos=False)[1:] == plain.encode(
        " \n hi", add_bos=False)
