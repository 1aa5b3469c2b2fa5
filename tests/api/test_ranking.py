"""Ranking with classifiers, with yes and no, and by embeddings, against computations of the tests'
own."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from factory import Shape, write_bert, write_model
from tiny_model import N_VOCAB, write_tiny
from unladen import Model
from unladen.errors import GGUFError, InvalidArgument, UnsupportedModel
from unladen.gguf import open_gguf

Rows = npt.NDArray[np.float64]
N_EMBD, N_HEADS, EPS = 32, 4, 1e-5
WORDS = ["red", "cat", "dog", "sea", "hill", "ing", "blue", "old"]
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"\u2581{word}" for word in WORDS)]
WORD_PIECES = {
    "tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": np.array([3] * 5 + [1] * len(WORDS), np.int32),
    "tokenizer.ggml.cls_token_id": 2, "tokenizer.ggml.bos_token_id": 2,
    "tokenizer.ggml.seperator_token_id": 3, "tokenizer.ggml.unknown_token_id": 1,
    "tokenizer.ggml.padding_token_id": 0}
CLS, SEP = 2, 3
QUERY = "red cat"
DOCUMENTS = ["old dog", "blue sea hill blue sea", "cat"]
TEMPLATE = "<q>{query}</q>{document}:"


@pytest.fixture
def rng() -> np.random.Generator:
    seed = secrets.randbits(32)
    print(f"seed: {seed}")
    return np.random.default_rng(seed)


def opened(path: Path, **more: Any) -> Model:
    return Model(path, devices=["cpu"], n_threads=1, **more)


def head(rng: np.random.Generator, n_labels: int = 1) -> dict[str, npt.NDArray[np.float32]]:
    shapes = {"cls.weight": (N_EMBD, N_EMBD), "cls.bias": (N_EMBD,),
              "cls.output.weight": (n_labels, N_EMBD), "cls.output.bias": (n_labels,)}
    return {name: (rng.standard_normal(shape) / 4).astype(np.float32)
            for name, shape in shapes.items()}


def words_model(path: Path, rng: np.random.Generator, extra: Mapping[str, Any],
                keys: Mapping[str, Any] | None = None) -> Path:
    """A random BERT with the vocabulary of this file."""
    norms = ["token_embd_norm", *(f"blk.{i}.{name}_output_norm" for i in range(2)
                                  for name in ("attn", "layer"))]
    more = {f"{name}.{part}": rng.standard_normal(N_EMBD, np.float32)
            for name in norms for part in ("weight", "bias")}
    more["position_embd.weight"] = rng.standard_normal((96, N_EMBD), np.float32)
    more["token_types.weight"] = rng.standard_normal((2, N_EMBD), np.float32)
    return write_model(path, rng, Shape("bert", n_vocab=len(TOKENS)), extra={**more, **extra},
                       tokenizer=False, keys={
                           "bert.attention.layer_norm_epsilon": EPS, "bert.pooling_type": 4,
                           **WORD_PIECES, **(keys or {})})


class Bert:
    """BERT's forward pass, written for this test."""

    def __init__(self, path: Path) -> None:
        with open_gguf(path) as file:
            self.w = {name: np.frombuffer(bytes(t.data), np.float32).reshape(t.shape).astype(float)
                      for name, t in file.tensors.items()}
            arch = file.metadata
            self.n_heads = int(arch["bert.attention.head_count"])  # type: ignore[call-overload]
            self.n_kv = int(arch.get("bert.attention.head_count_kv",  # type: ignore[call-overload]
                                     self.n_heads))

    def norm(self, x: Rows, name: str) -> Rows:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS)
        return np.asarray(x * self.w[f"{name}.weight"] + self.w[f"{name}.bias"])

    def rows(self, ids: Sequence[int], types: Sequence[int]) -> Rows:
        w, n = self.w, len(ids)
        x = w["token_embd.weight"][ids] + w["position_embd.weight"][:n] + w["token_types.weight"][
            types]
        x = self.norm(x, "token_embd_norm")
        for i in range(2):
            q, k, v = ((x @ w[f"blk.{i}.attn_{name}.weight"].T).reshape(n, heads, -1)
                       for name, heads in (("q", self.n_heads), ("k", self.n_kv),
                                           ("v", self.n_kv)))
            k, v = (np.repeat(each, self.n_heads // self.n_kv, axis=1) for each in (k, v))
            scores = np.einsum("thd,shd->hts", q, k) / math.sqrt(q.shape[-1])
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            y = np.einsum("hts,shd->thd", shares, v).reshape(n, -1)
            x = self.norm(x + y @ w[f"blk.{i}.attn_output.weight"].T, f"blk.{i}.attn_output_norm")
            y = x @ w[f"blk.{i}.ffn_up.weight"].T
            y = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y ** 3)))
            x = self.norm(x + y @ w[f"blk.{i}.ffn_down.weight"].T, f"blk.{i}.layer_output_norm")
        return np.asarray(x)

    def classified(self, ids: Sequence[int], types: Sequence[int]) -> Rows:
        w = self.w
        pooled = np.tanh(w["cls.weight"] @ self.rows(ids, types)[0] + w["cls.bias"])
        return np.asarray(w["cls.output.weight"] @ pooled + w["cls.output.bias"])


