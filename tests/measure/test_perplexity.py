"""Perplexity and divergence equal values that are computed by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tiny_model import BOS, N_VOCAB, write_tiny
from unladen import Model
from unladen.errors import ContextOverflow, InvalidArgument
from unladen.measure.perplexity import Evaluation, log_softmax

EXACT = {"devices": ["reference"], "kv_type": "f32"}


@pytest.fixture
def path(tmp_path: Path, rng: np.random.Generator) -> Path:
    return write_tiny(tmp_path / "tiny.gguf", rng, context=64)


@pytest.fixture
def tokens(rng: np.random.Generator) -> list[int]:
    return list(rng.integers(3, N_VOCAB, 50).tolist())


def test_a_model_that_knows_nothing(tmp_path: Path, rng: np.random.Generator, tokens: list[int]
                                    ) -> None:
    head = np.zeros((N_VOCAB, 64), np.float32)
    path = write_tiny(tmp_path / "flat.gguf", rng, changed={"output.weight": head})
    told: list[tuple[int, float]] = []
    with Model(path) as model:
        result = Evaluation(model, tokens, 16).perplexity(lambda i, p: told.append((i, p)))
    assert result.value == pytest.approx(N_VOCAB, rel=1e-6)
    assert result.error == pytest.approx(0, abs=1e-6)
    assert result.n_scored == 3 * 7
    assert [i for i, _ in told] == [1, 2, 3] and told[-1][1] == result.value


def test_perplexity_by_hand(path: Path, tokens: list[int]) -> None:
    with Model(path, **EXACT) as model:
        result = Evaluation(model, tokens, 20).perplexity()
        losses = []
        for chunk in (tokens[:20], tokens[20:40]):
            rows = model.logits([BOS, *chunk[1:]]).astype(np.float64)
            for i in range(11, 20):
                row = rows[i - 1] - rows[i - 1].max()
                losses.append(math.log(np.exp(row).sum()) - row[chunk[i]])
    assert result.n_scored == len(losses) == 18
    assert result.value == pytest.approx(math.exp(np.mean(losses)), rel=1e-5)
    assert result.error == pytest.approx(
        result.value * np.std(losses, ddof=1) / math.sqrt(len(losses)), rel=1e-4)


def test_one_scored_token(path: Path, tokens: list[int]) -> None:
    with Model(path) as model:
        result = Evaluation(model, tokens[:4], 4).perplexity()
    assert result.n_scored == 1 and result.value > 1 and math.isnan(result.error)


def test_divergence_from_itself_and_from_another(tmp_path: Path, path: Path, tokens: list[int],
                                                 rng: np.random.Generator) -> None:
    saved = tmp_path / "base.npz"
    with Model(path, **EXACT) as model:
        evaluation = Evaluation(model, tokens, 16)
        evaluation.save(saved)
        mine = [rows for rows, _ in evaluation.chunks()]
        result = evaluation.divergence(saved)
        assert abs(result.mean_kl) < 1e-9 and result.same_top == 1.0
    with Model(write_tiny(tmp_path / "other.gguf", rng, context=64), **EXACT) as other:
        evaluation = Evaluation(other, tokens, 16)
        result = evaluation.divergence(saved)
        p = np.concatenate(mine).astype(np.float64)
        q = np.concatenate([rows for rows, _ in evaluation.chunks()]).astype(np.float64)
    expected = (np.exp(p) * (p - q)).sum(axis=1).mean()
    assert expected > 0.1 and result.mean_kl == pytest.approx(expected, rel=1e-6)
    assert result.same_top == np.mean(p.argmax(axis=1) == q.argmax(axis=1)) < 0.5


def test_saved_rows_are_what_was_computed(tmp_path: Path, path: Path, tokens: list[int]) -> None:
    saved = tmp_path / "base"
    with Model(path, **EXACT) as model:
        evaluation = Evaluation(model, tokens, 16)
        evaluation.save(saved)
        rows = np.concatenate([rows for rows, _ in evaluation.chunks()])
    with np.load(saved) as data:
        assert np.array_equal(data["logprobs"], rows)
        assert data["tokens"].tolist() == tokens and data["chunk"] == 16


def test_mismatches(tmp_path: Path, path: Path, tokens: list[int]) -> None:
    saved = tmp_path / "base.npz"
    with Model(path) as model:
        Evaluation(model, tokens, 16).save(saved)
        for other in (Evaluation(model, tokens, 20), Evaluation(model, tokens[::-1], 16),
                      Evaluation(model, tokens[:-1], 16)):
            with pytest.raises(InvalidArgument, match="another text or with another chunk"):
                other.divergence(saved)
        with np.load(saved) as data:
            arrays = dict(data)
        for logprobs in (arrays["logprobs"][:, :-1], arrays["logprobs"][:-1],
                         arrays["logprobs"][0], np.float32(1)):
            np.savez(saved, **(arrays | {"logprobs": logprobs}))
            with pytest.raises(InvalidArgument):
                Evaluation(model, tokens, 16).divergence(saved)


@pytest.mark.parametrize("content", [
    b"", b"rubbish", b"PK\x03\x04 cut off", b"\x93NUMPY\x01\x00v\x00", b"\x80\x04pickle"])
def test_files_that_hold_nothing(tmp_path: Path, path: Path, tokens: list[int], content: bytes
                                 ) -> None:
    saved = tmp_path / "base.npz"
    saved.write_bytes(content)
    with Model(path) as model:
        with pytest.raises(InvalidArgument, match="--save-logits"):
            Evaluation(model, tokens, 16).divergence(saved)
        with pytest.raises(InvalidArgument, match="--save-logits"):
            Evaluation(model, tokens, 16).divergence(tmp_path / "absent")


def test_files_of_another_kind(tmp_path: Path, path: Path, tokens: list[int]) -> None:
    saved = tmp_path / "base.npy"
    with Model(path) as model:
        np.save(saved, np.zeros(3))
        with pytest.raises(InvalidArgument, match="--save-logits"):
            Evaluation(model, tokens, 16).divergence(saved)
        with saved.open("wb") as file:
            np.savez(file, logprobs=np.zeros(3), chunk=np.zeros(5), tokens=np.zeros((2, 2)))
        with pytest.raises(InvalidArgument):
            Evaluation(model, tokens, 16).divergence(saved)


def test_chunks_that_make_no_sense(path: Path, tokens: list[int]) -> None:
    with Model(path) as model:
        for text, chunk in ((tokens, 3), (tokens, 51), ([], 4)):
            with pytest.raises(InvalidArgument):
                Evaluation(model, text, chunk)
        with pytest.raises(ContextOverflow):
            Evaluation(model, tokens * 2, 65).perplexity()


def test_log_softmax(rng: np.random.Generator) -> None:
    logits = (rng.standard_normal((5, 40)) * 30).astype(np.float32)
    logits[0] += 1000
    rows = log_softmax(logits)
    assert np.allclose(np.exp(rows.astype(np.float64)).sum(axis=1), 1, atol=1e-5)
    assert np.array_equal(rows.argmax(axis=1), logits.argmax(axis=1))
