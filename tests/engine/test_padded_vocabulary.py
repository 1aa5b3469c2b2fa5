"""The embeddings have more or fewer rows than the tokenizer has tokens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.conftest import EXACT, check_idle
from engine.test_speculate import eager
from engine.trouble import DETERMINISTIC, Acts
from tiny_model import N_VOCAB, vocabulary, write_tiny
from unladen import Model, SamplerChain
from unladen.errors import InvalidArgument

N_PADDED = 37
PLACES = {"cpu": DETERMINISTIC, "reference": EXACT}


class Rows:
    """The same model twice: with the tokens' rows alone, and with further rows of large logits."""

    def __init__(self, folder: Path, rng: np.random.Generator) -> None:
        embd, n = 64, N_VOCAB
        head = (rng.standard_normal((n + N_PADDED, embd)) * 0.25).astype(np.float32)
        head[n:] *= 8  # nearly always the likeliest
        table = rng.standard_normal((n + N_PADDED, embd)).astype(np.float32)
        seed = int(rng.integers(2**31))
        self.plain, self.padded = (write_tiny(
            folder / f"{name}.gguf", np.random.default_rng(seed), context=192, n_embd=embd,
            changed={"token_embd.weight": table[:rows], "output.weight": head[:rows]})
            for name, rows in (("plain", n), ("padded", n + N_PADDED)))


@pytest.fixture
def rows(tmp_path: Path, rng: np.random.Generator) -> Rows:
    return Rows(tmp_path, rng)


WISHES: tuple[Mapping[str, Any], ...] = (
    {"temperature": 0.0}, {"temperature": 1.5, "seed": 1, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    {"temperature": 1.0, "seed": 2}, {"temperature": 0.0, "logprobs": 5},
    {"temperature": 2.0, "seed": 3, "top_k": 20, "logprobs": 3}, {"mirostat": 1, "seed": 4},
    {"mirostat": 2, "seed": 5}, {"adaptive_target": 0.4, "seed": 6},
    {"temperature": 0.0, "repeat_penalty": 1.2}, {"top_n_sigma": 1.0, "seed": 7},
    {"typical_p": 0.8, "seed": 8}, {"xtc_probability": 0.5, "seed": 9})


@pytest.mark.parametrize("options", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("drafts", [False, True])
def test_as_if_the_rows_were_not_there(rows: Rows, options: Any, drafts: bool) -> None:
    """The same tokens, from the same draws, and the same log-probabilities: alone and together."""
    found = []
    prompt = [9, 20, 31, 8] * 6
    wishes = WISHES if options is DETERMINISTIC else WISHES[:5]  # the reference is slow
    for path in (rows.plain, rows.padded):
        with Model(path, **options, speculate=drafts) as model:
            made = eager(model) if drafts else model
            alone = [made.generate(prompt, max_tokens=12, **w) for w in wishes]
            streams = [made.stream(prompt, max_tokens=12, **w) for w in wishes]
            for stream in streams:
                list(stream)
            found.append([(r.tokens, r.text, r.logprobs)
                          for r in [*alone, *(s.result for s in streams)]])
            check_idle(made)
    for plain, padded in zip(*found, strict=True):
        assert plain[:2] == padded[:2]
        for a, b in zip(plain[2] or (), padded[2] or (), strict=True):
            assert [t for t, _ in a.top] == [t for t, _ in b.top]
            np.testing.assert_allclose([a.logprob, *(p for _, p in a.top)],
                                       [b.logprob, *(p for _, p in b.top)], atol=1e-5)


def test_steps_in_numpy_see_none_of_them(rows: Rows) -> None:
    seen: list[int] = []
    chain = SamplerChain().step(Acts(0, lambda c: seen.append(int(c.ids[-1])))).greedy()
    with Model(rows.padded, **DETERMINISTIC) as model:
        tokens = model.generate([5], max_tokens=1, sampler=chain).tokens
        same = model.generate([5], max_tokens=1,
                              sampler=chain.build(1, use_native=False)).tokens
    # There is no token where the first choice is an end of the text.
    assert seen == [N_VOCAB - 1] * 2 and tokens == same and all(t < N_VOCAB for t in tokens)


@pytest.mark.parametrize("options", PLACES.values(), ids=PLACES)
def test_logits_have_a_column_for_each_row(rows: Rows, options: Any) -> None:
    with Model(rows.padded, **options) as model, Model(rows.plain, **options) as plain:
        logits = model.logits([5, 6, 7])
        assert logits.shape == (3, N_VOCAB + N_PADDED) and np.isfinite(logits).all()
        np.testing.assert_allclose(logits[:, :N_VOCAB], plain.logits([5, 6, 7]), atol=1e-4)
        # In one step with requests that sample, too.
        stream = model.stream([5, 6, 7], max_tokens=4, temperature=0.0)
        np.testing.assert_array_equal(model.logits([5, 6, 7]), logits)
        list(stream)
        for bad in (N_VOCAB, N_VOCAB + N_PADDED):
            for call in (model.generate, model.logits):
                with pytest.raises(InvalidArgument, match="vocabulary"):
                    call([5, bad])


def fewer_rows(path: Path, n: int, rng: np.random.Generator) -> Path:
    embd = 64
    table = rng.standard_normal((n, embd)).astype(np.float32)
    return write_tiny(path, rng, context=192, n_embd=embd,
                      changed={"token_embd.weight": table, "output.weight": table})


@pytest.mark.parametrize("options", PLACES.values(), ids=PLACES)
def test_more_tokens_than_rows(tmp_path: Path, rng: np.random.Generator, options: Any) -> None:
    n = N_VOCAB - 20
    with Model(fewer_rows(tmp_path / "few.gguf", n, rng), **options) as model:
        assert model.tokenizer.n_vocab == N_VOCAB and model.engine.n_vocab == n
        text = model.tokenizer.decode([N_VOCAB - 1])
        assert max(model.tokenize(text)) >= n
        others = [model.stream([5, i], max_tokens=20, seed=i, ignore_eos=True) for i in range(3)]
        for call in (lambda: model.generate(text), lambda: model.logits(model.tokenize(text)),
                     lambda: model.generate([n])):
            with pytest.raises(InvalidArgument, match="no embedding"):
                call()
        for stream in others:
            list(stream)
            assert max(stream.result.tokens) < n
        biased = model.generate([5], max_tokens=3, ignore_eos=True, logit_bias={n: 100.0})
        assert max(biased.tokens) < n
        check_idle(model)


def test_a_shorter_tokenizer_of_another_file(tmp_path: Path, path: Path) -> None:
    """``tokenizer=`` with fewer tokens than the model's own."""
    hf = pytest.importorskip("tokenizers", reason="the extra hf-tokenizer isn't installed")
    n = N_VOCAB - 30
    made = hf.Tokenizer(hf.models.BPE({p: i for i, p in enumerate(pieces()[:n])}, []))
    made.decoder = hf.decoders.ByteLevel()
    made.save(str(tmp_path / "tokenizer.json"))
    with Model(path, **DETERMINISTIC, tokenizer=tmp_path / "tokenizer.json") as model:
        assert n == model.tokenizer.n_vocab == model.engine.n_vocab
        result = model.generate([5, 6], max_tokens=60, temperature=50.0, top_k=0, top_p=1.0,
                                min_p=0.0, seed=1, ignore_eos=True)
        assert len(result.tokens) > 5 and max(result.tokens) < n


def pieces() -> list[str]:
    found: list[str] = vocabulary()["tokens"][0]
    return found
