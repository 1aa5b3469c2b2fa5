"""The ``ollama`` package, unchanged, against a server that runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ollama", reason="needs the ollama package")

import ollama

from clients.asking import CALCULATOR, HELLO, SUM, worked_out
from clients.serving import Served
from unladen import Model

PLAIN: dict[str, Any] = {"model": "tiny-chat", "options": {"temperature": 0, "num_predict": 80}}


@pytest.fixture
def client(served: Served) -> Iterator[Any]:
    with ollama.Client(host=served.address, timeout=50) as made:
        yield made


def test_an_answer_is_that_of_the_library(client: Any, model: Model) -> None:
    own = model.chat(HELLO, temperature=0.0, max_tokens=80)
    done = client.chat(messages=HELLO, **PLAIN)
    assert (done.message.content, done.done_reason) == (own.text, "stop")
    assert (done.prompt_eval_count, done.eval_count) == (own.usage.n_prompt,
                                                         own.usage.n_completion)
    assert done.total_duration >= done.eval_duration > 0


def test_a_stream_is_the_same_answer(client: Any, model: Model) -> None:
    own = model.chat(HELLO, temperature=0.0, max_tokens=80)
    lines = [*client.chat(messages=HELLO, stream=True, **{**PLAIN, "model": "tiny-chat:latest"})]
    assert "".join(line.message.content for line in lines) == own.text
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1].eval_count == own.usage.n_completion


@pytest.mark.parametrize("streams", [False, True])
def test_a_tool_is_called_and_its_result_answered(client: Any, streams: bool) -> None:
    said = client.chat(messages=SUM, tools=[CALCULATOR], stream=streams, **PLAIN)
    messages = [line.message for line in said] if streams else [said.message]
    call, = [call for message in messages for call in message.tool_calls or ()]
    assert call.function.name == "calculator"
    result = worked_out(call.function.arguments["expression"])
    assert result == "42"
    done = client.chat(tools=[CALCULATOR], messages=[
        *SUM, {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_name": "calculator", "content": result}], **PLAIN)
    assert "42" in done.message.content


def test_a_form_is_held_to(client: Any) -> None:
    done = client.chat(messages=HELLO, format={"type": "object", "properties": {
        "kind": {"enum": ["cat", "dog"]}}, "required": ["kind"],
        "additionalProperties": False}, **PLAIN)
    assert done.message.content in ('{"kind": "cat"}', '{"kind": "dog"}')


def test_texts_are_generated(client: Any) -> None:
    with Model("tiny", devices=["cpu"], n_threads=1) as tiny:
        own = tiny.generate("Once upon a time", temperature=0.0, max_tokens=20)
    options = {"temperature": 0, "num_predict": 20}
    done = client.generate(model="tiny", prompt="Once upon a time", raw=True, options=options)
    assert (done.response, done.done_reason) == (own.text, own.stop_reason.replace("end", "stop"))
    lines = client.generate(model="tiny", prompt="Once upon a time", raw=True, options=options,
                            stream=True)
    assert "".join(line.response for line in lines) == own.text


def test_embeddings_are_those_of_the_library(client: Any, encoder: Any) -> None:
    with Model(str(encoder), devices=["cpu"]) as own:
        expected = np.array([own.embed(text) for text in ("a cat", "a dog")])
    done = client.embed(model="encoder", input=["a cat", "a dog"])
    np.testing.assert_allclose(np.array(done.embeddings), expected, atol=1e-5)


def test_models_are_listed_and_shown(client: Any, model: Model) -> None:
    client.chat(messages=HELLO, **PLAIN)
    assert [each.model for each in client.list().models] == [
        "tiny-chat:latest", "tiny:latest", "encoder:latest"]
    shown = client.show("tiny-chat")
    assert shown.modelinfo["llama.context_length"] == model.context_size
    assert {"completion", "tools"} <= {*shown.capabilities}
    loaded = {each.model: each for each in client.ps().models}
    assert loaded["tiny-chat:latest"].context_length == model.context_size
    assert loaded["tiny-chat:latest"].expires_at is not None


def test_an_empty_prompt_loads_and_unloads(client: Any) -> None:
    assert client.generate(model="tiny").done_reason == "load"
    assert "tiny:latest" in [each.model for each in client.ps().models]
    assert client.generate(model="tiny", keep_alive=0).done_reason == "unload"
    assert "tiny:latest" not in [each.model for each in client.ps().models]


def test_what_is_wrong_has_a_status(client: Any) -> None:
    with pytest.raises(ollama.ResponseError, match="no-such") as unknown:
        client.chat(messages=HELLO, **{**PLAIN, "model": "no-such"})
    assert unknown.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="tokens") as long:
        client.chat(messages=[{"role": "user", "content": "word " * 3000}], **PLAIN)
    assert long.value.status_code == 400
