"""What a model is asked through the supervisor is what the package itself answers."""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from factory import write_bert
from server.hosting import CHAT, TINY, asked, hello, hosting, run, story, text_of
from unladen import Model
from unladen.server.asked import Chat, Count, Detokenize, Embed, Rank, Text, Tokenize
from unladen.server.events import (
    CallArguments,
    CallBegun,
    Ended,
    Event,
    Probabilities,
    Prompt,
    Scores,
    Tokens,
    Vectors,
)
from unladen.server.faults import Fault
from unladen.server.settings import ModelSettings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def _ends(events: list[Event]) -> list[Ended]:
    return sorted((each for each in events if isinstance(each, Ended)),
                  key=lambda each: each.choice)


def _shown(events: list[Event]) -> list[object]:
    return [token for each in events if isinstance(each, Probabilities) for token in each.tokens]


def test_several_answers_share_a_prompt() -> None:
    async def test() -> None:
        own = ModelSettings("tiny", "tiny", options={**TINY.options, "deterministic": True})
        async with hosting(own) as core:
            question = Text(prompt="Once upon a time there was a dog who " * 8, n=3,
                            parameters={"max_tokens": 6, "seed": 3, "temperature": 1.0,
                                        "logprobs": 0})
            events = await asked(core, "tiny", question)
            ends = _ends(events)
            assert [each.choice for each in ends] == [0, 1, 2]
            assert [each.n_completion for each in ends] == [6, 6, 6]
            assert sum(each.n_cached > 0 for each in ends) >= 2
            with Model("tiny", devices=["cpu"], deterministic=True) as model:
                for i in range(3):
                    alone = model.generate(question.prompt, max_tokens=6, seed=3 + i,
                                           temperature=1.0)
                    assert text_of(events, i) == alone.text
                    own_events = [each for each in events
                                  if isinstance(each, Probabilities) and each.choice == i]
                    assert [each[0] for each in _shown(own_events)] == alone.tokens
    run(test)


def test_the_stop_string_that_ended_a_text_is_named() -> None:
    async def test() -> None:
        async with hosting(TINY) as core:
            end, = _ends(await asked(core, "tiny", story(max_tokens=100, stop=["xyzzy", "."])))
            assert (end.reason, end.stop) == ("stop", ".")
            end, = _ends(await asked(core, "tiny", story(max_tokens=1, stop=["."])))
            assert (end.reason, end.stop) == ("length", "")
    run(test)


def test_logprobs_and_echo() -> None:
    async def test() -> None:
        async with hosting(TINY) as core:
            question = Text(prompt="Once upon a time", echo=True,
                            parameters={"max_tokens": 3, "temperature": 0.0, "logprobs": 2})
            events = await asked(core, "tiny", question)
            assert text_of(events).startswith("Once upon a time")
            shown = _shown(events)
            end, = _ends(events)
            with Model("tiny", devices=["cpu"]) as model:
                ids = model.tokenize("Once upon a time")
                whole = [*ids, *model.generate("Once upon a time", max_tokens=3,
                                               temperature=0.0).tokens]
                rows = model.logits(whole).astype(np.float64)
            # The mark at the beginning isn't part of the text.
            assert [each[0] for each in shown] == whole[1:]
            assert shown[0][2] is None
            assert len(ids) == end.n_prompt
            for i, (token, _, logprob, top) in enumerate(shown[1:], 2):
                row = rows[i - 1] - rows[i - 1].max()
                expected = row[token] - math.log(np.exp(row).sum())
                assert logprob == pytest.approx(expected, abs=0.02)
                assert len(top) == 2
            only = await asked(core, "tiny", Text(prompt=ids, echo=True,
                                                  parameters={"max_tokens": 0}))
            assert "Once upon a time" in text_of(only)
    run(test)


def test_a_grammar_is_kept() -> None:
    async def test() -> None:
        async with hosting(TINY) as core:
            form = {"type": "grammar", "grammar": 'root ::= "red" | "blue"'}
            events = await asked(core, "tiny", story(max_tokens=8, response_format=form))
            assert text_of(events) in ("red", "blue")
    run(test)


def test_a_call_of_a_tool() -> None:
    async def test() -> None:
        async with hosting(CHAT) as core:
            tool = {"type": "function", "function": {
                "name": "get_weather", "parameters": {
                    "type": "object", "properties": {"city": {"type": "string"}},
                    "required": ["city"]}}}
            question = Chat(messages=[{"role": "user", "content": "Weather in Paris?"}],
                            tools=[tool], tool_choice="required", parallel_calls=False,
                            parameters={"temperature": 0.0, "max_tokens": 100})
            events = await asked(core, "small", question)
            begun, = (each for each in events if isinstance(each, CallBegun))
            assert begun.name == "get_weather"
            arguments = "".join(e.text for e in events if isinstance(e, CallArguments))
            assert arguments.startswith("{")
            assert _ends(events)[0].reason == "tool_calls"
    run(test)