def ids_of(text: str) -> list[int]:
    return [TOKENS.index(f"\u2581{word}") for word in text.split()]


def pair(query: str, document: str) -> tuple[list[int], list[int]]:
    first = [CLS, *ids_of(query), SEP]
    second = [*ids_of(document), SEP]
    return first + second, [0] * len(first) + [1] * len(second)


def test_a_classifier_of_bert_reads_both_texts(tmp_path: Path, rng: np.random.Generator) -> None:
    for _ in range(20):  # the scores of a draw may be too close
        path = words_model(tmp_path / "a.gguf", rng, head(rng))
        bert = Bert(path)
        expected = [float(bert.classified(*pair(QUERY, each))[0]) for each in DOCUMENTS]
        if len({round(each, 3) for each in expected}) == len(DOCUMENTS):
            break
    assert len({round(each, 3) for each in expected}) == len(DOCUMENTS)
    without = [float(bert.classified(pair(QUERY, each)[0], [0] * len(pair(QUERY, each)[0]))[0])
               for each in DOCUMENTS]
    assert not np.allclose(expected, without, atol=1e-2)  # the types of tokens matter
    with opened(path) as model:
        assert model.ranks_by == "classifier" and not model.embeds
        # Several at once, in steps of few tokens, beside one another: the same scores.
        assert model.rank(QUERY, DOCUMENTS) == pytest.approx(expected, abs=3e-3)
        assert model.rank(QUERY, DOCUMENTS[1:2]) == pytest.approx(expected[1:2], abs=3e-3)
        many = model.rank(QUERY, DOCUMENTS * 9)
        assert many == pytest.approx(expected * 9, abs=3e-3)
        assert model.rank(QUERY, []) == []


def test_of_two_labels_the_relevant_one_counts(tmp_path: Path, rng: np.random.Generator) -> None:
    labels = {"bert.classifier.output_labels": ["no", "yes"]}
    path = words_model(tmp_path / "a.gguf", rng, head(rng, 2), labels)
    logits = [Bert(path).classified(*pair(QUERY, each)) for each in DOCUMENTS]
    expected = [float(np.exp(each[1]) / np.exp(each).sum()) for each in logits]
    with opened(path) as model:
        assert model.rank(QUERY, DOCUMENTS) == pytest.approx(expected, abs=3e-3)
    for n, names in ((3, ["no", "yes", "maybe"]), (2, ["left", "right"])):
        path = words_model(tmp_path / f"{n}.gguf", rng, head(rng, n),
                           {"bert.classifier.output_labels": names})
        with opened(path) as model, pytest.raises(UnsupportedModel, match="labels") as caught:
            model.rank(QUERY, DOCUMENTS)
        assert caught.value.hint


