"""The ``anthropic`` package, unchanged, against a server that runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("anthropic", reason="needs the anthropic package")

import anthropic

from clients.asking import EXPRESSION, HELLO, SUM, worked_out
from clients.serving import Served
from unladen import Model

PLAIN: dict[str, Any] = {"model": "tiny-chat", "max_tokens": 80, "extra_body": {"temperature": 0}}
TOOL = {"name": "calculator", "description": "Works out an expression.",
        "input_schema": EXPRESSION}


@pytest.fixture(params=[False, True], ids=["lenient", "strict"])
def client(served: Served, request: pytest.FixtureRequest) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=served.address, api_key="none", max_retries=0,
                             timeout=120, _strict_response_validation=request.param) as made:
        yield made


def _n_read(usage: Any) -> int:
    """Tokens of the prompt, cached or not."""
    return int(usage.input_tokens + usage.cache_read_input_tokens
               + usage.cache_creation_input_tokens)


def test_an_answer_is_that_of_the_library(client: Any, model: Model) -> None:
    own = model.chat(HELLO, temperature=0.0, max_tokens=80)
    done = client.messages.create(messages=HELLO, **PLAIN)
    assert (done.content[0].text, done.stop_reason) == (own.text, "end_turn")
    assert (_n_read(done.usage), done.usage.output_tokens) == (own.usage.n_prompt,
                                                               own.usage.n_completion)
    cut = client.messages.create(messages=HELLO, **{**PLAIN, "max_tokens": 2})
    assert cut.stop_reason == "max_tokens"
    stopped = client.messages.create(messages=HELLO, stop_sequences=["Tiny"], **PLAIN)
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "Tiny")
    assert stopped.content[0].text == own.text.partition("Tiny")[0]


def test_a_stream_is_the_same_answer(client: Any, model: Model) -> None:
    own = model.chat(HELLO, temperature=0.0, max_tokens=80)
    with client.messages.stream(messages=HELLO, **PLAIN) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == own.text == final.content[0].text
    assert final.stop_reason == "end_turn"
    assert (_n_read(final.usage), final.usage.output_tokens) == (own.usage.n_prompt,
                                                                 own.usage.n_completion)


@pytest.mark.parametrize("streams", [False, True])
def test_a_tool_is_called_and_its_result_answered(client: Any, streams: bool) -> None:
    if streams:
        with client.messages.stream(messages=SUM, tools=[TOOL], **PLAIN) as stream:
            said = stream.get_final_message()
    else:
        said = client.messages.create(messages=SUM, tools=[TOOL], **PLAIN)
    call = said.content[-1]
    assert (said.stop_reason, call.type, call.name) == ("tool_use", "tool_use", "calculator")
    result = worked_out(call.input["expression"])
    assert result == "42"
    done = client.messages.create(tools=[TOOL], messages=[
        *SUM, {"role": "assistant", "content": [
            block.model_dump(exclude_none=True) for block in said.content]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call.id, "content": result}]}], **PLAIN)
    assert "42" in done.content[0].text


def test_tokens_counted_are_tokens_used(client: Any) -> None:
    for more in ({}, {"tools": [TOOL]}, {"system": "You are brief."},
                 {"system": [{"type": "text", "text": "Be kind."}], "tools": [TOOL]}):
        counted = client.messages.count_tokens(model="tiny-chat", messages=SUM, **more)
        for _ in range(2):  # the second time, most of it comes from the cache
            used = client.messages.create(messages=SUM, **PLAIN, **more).usage
            assert _n_read(used) == counted.input_tokens > 0


def test_what_is_wrong_has_its_own_class(client: Any) -> None:
    with pytest.raises(anthropic.NotFoundError, match="no-such"):
        client.messages.create(messages=HELLO, **{**PLAIN, "model": "no-such"})
    long = [{"role": "user", "content": "word " * 3000}]
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > \d+"):
        client.messages.create(messages=long, **PLAIN)
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"), \
            client.messages.stream(messages=long, **PLAIN) as stream:
        stream.get_final_message()