def test_counts_and_tokens() -> None:
    async def test() -> None:
        async with hosting(CHAT) as core:
            counted = await core.result("small", Count(chat=hello()))
            assert isinstance(counted, Prompt)
            end, = _ends(await asked(core, "small", hello(max_tokens=1)))
            assert counted.n_tokens == end.n_prompt
            assert "Hello!" in counted.text
            long = Chat(messages=[{"role": "user", "content": "word " * 5000}])
            counted = await core.result("small", Count(chat=long))
            assert isinstance(counted, Prompt)
            assert counted.n_tokens > 5000  # more than the context holds
            tokens = await core.result("small", Tokenize(text="a\u20ac b"))
            assert isinstance(tokens, Tokens)
            back = await core.result("small", Detokenize(ids=list(tokens.ids)))
            assert isinstance(back, Tokens)
            assert back.text.strip() == "a\u20ac b"
            joined = "".join(tokens.pieces).encode("latin-1").decode().replace("\u2581", " ")
            assert joined.strip() == "a\u20ac b"
            with pytest.raises(Fault, match="no token 99999"):
                await core.result("small", Detokenize(ids=[99999]))
    run(test)


def test_embeddings_and_ranks(make_bert: Callable[..., Path]) -> None:
    async def test() -> None:
        path = str(make_bert(pooling_type=1))
        own = ModelSettings("bert", path, options={"devices": ["cpu"]})
        texts = ["ab, abc.", "x y z", "ab"]
        async with hosting(own, TINY) as core:
            assert core.cards()[0].can == {"embed", "rank"}
            found = await core.result("bert", Embed(inputs=[*texts]))
            cut = await core.result("bert", Embed(inputs=[*texts], dimensions=8))
            ranks = await core.result("bert", Rank(query=texts[0], documents=texts))
            with Model(path, devices=["cpu"]) as model:
                expected = model.embed(texts)
                n_tokens = [len(model.tokenize(text)) for text in texts]
            assert isinstance(found, Vectors)
            assert isinstance(cut, Vectors)
            assert isinstance(ranks, Scores)
            np.testing.assert_allclose(_rows(found), expected, atol=1e-5)
            assert list(found.n_tokens) == n_tokens
            short = expected[:, :8] / np.linalg.norm(expected[:, :8], axis=1, keepdims=True)
            np.testing.assert_allclose(_rows(cut), short, atol=1e-5)
            np.testing.assert_allclose(ranks.scores, expected @ expected[0], atol=1e-5)
            for name, question, kind in (
                    ("tiny", Embed(inputs=["a"]), "unsupported"),
                    ("bert", Embed(inputs=[]), "bad_request"),
                    ("bert", Embed(inputs=["a"], dimensions=9999), "bad_request"),
                    ("bert", Rank(query="a", documents=[]), "bad_request")):
                with pytest.raises(Fault) as caught:
                    await core.result(name, question)
                assert caught.value.kind == kind
            with pytest.raises(Fault) as caught:
                await asked(core, "bert", story())
            assert caught.value.kind == "unsupported"
    run(test)


def test_a_classifier_ranks(make_bert: Callable[..., Path], tmp_path: Path) -> None:
    async def test() -> None:
        rng = np.random.default_rng(5)
        path = write_bert(tmp_path / "ranks.gguf", rng, {"pooling_type": 4}, {
            "cls.weight": rng.standard_normal((32, 32), np.float32),
            "cls.output.weight": rng.standard_normal((1, 32), np.float32)})
        own = ModelSettings("ranks", str(path), options={"devices": ["cpu"]})
        async with hosting(own, TINY) as core:
            assert core.cards()[0].can == {"rank"}
            texts = ["x y z", "ab"]
            ranks = await core.result("ranks", Rank(query="ab, abc.", documents=texts))
            with Model(path, devices=["cpu"]) as model:
                expected = model.rank("ab, abc.", texts)
                n_tokens = sum(len(model._pair("ab, abc.", text)[0]) for text in texts)
            assert isinstance(ranks, Scores)
            assert expected[0] != expected[1]
            np.testing.assert_allclose(ranks.scores, expected, atol=1e-5)
            assert ranks.n_tokens == n_tokens
            for name, question in (("tiny", Rank(query="a", documents=["b"])),
                                   ("ranks", Embed(inputs=["a"])), ("ranks", story())):
                with pytest.raises(Fault) as caught:
                    await core.result(name, question)
                assert caught.value.kind == "unsupported" and caught.value.hint
    run(test)


def _rows(found: Vectors) -> np.ndarray:
    return np.array([np.frombuffer(base64.b64decode(row), "<f4") for row in found.rows])