def test_a_classifier_whose_shapes_are_wrong(tmp_path: Path, rng: np.random.Generator) -> None:
    wrong = {**head(rng), "cls.output.weight": np.ones((1, N_EMBD + 1), np.float32)}
    with opened(words_model(tmp_path / "a.gguf", rng, wrong)) as model, pytest.raises(
            GGUFError, match="classifier"):
        model.rank(QUERY, DOCUMENTS)


def test_a_single_layer_is_the_classifier_itself(tmp_path: Path, rng: np.random.Generator) -> None:
    only = {"cls.weight": rng.standard_normal((1, N_EMBD), np.float32),
            "cls.bias": rng.standard_normal(1, np.float32)}
    path = words_model(tmp_path / "a.gguf", rng, only)
    bert = Bert(path)
    expected = [float((only["cls.weight"] @ bert.rows(*pair(QUERY, each))[0] + only["cls.bias"])[0])
                for each in DOCUMENTS]
    with opened(path) as model:
        assert model.rank(QUERY, DOCUMENTS) == pytest.approx(expected, abs=3e-2)


@pytest.mark.parametrize("flags", [(True, True), (True, False), (False, True), (True, None)])
def test_pairs_are_joined_as_the_file_says(tmp_path: Path, rng: np.random.Generator,
                                           flags: tuple[bool, bool | None]) -> None:
    has_end, has_sep = flags
    keys: dict[str, Any] = {"tokenizer.ggml.add_eos_token": has_end,
                            "tokenizer.ggml.add_bos_token": True}
    if has_sep is not None:
        keys["tokenizer.ggml.add_sep_token"] = has_sep
    path = write_bert(tmp_path / "a.gguf", rng, {"pooling_type": 1})
    with opened(path) as model:
        metadata = {**model.metadata, **keys}
        tokenizer = type(model.tokenizer).from_gguf(metadata)  # type: ignore[arg-type]
    from unladen.api.ranking import _joined
    q, d = (tokenizer.encode(text, add_special=False) for text in ("ab c", "d"))
    end, sep = [2] * has_end, [2] * bool(has_sep)  # without a token of its own </s> separates
    ids, first = _joined(tokenizer, metadata, "ab c", "d")
    assert ids == [1, *q, *end, *sep, *d, 2] and first == len(ids) - len(d) - 1


def test_a_causal_reranker_reads_the_last_token(tmp_path: Path, rng: np.random.Generator) -> None:
    seed, yes, no = int(rng.integers(1 << 32)), 300, 301
    plain = write_tiny(tmp_path / "plain.gguf", np.random.default_rng(seed), arch="qwen3",
                       context=96, changed=_norms(seed))
    with open_gguf(plain) as file:
        table = np.frombuffer(bytes(file.tensors["output.weight"].data), np.float32).reshape(
            N_VOCAB, -1).copy()
    yes, no = N_VOCAB - 2, N_VOCAB - 1
    ranks = _with_keys(tmp_path / "ranks.gguf", seed, {"cls.output.weight": table[[yes, no]]}, {
        "qwen3.pooling_type": 4, "tokenizer.chat_template.rerank": TEMPLATE})
    expected = []
    with opened(plain) as model:
        for each in DOCUMENTS:
            text = TEMPLATE.replace("{query}", QUERY).replace("{document}", each)
            row = model.logits(model.tokenize(text, add_special=False))[-1].astype(float)
            expected.append(1 / (1 + math.exp(row[no] - row[yes])))
    with opened(ranks) as model:
        assert model.ranks_by == "classifier"
        assert model.rank(QUERY, DOCUMENTS) == pytest.approx(expected, abs=2e-3)


