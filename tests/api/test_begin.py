"""Work that is begun for a caller which runs the steps itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unladen import Model
from unladen.api.begin import (
    begin_text,
    cached_length,
    chat_prompt,
    embedding,
    text_ids,
)
from unladen.errors import InvalidArgument


@pytest.fixture
def model(make_model: Callable[..., Path]) -> Model:
    marks = {f"tokenizer.ggml.fim_{name}_token_id": i for i, name in
             enumerate(("pre", "suf", "mid"), 20)}
    return Model(make_model("llama", keys=marks), devices=["cpu"], deterministic=True)


def test_a_gap_is_between_its_marks(model: Model) -> None:
    def own(text: str) -> list[int]:
        return model.tokenize(text, add_special=False, special=False, continues=True)

    ids = text_ids(model, "ab", suffix="c")
    start = [model.tokenizer.bos_id] if model.tokenizer.add_bos else []
    assert ids == [*start, 20, *own("ab"), 21, *own("c"), 22]
    assert text_ids(model, own("ab"), suffix="c") == ids
    assert text_ids(model, "ab") == model.tokenize("ab")


def test_a_model_without_marks_fills_no_gap(make_model: Callable[..., Path]) -> None:
    with pytest.raises(InvalidArgument, match="suffix"):
        text_ids(Model(make_model("llama"), devices=["cpu"]), "a", suffix="b")


def test_steps_are_the_callers(model: Model) -> None:
    ids = model.tokenize("abc")
    requests = begin_text(model, ids, {"max_tokens": 4, "seed": 5}, n=2)
    assert not any(request.done for request in requests)
    while not all(request.done for request in requests):
        model.engine.between_steps(model.engine.step)
    for i, request in enumerate(requests):
        alone = model.generate(ids, max_tokens=4, seed=5 + i)
        assert request.completion().tokens == alone.tokens


def test_the_cached_part_of_a_prompt_is_told(model: Model) -> None:
    ids = [*np.random.default_rng(0).integers(3, 30, 70).tolist()]
    assert cached_length(model, ids) == 0
    model.generate(ids, max_tokens=1)
    assert 64 <= cached_length(model, ids) <= 70
    assert model.engine.pool.n_available == model.engine.pool.n_blocks


def test_a_prompt_may_be_longer_than_the_context() -> None:
    with Model("tiny-chat", devices=["cpu"], context_size=64) as model:
        prompt = chat_prompt(model, [{"role": "user", "content": "word " * 200}], {})
        assert len(prompt.ids) > 200


def test_embeddings_come_with_the_callers_steps(make_bert: Callable[..., Path]) -> None:
    model = Model(make_bert(pooling_type=1), devices=["cpu"])
    together, n_tokens = embedding(model, ["ab", "x y z"])
    while together.refill() is not None:
        model.engine.between_steps(model.engine.step)
        together.collect()
    np.testing.assert_allclose(np.array(together.results), model.embed(["ab", "x y z"]), atol=1e-5)
    assert n_tokens == [len(model.tokenize(text)) for text in ("ab", "x y z")]
