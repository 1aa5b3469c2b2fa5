"""Several prompts at once give the same results as each alone, in bounded memory."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiny_model import write_tiny
from unladen import Model, SamplerChain
from unladen.engine import Request
from unladen.errors import ContextOverflow, InvalidArgument
from unladen.sample import Candidates, State, Step

TEXTS = ["ab, abc.", "h\u00e9", "a" * 40, "x y z", "ab", "ab"]


@pytest.fixture
def model(tmp_path: Path, rng: np.random.Generator) -> Model:
    return Model(write_tiny(tmp_path / "tiny.gguf", rng, context=96), kv_type="f32", max_seqs=2)


@pytest.fixture
def encoder(make_model: Callable[..., Path], rng: np.random.Generator) -> Model:
    norms = ["token_embd_norm", *(f"blk.{i}.{name}_output_norm" for i in range(2)
                                  for name in ("attn", "layer"))]
    extra = {f"{name}.{part}": rng.standard_normal(32, np.float32)
             for name in norms for part in ("weight", "bias")}
    extra |= {"position_embd.weight": rng.standard_normal((96, 32), np.float32),
              "token_types.weight": rng.standard_normal((2, 32), np.float32)}
    return Model(make_model("bert", extra=extra, keys={
        "bert.attention.layer_norm_epsilon": 1e-5, "bert.pooling_type": 1}), max_seqs=2)


def is_free(model: Model) -> bool:
    return model.engine.pool.n_available == model.engine.pool.n_blocks


@pytest.mark.parametrize("names", [{"temperature": 0.0}, {"temperature": 2.0, "seed": 7}])
def test_generate(model: Model, names: dict[str, Any]) -> None:
    alone = [model.generate(text, max_tokens=9, **names) for text in TEXTS]
    both = [model.generate(TEXTS, max_tokens=9, **names),
            asyncio.run(model.agenerate(TEXTS, max_tokens=9, **names)),
            model.generate([model.tokenize(text) for text in TEXTS], max_tokens=9, **names),
            model.generate(tuple(np.array(model.tokenize(text)) for text in TEXTS), max_tokens=9,
                           **names),
            model.generate((text for text in TEXTS), max_tokens=9, **names)]
    for together in both:
        assert [c.tokens for c in together] == [c.tokens for c in alone]
        assert [c.text for c in together] == [c.text for c in alone]
    assert is_free(model)


def test_logits(model: Model) -> None:
    together = model.logits(TEXTS)
    for text, rows in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(rows, model.logits(text), atol=1e-4)
        np.testing.assert_array_equal(model.logits(text), model.logits(model.tokenize(text)))


def test_embed(encoder: Model) -> None:
    ids = [[3, 4], [5], [6, 7, 8, 9], [3, 4]]
    together = encoder.embed(ids)
    assert together.dtype == np.float32 and together.shape == (4, encoder.embed([3]).shape[0])
    for row, each in zip(together, ids, strict=True):
        np.testing.assert_allclose(row, encoder.embed(each), atol=1e-5)
    np.testing.assert_allclose(together[0], together[3], atol=1e-5)
    rows = encoder.embed(ids, pooling="none")
    assert [len(r) for r in rows] == [2, 1, 4, 2]


def test_nothing_gives_nothing(model: Model, encoder: Model) -> None:
    assert model.generate([]) == model.logits(()) == asyncio.run(model.agenerate([])) == []
    width = encoder.embed([3]).shape[0]
    assert encoder.embed([]).shape == (0, width) and encoder.embed([]).dtype == np.float32
    assert encoder.embed([], pooling="none") == []


@pytest.mark.parametrize("call", ["generate", "logits", "agenerate"])
@pytest.mark.parametrize(("bad", "kind", "said"), [
    (None, InvalidArgument, "[3] must be"), ([], InvalidArgument, "[3] has no tokens"),
    ([10**6], InvalidArgument, "[3]"), ([1, "a"], InvalidArgument, "[3][1]"),
    ("\ud800", InvalidArgument, "[3] isn't Unicode"), (b"a", InvalidArgument, "[3] must be"),
    ([5] * 200, ContextOverflow, "[3]"), (np.ones((2, 2), int), InvalidArgument, "[3] must be")])
def test_an_error_names_its_prompt(model: Model, call: str, bad: Any, kind: type[Exception],
                                   said: str) -> None:
    name = "tokens" if call == "logits" else "prompt"
    def use() -> None:
        made = getattr(model, call)(["a", "b", "c", bad, "d"])
        if call == "agenerate":
            asyncio.run(made)
    with pytest.raises(kind) as caught:
        use()
    assert f"{name}{said}" in str(caught.value)
    assert model.generate("a", max_tokens=2, temperature=0.0).tokens and is_free(model)


def test_a_sampler_that_fails_names_its_prompt(model: Model) -> None:
    class Fails(Step):
        name = "fails"

        def apply(self, candidates: Candidates, state: State) -> None:
            if len(state.recent(-1)) == 12:
                raise KeyError("of the caller")
    lengths = [4, 5, 11, 4]
    with pytest.raises(KeyError) as caught:
        model.generate([[5] * n for n in lengths], max_tokens=5,
                       sampler=SamplerChain().step(Fails()).greedy())
    assert caught.value.__notes__ == ["in prompt[2]"]
    assert model.generate("a", max_tokens=2, temperature=0.0).tokens and is_free(model)


def test_one_sampler_serves_one_prompt(model: Model) -> None:
    sampler = SamplerChain().greedy().build()
    with pytest.raises(InvalidArgument, match="SamplerChain for several"):
        model.generate(["a", "b"], sampler=sampler)
    assert len(model.generate(["a"], sampler=sampler, max_tokens=2)) == 1


def test_streams_take_one(model: Model) -> None:
    async def first() -> str:
        async for piece in model.astream(["a", "b"]):
            return piece
        return ""
    for call in (lambda: model.stream(["a", "b"]), lambda: asyncio.run(first()),
                 lambda: model.stream([]), lambda: model.save_state(["a", "b"])):
        with pytest.raises(InvalidArgument, match=r"one text or one list.*several"):
            call()


def test_many_texts_take_little_memory(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    made, most = 0, 0
    alive: weakref.WeakSet[Request] = weakref.WeakSet()
    lock = threading.Lock()
    begin: Callable[..., None] = Request.__init__

    def counted(self: Request, *args: Any, **names: Any) -> None:
        nonlocal made, most
        begin(self, *args, **names)
        gc.collect(0)
        with lock:
            alive.add(self)
            made, most = made + 1, max(most, len(alive))
    monkeypatch.setattr(Request, "__init__", counted)
    assert len(model.generate(["ab"] * 60, max_tokens=1)) == 60
    assert made == 60 and most <= 2 * 2 + 4


def test_cancelling_the_task_cancels_all(model: Model) -> None:
    async def run() -> None:
        task = asyncio.create_task(model.agenerate(["a"] * 30, ignore_eos=True))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    asyncio.run(run())
    assert model.generate("a", max_tokens=2, temperature=0.0).tokens and is_free(model)


def test_lists_beside_other_callers(model: Model) -> None:
    alone = [model.generate(text, max_tokens=20, temperature=0.0).text for text in TEXTS]

    async def run() -> list[Any]:
        return await asyncio.gather(
            model.agenerate(TEXTS, max_tokens=20, temperature=0.0),
            *(model.agenerate(text, max_tokens=20, temperature=0.0) for text in TEXTS))
    together, *single = asyncio.run(run())
    assert [c.text for c in together] == [c.text for c in single] == alone