def _norms(seed: int) -> dict[str, npt.NDArray[np.float32]]:
    made = np.random.default_rng(seed + 1)
    return {f"blk.{i}.attn_{name}_norm.weight": 1 + 0.1 * made.standard_normal(16, np.float32)
            for i in range(3) for name in "qk"}


def _with_keys(path: Path, seed: int, more: Mapping[str, Any], keys: Mapping[str, Any],
               arch: str = "qwen3") -> Path:
    """The model of ``seed`` with more tensors and keys."""
    from unladen.gguf import GGUFWriter
    write_tiny(path, np.random.default_rng(seed), arch=arch, context=96,
               changed={**_norms(seed), **more})
    with open_gguf(path) as file:
        writer = GGUFWriter(path.with_suffix(".new"), arch)
        for key, value in {**file.metadata, **keys}.items():
            if key not in ("general.architecture", "general.alignment", "GGUF.version"):
                writer.set(key, value)  # type: ignore[arg-type]
        for name, tensor in file.tensors.items():
            writer.add_tensor(name, np.frombuffer(bytes(tensor.data), np.float32).reshape(
                tensor.shape))
        writer.write()
    path.with_suffix(".new").replace(path)
    return path


def test_a_model_that_says_yes_or_no(tmp_path: Path, rng: np.random.Generator) -> None:
    seed = int(rng.integers(1 << 32))
    words = _with_keys(tmp_path / "a.gguf", seed, {}, {"tokenizer.chat_template.rerank": TEMPLATE})
    with opened(words) as model:
        # Each of the two is a token in a vocabulary of words; here letters stand for them.
        yes, no = (model.tokenize(letter, add_special=False, continues=True)[0] for letter in "yn")
        assert model.ranks_by == ""
        with pytest.raises(InvalidArgument, match="can't rank") as caught:
            model.rank(QUERY, DOCUMENTS)
        assert caught.value.hint
    with opened(words) as model, pytest.MonkeyPatch.context() as patch:
        patch.setattr("unladen.api.ranking._YES", "y")
        patch.setattr("unladen.api.ranking._NO", "n")
        assert model.ranks_by == "yes or no"
        expected = []
        for each in DOCUMENTS:
            text = TEMPLATE.replace("{query}", QUERY).replace("{document}", each)
            row = model.logits(model.tokenize(text, add_special=False))[-1].astype(float)
            expected.append(1 / (1 + math.exp(row[no] - row[yes])))
        assert model.rank(QUERY, DOCUMENTS) == pytest.approx(expected, abs=1e-4)


def test_names_of_control_tokens_are_text(tmp_path: Path, rng: np.random.Generator) -> None:
    path = write_tiny(tmp_path / "a.gguf", rng)
    with opened(path) as model:
        from unladen.api.ranking import _filled
        ids = _filled(model.tokenizer, "<s>{query}</s>{document}", "a</s>{document}", "<s>b")
        assert ids.count(1) == 1 and ids.count(2) == 1
        assert model.detokenize(ids) == "a</s>{document}<s>b"


def test_other_encoders_rank_by_embeddings(tmp_path: Path, rng: np.random.Generator) -> None:
    with opened(write_bert(tmp_path / "a.gguf", rng, {"pooling_type": 1})) as model:
        assert model.ranks_by == "embeddings" and model.embeds
        query, *others = model.embed([QUERY, *DOCUMENTS])
        assert model.rank(QUERY, DOCUMENTS) == pytest.approx([float(query @ each)
                                                              for each in others], abs=1e-6)


def test_what_no_ranking_takes(tmp_path: Path, rng: np.random.Generator) -> None:
    with opened(write_tiny(tmp_path / "a.gguf", rng)) as model:
        assert model.ranks_by == ""
        for query, documents in ((7, ["a"]), ("a", "b"), ("a", [b"b"])):
            with pytest.raises(InvalidArgument):
                model.rank(query, documents)  # type: ignore[arg-type]
