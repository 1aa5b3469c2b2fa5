"""``deterministic=True``: a token's logits don't depend on what they are computed with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from engine.conftest import Load
from engine.test_speculate import eager
from factory import Shape, write_model
from tiny_model import write_tiny
from unladen import Model, SamplerChain
from unladen.engine import Request
from unladen.errors import InvalidArgument
from unladen.sample.base import Candidates, State, Step
from unladen.tokenizer import StreamDecoder

Logits = npt.NDArray[np.float32]
WIDE = Shape(n_embd=256, n_ff=512, n_heads=8, n_kv_heads=2, n_ctx=192)
OPTIONS = {"devices": ["cpu"], "deterministic": True}


@dataclass(frozen=True)
class Seen(Step):
    """Takes the likeliest token, and keeps the logits that it was chosen from."""

    name: ClassVar[str] = "seen"
    chooses: ClassVar[bool] = True
    rows: list[Logits] = field(default_factory=list)

    def apply(self, candidates: Candidates, state: State) -> None:
        self.rows.append(np.array(candidates.logits))
        candidates.chosen = int(candidates.ids[np.argmax(candidates.logits)])


@pytest.fixture
def loaded() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def compositions(loaded: ExitStack, path: Path, rng: np.random.Generator,
                 texts: Sequence[Sequence[int]], **options: Any) -> list[list[Logits]]:
    """The logits of each text: alone, then together in steps of random sizes and with any number
    of threads."""
    found = []
    for i in range(4):
        size = int(rng.choice([1, 2, 3, 7, 9, 40, 97])) if i else 512
        model = loaded.enter_context(Model(
            path, batch_size=size, n_threads=int(rng.integers(1, 5)), **OPTIONS, **options))
        if not i:
            found.append([model.logits(text) for text in texts])
            continue
        requests = [Request(text, sampler=None, decoder=StreamDecoder(model.tokenizer))
                    for text in texts]
        order = rng.permutation(len(requests)).tolist()
        for j in order:
            model.engine.submit(requests[j])
            for _ in range(rng.integers(0, 4)):
                model.engine.step()
        for request in requests:
            model.engine.finish(request)
        found.append([np.concatenate(request.logits) for request in requests])
    return found


def check_equal(found: Sequence[Sequence[Logits]]) -> None:
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert a.shape == b.shape
            assert np.array_equal(a.view(np.uint32), b.view(np.uint32)), np.abs(a - b).max()


@pytest.mark.parametrize("quant", ["F32", "F16", "Q8_0", "Q4_0", "Q5_1", "Q4_K", "Q6_K", "Q3_K",
                                   "IQ4_XS", "IQ2_S"])
def test_any_composition(tmp_path: Path, rng: np.random.Generator, level: str, loaded: ExitStack,
                         quant: str) -> None:
    path = write_model(tmp_path / "m.gguf", rng, WIDE, quant=quant)
    texts = [rng.integers(3, 200, n).tolist() for n in (150, 1, 2, 33, 8, 70)]
    kv_type = str(rng.choice(["f16", "f32", "q8_0"]))
    check_equal(compositions(loaded, path, rng, texts, kv_type=kv_type,
                             precise=bool(rng.integers(2))))


@pytest.mark.parametrize("shape", [
    Shape("qwen3moe", n_embd=256, n_ff=256, n_experts=5, n_ctx=128),
    Shape("qwen2", n_embd=128, n_heads=4, n_kv_heads=1, n_ctx=128), Shape("gpt2", n_ctx=128)])
def test_other_architectures(tmp_path: Path, rng: np.random.Generator, level: str,
                             loaded: ExitStack, shape: Shape) -> None:
    path = write_model(tmp_path / "m.gguf", rng, shape, quant="Q8_0")
    texts = [rng.integers(3, 200, n).tolist() for n in (90, 1, 17, 40)]
    check_equal(compositions(loaded, path, rng, texts))


def test_many_keys(tmp_path: Path, rng: np.random.Generator, loaded: ExitStack) -> None:
    """Decoding usually divides many keys among threads; with deterministic=True it mustn't."""
    path = write_tiny(tmp_path / "m.gguf", rng, context=2400, n_layers=1)
    texts = [rng.integers(3, 200, n).tolist() for n in (2300, 5)]
    whole = loaded.enter_context(Model(path, context_size=2400, **OPTIONS)).logits(texts[0])
    model = loaded.enter_context(Model(path, context_size=2400, n_threads=3, **OPTIONS))
    seen = Seen()
    result = model.generate(texts[0][:2290], max_tokens=8, sampler=SamplerChain().step(seen))
    again = loaded.enter_context(Model(path, context_size=2400, **OPTIONS)).logits(
        texts[0][:2290] + result.tokens)
    check_equal([list(again[2289:-1]), seen.rows])
    check_equal([[whole[:2290]], [again[:2290]]])


@pytest.mark.parametrize("quant", ["F32", "Q8_0", "Q4_K"])
def test_decoding(tmp_path: Path, rng: np.random.Generator, level: str, loaded: ExitStack,
                  quant: str) -> None:
    """Decoding token by token, with drafts, among other requests, and from cached prefixes."""
    path = write_model(tmp_path / "m.gguf", rng, WIDE, quant=quant)
    prompts = [[*rng.integers(3, 200, n).tolist(), *[9, 20, 31] * 4] for n in (1, 40, 70)]

    def load(**options: Any) -> Model:
        return loaded.enter_context(Model(path, **OPTIONS, **options))
    plain, guessing = load(speculate=False), eager(load(n_threads=3))
    alone = []
    for prompt in prompts:
        seen = Seen()
        result = plain.generate(prompt, max_tokens=40, sampler=SamplerChain().step(seen))
        alone.append((result.tokens, seen.rows))
    for _ in range(2):  # the second time from the cache
        steps = [Seen() for _ in prompts]
        streams = [guessing.stream(p, max_tokens=40, sampler=SamplerChain().step(s))
                   for p, s in zip(prompts, steps, strict=True)]
        for stream, seen, (tokens, rows) in zip(streams, steps, alone, strict=True):
            list(stream)
            assert stream.result.tokens == tokens
            check_equal([rows, seen.rows])
    for prompt, (tokens, rows) in zip(prompts, alone, strict=True):
        text = prompt + tokens
        check_equal([rows[:len(tokens)], list(load().logits(text)[len(prompt) - 1:-1])])


@pytest.mark.parametrize("n_experts", [0, 4])
def test_any_number_of_threads_without_it(tmp_path: Path, rng: np.random.Generator, level: str,
                                          n_experts: int, loaded: ExitStack) -> None:
    shape = replace(WIDE, arch="qwen3moe" if n_experts else "llama", n_experts=n_experts)
    path = write_model(tmp_path / "m.gguf", rng, shape, quant="Q4_K")
    models = [loaded.enter_context(Model(path, devices=["cpu"], n_threads=n))
              for n in (1, 2, 3, 7)]
    for n in (100, 1, 1):
        text = rng.integers(3, 200, n).tolist()
        check_equal([[model.logits(text)] for model in models])


def test_where_it_isnt_promised(load: Load) -> None:
    with pytest.raises(InvalidArgument, match="reference:0") as caught:
        load(devices=["reference"], deterministic=True)
    assert "cpu" in str(caught.value.hint)
