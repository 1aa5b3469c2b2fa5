"""The ``openai`` package, unchanged, against a server that runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

pytest.importorskip("openai", reason="needs the openai package")

import openai
from pydantic import BaseModel

from clients.asking import CALCULATOR, EXPRESSION, HELLO, SUM, worked_out
from clients.serving import Served
from unladen import Model

PLAIN: dict[str, Any] = {"model": "tiny-chat", "temperature": 0}
TOOL = {"type": "function", "name": "calculator", "description": "Works out an expression.",
        "parameters": EXPRESSION, "strict": False}


class Pet(BaseModel):
    kind: Literal["cat", "dog"]
    is_small: bool


@pytest.fixture(params=[False, True], ids=["lenient", "strict"])
def client(served: Served, request: pytest.FixtureRequest) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{served.address}/v1", api_key="none", max_retries=0,
                       timeout=120, _strict_response_validation=request.param) as made:
        yield made


def test_an_answer_is_that_of_the_library(client: Any, model: Model) -> None:
    own = model.chat(HELLO, temperature=0.0, max_tokens=60)
    done = client.chat.completions.create(messages=HELLO, max_tokens=60, **PLAIN)
    assert done.choices[0].message.content == own.text != ""
    assert done.choices[0].finish_reason == "stop"
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (
        own.usage.n_prompt, own.usage.n_completion)
    assert done._request_id.startswith("req_")
    cut = client.chat.completions.create(messages=HELLO, max_completion_tokens=2, **PLAIN)
    assert cut.choices[0].finish_reason == "length" and own.text.startswith(
        cut.choices[0].message.content)


def test_a_stream_is_the_same_answer(client: Any, model: Model) -> None:
    own = model.chat(HELLO, temperature=0.0, max_tokens=60)
    chunks = [*client.chat.completions.create(messages=HELLO, max_tokens=60, stream=True,
                                              stream_options={"include_usage": True}, **PLAIN)]
    *middle, last = chunks
    assert middle[0].choices[0].delta.role == "assistant"
    assert "".join(each.choices[0].delta.content or "" for each in middle) == own.text
    assert [each.choices[0].finish_reason for each in middle[:-1]] == [None] * (len(middle) - 1)
    assert middle[-1].choices[0].finish_reason == "stop"
    assert last.choices == [] and last.usage.completion_tokens == own.usage.n_completion


def test_probabilities_are_those_of_the_library(client: Any, model: Model) -> None:
    own = model.chat(HELLO, temperature=0.0, max_tokens=5, logprobs=2)
    done = client.chat.completions.create(messages=HELLO, max_tokens=5, logprobs=True,
                                          top_logprobs=2, **PLAIN)
    found = done.choices[0].logprobs.content
    assert own.logprobs is not None
    assert [each.logprob for each in found] == pytest.approx(
        [each.logprob for each in own.logprobs], abs=1e-3)
    assert [len(each.top_logprobs) for each in found] == [2] * len(found)


@pytest.mark.parametrize("streams", [False, True])
def test_a_tool_is_called_and_its_result_answered(client: Any, streams: bool) -> None:
    asked = {"tools": [CALCULATOR], "max_tokens": 80, **PLAIN}
    if streams:
        with client.chat.completions.stream(messages=SUM, **asked) as stream:
            said = stream.get_final_completion().choices[0]
    else:
        said = client.chat.completions.create(messages=SUM, **asked).choices[0]
    call, = said.message.tool_calls
    assert (said.finish_reason, call.function.name) == ("tool_calls", "calculator")
    result = worked_out(json.loads(call.function.arguments)["expression"])
    assert result == "42"
    done = client.chat.completions.create(messages=[
        *SUM, said.message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}),
        {"role": "tool", "tool_call_id": call.id, "content": result}], **asked)
    assert "42" in done.choices[0].message.content


def test_a_form_is_parsed(client: Any) -> None:
    done = client.chat.completions.parse(messages=HELLO, response_format=Pet, max_tokens=120,
                                         **PLAIN)
    assert isinstance(done.choices[0].message.parsed, Pet)
    answered = client.responses.parse(model="tiny-chat", input="Who?", text_format=Pet,
                                      temperature=0, max_output_tokens=120)
    assert isinstance(answered.output_parsed, Pet)


def test_completions_are_those_of_the_library(client: Any) -> None:
    with Model("tiny", devices=["cpu"], n_threads=1) as tiny:
        own = tiny.generate("Once upon a time", temperature=0.0, max_tokens=20)
    done = client.completions.create(model="tiny", prompt="Once upon a time", temperature=0,
                                     max_tokens=20)
    assert done.choices[0].text == own.text


def test_embeddings_are_those_of_the_library(client: Any, encoder: Path) -> None:
    texts = ["a small cat", "a large dog"]
    with Model(str(encoder), devices=["cpu"]) as own:
        expected = np.array([own.embed(text) for text in texts])
    # The client itself asks for base64, which its own strict validation refuses.
    strict = client._strict_response_validation
    for more in ([] if strict else [{}]) + [{"encoding_format": "float"}]:
        done = client.embeddings.create(model="encoder", input=texts, **more)
        found = np.array([each.embedding for each in done.data])
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert done.usage.prompt_tokens > 0


def test_responses_go_on_from_one_another(client: Any, model: Model) -> None:
    own = model.chat(HELLO, temperature=0.0, max_tokens=60)
    text = HELLO[0]["content"]
    first = client.responses.create(model="tiny-chat", input=text, temperature=0)
    assert (first.output_text, first.status) == (own.text, "completed")
    assert first.usage.input_tokens == own.usage.n_prompt
    again = client.responses.create(model="tiny-chat", input="And who made you?", temperature=0,
                                    previous_response_id=first.id)
    whole = model.chat([*HELLO, {"role": "assistant", "content": own.text},
                        {"role": "user", "content": "And who made you?"}], temperature=0.0)
    assert again.output_text == whole.text
    assert again.usage.input_tokens == whole.usage.n_prompt
    assert client.responses.retrieve(first.id).output_text == own.text
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)


def test_a_response_streams_and_calls(client: Any, model: Model) -> None:
    with client.responses.stream(model="tiny-chat", input=HELLO, temperature=0) as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(pieces) == final.output_text == model.chat(HELLO, temperature=0.0).text
    asked: dict[str, Any] = {"model": "tiny-chat", "tools": [TOOL], "temperature": 0,
                             "store": False}
    said = client.responses.create(input=SUM, **asked)
    call = said.output[-1]
    assert (call.type, call.name) == ("function_call", "calculator")
    done = client.responses.create(input=[
        *SUM, *(item.model_dump(exclude_none=True) for item in said.output),
        {"type": "function_call_output", "call_id": call.call_id,
         "output": worked_out(json.loads(call.arguments)["expression"])}], **asked)
    assert "42" in done.output_text


def test_models_tell_their_window(client: Any, model: Model) -> None:
    names = [each.id for each in client.models.list()]
    assert names == ["tiny-chat", "tiny", "encoder"]
    found = client.models.retrieve("tiny-chat")
    assert found.context_length == found.max_model_len == model.context_size


def test_what_is_wrong_has_its_own_class_and_code(client: Any) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="no-such", messages=HELLO)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="tiny-chat", messages=HELLO, temperature=-1)
    assert wrong.value.param == "temperature"
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as long:
            client.chat.completions.create(model="tiny-chat", stream=stream, messages=[
                {"role": "user", "content": "word " * 3000}])
        assert long.value.code == "context_length_exceeded"
        assert long.value.body["n_prompt_tokens"] > long.value.body["n_ctx"] > 0
