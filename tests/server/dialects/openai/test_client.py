"""The ``openai`` package against the dialect, with answers that the tests write."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from server.live import live
from server.scripted import CARD, ScriptedCore, Step, answer, ended
from unladen.server.app import make_app
from unladen.server.asked import Chat, Text
from unladen.server.events import (
    Begun,
    CallArguments,
    CallBegun,
    Piece,
    Probabilities,
    Reasoning,
    Waiting,
)
from unladen.server.faults import Fault
from unladen.server.settings import Settings

USER = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {
    "name": "weather", "parameters": {"type": "object", "properties": {"city": {
        "type": "string"}}, "required": ["city"]}}}
CALL: list[Step] = [
    Begun(11), Reasoning(0, "It asks. "), CallBegun(0, 0, "call_1", "weather"),
    CallArguments(0, 0, '{"city": '), CallArguments(0, 0, '"Rome"}'), ended("tool_calls")]


def _client(address: str, is_strict: bool) -> Any:
    return openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0,
                         _strict_response_validation=is_strict)


@pytest.fixture(params=[False, True], ids=["lenient", "strict"])
def client(address: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    with _client(address, request.param) as made:
        yield made


@pytest.fixture
def lenient(address: str) -> Iterator[Any]:
    """A client for answers that its own strict validation refuses also from OpenAI: null for the
    log-probability of a first token, and base64."""
    with _client(address, False) as made:
        yield made


def test_a_whole_answer(client: Any, core: ScriptedCore) -> None:
    core.script = answer("Good ", "day.")
    done = client.chat.completions.create(
        model="tiny-chat", messages=USER, max_completion_tokens=9, temperature=0.5, seed=-3,
        stop="x", logit_bias={"7": -5})
    choice = done.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("Good day.", "stop")
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (11, 5)
    assert done.usage.prompt_tokens_details.cached_tokens == 3
    name, asked, _ = core.asked[-1]
    assert isinstance(asked, Chat) and name == "tiny-chat"
    assert asked.parameters == {"temperature": 0.5, "max_tokens": 9, "seed": 2**64 - 3,
                                "stop": ["x"], "logit_bias": {"7": -5.0}}


@pytest.mark.parametrize("continues", [True, False])
def test_an_answer_goes_on(client: Any, core: ScriptedCore, continues: bool) -> None:
    core.script = answer("day.")
    messages = [*USER, {"role": "assistant", "content": "Good "}]
    client.chat.completions.create(model="tiny-chat", messages=messages,
                                   extra_body={"continue_final_message": continues})
    _, asked, _ = core.asked[-1]
    assert isinstance(asked, Chat)
    assert asked.parameters.get("continues", False) is continues
    assert asked.messages == messages


def test_a_stream(client: Any, core: ScriptedCore) -> None:
    core.script = [Waiting("loading", 0.5), *answer("Good ", "day.")]
    chunks = [*client.chat.completions.create(model="small", messages=USER, stream=True,
                                              stream_options={"include_usage": True})]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Good day."
    assert [c.choices[0].finish_reason for c in chunks if c.choices] == [None] * 3 + ["stop"]
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == 16
    assert all(c.usage is None for c in chunks[:-1])


def test_tool_calls(client: Any, core: ScriptedCore) -> None:
    core.script = CALL
    done = client.chat.completions.create(model="tiny-chat", messages=USER, tools=[TOOL])
    message = done.choices[0].message
    call = message.tool_calls[0]
    assert (call.id, call.function.name, call.function.arguments) == (
        "call_1", "weather", '{"city": "Rome"}')
    assert done.choices[0].finish_reason == "tool_calls" and message.content is None
    assert message.reasoning_content == "It asks. "
    with client.chat.completions.stream(model="tiny-chat", messages=USER, tools=[TOOL]) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.tool_calls[0].function.arguments == '{"city": "Rome"}'


def test_unknown_tools_are_skipped(client: Any, core: ScriptedCore) -> None:
    core.script = answer("Yes.")
    client.chat.completions.create(model="tiny-chat", messages=USER, tools=[
        {"type": "web_search"}, {"type": "custom", "custom": {"name": "x"}}, TOOL])
    asked = core.asked[-1][1]
    assert isinstance(asked, Chat)
    assert [tool["function"]["name"] for tool in asked.tools] == ["weather"]


def test_several_answers_count_their_prompt_once(client: Any, core: ScriptedCore) -> None:
    core.script = [Begun(11), Piece(1, "b"), Piece(0, "a"), ended(choice=1), ended(choice=0)]
    done = client.chat.completions.create(model="tiny-chat", messages=USER, n=2)
    assert [c.message.content for c in done.choices] == ["a", "b"]
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (11, 10)


def test_logprobs(client: Any, core: ScriptedCore) -> None:
    tokens: list[Any] = [(5, "\xc3", -0.5, [(5, "\xc3", -0.5), (6, "a", -1.5)]),
                         (7, "\xa9", -0.1, [])]
    core.script = [Begun(11), Probabilities(0, tokens), Piece(0, "\u00e9"), ended()]
    done = client.chat.completions.create(model="tiny-chat", messages=USER, logprobs=True,
                                          top_logprobs=2)
    content = done.choices[0].logprobs.content
    assert [token.bytes for token in content] == [[0xC3], [0xA9]]
    assert content[0].top_logprobs[1].token == "a"
    chunks = [*client.chat.completions.create(model="tiny-chat", messages=USER, logprobs=True,
                                              stream=True)]
    assert [len(c.choices[0].logprobs.content) for c in chunks if c.choices[0].logprobs] == [2]


def test_completions(lenient: Any, core: ScriptedCore) -> None:
    def script(asked: Chat | Text) -> list[Step]:
        assert isinstance(asked, Text)
        return [Begun(2), Probabilities(0, [(1, "On", None, []), (2, "ce", -1.0, [])]),
                Piece(0, "Once"), Probabilities(0, [(3, " up", -2.0, [(4, " a", -3.0)])]),
                Piece(0, f" up {asked.prompt}"), ended("length")]
    core.script = script
    done = lenient.completions.create(model="tiny-chat", prompt=["Once", "Twice"], echo=True,
                                     logprobs=1, max_tokens=4)
    assert [c.text for c in done.choices] == ["Once up Once", "Once up Twice"]
    first = done.choices[0].logprobs
    assert first.tokens == ["On", "ce", " up"] and first.text_offset == [0, 2, 4]
    assert first.token_logprobs == [None, -1.0, -2.0] and first.top_logprobs[2] == {" a": -3.0}
    assert done.usage.prompt_tokens == 22
    core.script = answer("a", "b")
    text = "".join(c.choices[0].text for c in lenient.completions.create(
        model="tiny-chat", prompt=[1, 2, 3], stream=True))
    assert text == "ab"
    assert core.asked[-1][1] == Text(prompt=[1, 2, 3], parameters={"max_tokens": 16})


def test_embeddings(client: Any, lenient: Any) -> None:
    plain = client.embeddings.create(model="tiny-chat", input=["a", "bc"], encoding_format="float")
    packed = lenient.embeddings.create(model="tiny-chat", input=["a", "bc"])
    assert [len(each.embedding) for each in plain.data] == [CARD.n_embd] * 2
    assert all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(
        plain.data[1].embedding, packed.data[1].embedding, strict=True))
    short = client.embeddings.create(model="tiny-chat", input="a", dimensions=4,
                                     encoding_format="float")
    assert len(short.data[0].embedding) == 4


def test_models(client: Any) -> None:
    listed = client.models.list().data
    assert [each.id for each in listed] == ["tiny-chat"]
    one = client.models.retrieve("tiny-chat")
    assert one.context_length == one.max_model_len == one.meta["n_ctx"] == 1024
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("../../etc/passwd")


@pytest.mark.parametrize(("fault", "kind", "code"), [
    (Fault("overflow", "the prompt has 9 tokens", n_tokens=9, limit=8), "BadRequestError",
     "context_length_exceeded"),
    (Fault("unknown_model", "no"), "NotFoundError", "model_not_found"),
    (Fault("no_key", "no"), "AuthenticationError", "invalid_api_key"),
    (Fault("full", "no", retry_after=3), "RateLimitError", "rate_limit_exceeded"),
    (Fault("worker_lost", "no"), "InternalServerError", "worker_lost")])
def test_faults(client: Any, core: ScriptedCore, fault: Fault, kind: str, code: str) -> None:
    for script in ([fault], [Begun(1), fault]):
        core.script = script
        with pytest.raises(getattr(openai, kind)) as error:
            client.chat.completions.create(model="tiny-chat", messages=USER)
        assert error.value.code == code
    with pytest.raises(openai.APIError, match=r"no|the prompt"):
        [*client.chat.completions.create(model="tiny-chat", messages=USER, stream=True)]


@pytest.mark.parametrize("more", [
    {"messages": []}, {"messages": "Hi"}, {"messages": [1]}, {"temperature": -1},
    {"top_p": -0.5}, {"n": 0}, {"n": 1000}, {"tools": "x"}, {"tools": [{"function": {}}]},
    {"tool_choice": 7}, {"tool_choice": {"type": "x"}}, {"response_format": []},
    {"response_format": {"type": "x"}}, {"logprobs": True, "top_logprobs": 10**6},
    {"top_logprobs": 3}, {"logit_bias": {"a": 1}}, {"max_tokens": "many"}, {"seed": 1.5},
    {"stream": "yes"}, {"modalities": ["audio"]}, {"reasoning_effort": "x"},
    {"response_format": {"type": "json_object"}, "grammar": "root ::= \"a\""}])
def test_wrong_fields_are_refused(address: str, more: dict[str, Any]) -> None:
    done = httpx.post(f"{address}/v1/chat/completions", json={"messages": USER, **more})
    assert done.status_code == 400
    error = done.json()["error"]
    assert error["type"] == "invalid_request_error" and error["message"]
    assert error["param"], error


def test_the_heartbeat_and_an_error_in_a_stream(address: str, core: ScriptedCore) -> None:
    core.script = [Begun(11), 1.0, Piece(0, "a"), Fault("worker_lost", "it died")]
    done = httpx.post(f"{address}/v1/chat/completions", json={"messages": USER, "stream": True},
                      timeout=60)
    assert done.headers["content-type"].startswith("text/event-stream")
    assert ": ping\n\n" in done.text and "[DONE]" not in done.text
    assert '"code":"worker_lost"' in done.text.rstrip().splitlines()[-1]


@pytest.mark.parametrize("streams", [True, False])
def test_leaving_cancels(address: str, core: ScriptedCore, streams: bool) -> None:
    core.script = [Begun(11), Piece(0, "a"), 600.0, Piece(0, "b"), ended()]
    before = core.n_cancelled

    def ask() -> None:
        with pytest.raises(httpx.TimeoutException):
            httpx.post(f"{address}/v1/chat/completions", timeout=httpx.Timeout(
                60, read=0.1 if streams else 0.5), json={"messages": USER, "stream": streams})

    if streams:  # heartbeats come all the time, so the client has to close by itself
        with httpx.stream("POST", f"{address}/v1/chat/completions", timeout=60,
                          json={"messages": USER, "stream": True}) as done:
            next(done.iter_text())
    else:
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(60)
    end = time.monotonic() + 60
    while core.n_cancelled == before:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_choice_may_allow_some_of_the_tools(address: str, core: ScriptedCore) -> None:
    core.script = answer("Fine.")
    other = {"type": "function", "function": {"name": "clock"}}
    named = {"type": "function", "function": {"name": "clock"}}
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
        named, {"type": "web_search"}]}}
    body = {"messages": USER, "tools": [TOOL, other], "tool_choice": choice}
    assert httpx.post(f"{address}/v1/chat/completions", json=body).status_code == 200
    asked = core.asked[-1][1]
    assert isinstance(asked, Chat)
    assert [tool["function"]["name"] for tool in asked.tools] == ["clock"]
    assert asked.tool_choice == "required"
    flat = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function",
                                                                "name": "weather"}]}
    tools = [{"type": "function", "name": "weather"}, {"type": "function", "name": "clock"}]
    body = {"input": "Hi", "tools": tools, "tool_choice": flat}
    assert httpx.post(f"{address}/v1/responses", json=body).status_code == 200
    asked = core.asked[-1][1]
    assert isinstance(asked, Chat)
    assert [tool["function"]["name"] for tool in asked.tools] == ["weather"]
    assert asked.tool_choice == "auto"
    for tools, part in (([{"type": "function", "name": "nobody"}], "nobody"), (None, "list"),
                        ("x", "list")):
        body = {"messages": USER, "tools": [TOOL], "tool_choice": {
            "type": "allowed_tools", "mode": "auto", "tools": tools}}
        reply = httpx.post(f"{address}/v1/chat/completions", json=body)
        error = reply.json()["error"]
        assert reply.status_code == 400 and part in error["message"]
        assert error["param"] == "tool_choice.tools"


@pytest.mark.parametrize("name", ["functions", "function_call"])
def test_functions_of_old_clients_are_refused(address: str, name: str) -> None:
    value: Any = [TOOL["function"]] if name == "functions" else "auto"
    reply = httpx.post(f"{address}/v1/chat/completions", json={"messages": USER, name: value})
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["param"] == name and "tools" in error["message"]


def test_the_settings_alone_bound_answers_and_texts() -> None:
    core = ScriptedCore(lambda asked: [
        Begun(11), *(step for i in range(asked.n) for step in (Piece(i, "a"), ended(choice=i)))])
    with live(make_app(core, Settings(max_answers=40, max_inputs=300))) as address:
        chat = f"{address}/v1/chat/completions"
        reply = httpx.post(chat, json={"messages": USER, "n": 40})
        assert len(reply.json()["choices"]) == 40
        reply = httpx.post(chat, json={"messages": USER, "n": 41})
        assert reply.status_code == 400 and reply.json()["error"]["param"] == "n"
        texts = f"{address}/v1/embeddings"
        assert len(httpx.post(texts, json={"input": ["a"] * 300}).json()["data"]) == 300
        assert httpx.post(texts, json={"input": ["a"] * 301}).status_code == 400
