"""``/v1/responses`` through the ``openai`` package, with answers that the tests write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from pydantic import BaseModel

from server.scripted import ScriptedCore, Step, answer, ended
from unladen.server.asked import Chat
from unladen.server.dialects.openai.responses.asked import sealed, unsealed
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

TOOL = {"type": "function", "name": "weather", "strict": False, "description": "", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}
CALLS: list[Step] = [
    Begun(11), Reasoning(0, "It "), Reasoning(0, "asks."), Piece(0, "I look."),
    CallBegun(0, 0, "call_1", "weather"), CallArguments(0, 0, '{"city": '),
    CallArguments(0, 0, '"Rome"}'), ended("tool_calls")]


@pytest.fixture(params=[False, True], ids=["lenient", "strict"])
def client(address: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0,
                       _strict_response_validation=request.param) as made:
        yield made


def _asked(core: ScriptedCore) -> Chat:
    asked = core.asked[-1][1]
    assert isinstance(asked, Chat)
    return asked


def test_a_whole_response(client: Any, core: ScriptedCore) -> None:
    core.script = answer("Good ", "day.")
    done = client.responses.create(model="tiny-chat", input="Hi", instructions="Be kind.",
                                   max_output_tokens=9, reasoning={"effort": "low"})
    assert (done.output_text, done.status, done.incomplete_details) == (
        "Good day.", "completed", None)
    usage = done.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (11, 5, 16)
    assert usage.input_tokens_details.cached_tokens == 3
    asked = _asked(core)
    assert asked.messages == [{"role": "developer", "content": "Be kind."},
                              {"role": "user", "content": "Hi"}]
    assert asked.parameters == {"max_tokens": 9, "reasoning": "low"}


def test_a_response_that_is_cut(client: Any, core: ScriptedCore) -> None:
    core.script = [Begun(11), Piece(0, "Good"), ended("length")]
    done = client.responses.create(model="tiny-chat", input="Hi", max_output_tokens=1)
    assert done.status == "incomplete" and done.output[0].status == "incomplete"
    assert done.incomplete_details.reason == "max_output_tokens"


def test_a_stream(client: Any, core: ScriptedCore) -> None:
    core.script = [Waiting("loading", 0.5), *CALLS]
    events = [*client.responses.create(model="tiny-chat", input="Hi", tools=[TOOL], stream=True,
                                       include=["reasoning.encrypted_content"], store=False)]
    assert [event.sequence_number for event in events] == [*range(len(events))]
    kinds = [event.type.removeprefix("response.") for event in events]
    assert kinds[:2] == ["created", "in_progress"] and kinds[-1] == "completed"
    item = ["output_item.added", "content_part.added"]
    assert kinds[2:] == [
        *item, *["reasoning_text.delta"] * 2, "reasoning_text.done", "content_part.done",
        "output_item.done", *item, "output_text.delta", "output_text.done", "content_part.done",
        "output_item.done", "output_item.added", *["function_call_arguments.delta"] * 2,
        "function_call_arguments.done", "output_item.done", "completed"]
    output = events[-1].response.output
    assert [each.type for each in output] == ["reasoning", "message", "function_call"]
    assert unsealed(output[0].encrypted_content) == "It asks."
    assert (output[2].call_id, json.loads(output[2].arguments)) == ("call_1", {"city": "Rome"})
    with client.responses.stream(model="tiny-chat", input="Hi", tools=[TOOL]) as stream:
        assert stream.get_final_response().output_text == "I look."


def test_a_parsed_response(client: Any, core: ScriptedCore) -> None:
    class Sum(BaseModel):
        total: int
    core.script = answer('{"total"', ": 7}")
    done = client.responses.parse(model="tiny-chat", input="3 + 4", text_format=Sum)
    assert done.output_parsed == Sum(total=7)
    form = _asked(core).parameters["response_format"]
    assert form["type"] == "json_schema" and "total" in form["schema"]["properties"]


def test_a_conversation_that_the_server_keeps(client: Any, core: ScriptedCore) -> None:
    core.script = answer("Ada.")
    first = client.responses.create(model="tiny-chat", input="Who?", instructions="Be short.")
    second = client.responses.create(model="tiny-chat", input="Again?", instructions="Be long.",
                                     previous_response_id=first.id)
    assert [(m["role"], m["content"]) for m in _asked(core).messages] == [
        ("developer", "Be long."), ("user", "Who?"), ("assistant", "Ada."), ("user", "Again?")]
    assert client.responses.retrieve(second.id).output_text == "Ada."
    assert client.responses.input_items.list(first.id).data[0].content[0].text == "Who?"
    client.responses.delete(first.id)
    for ask in (lambda: client.responses.retrieve(first.id),
                lambda: client.responses.create(model="tiny-chat", input="?",
                                                previous_response_id=first.id)):
        with pytest.raises(openai.NotFoundError):
            ask()
    unkept = client.responses.create(model="tiny-chat", input="Who?", store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(unkept.id)


def test_what_codex_sends(address: str, core: ScriptedCore) -> None:
    core.script = answer("Done.")
    done = httpx.post(f"{address}/v1/responses", json={
        "model": "tiny-chat", "instructions": "You code.", "store": False, "stream": True,
        "prompt_cache_key": "x", "include": ["reasoning.encrypted_content"],
        "tool_choice": "auto", "parallel_tool_calls": False, "tools": [
            TOOL, {"type": "web_search"}, {"type": "custom", "name": "patch"},
            {"type": "namespace", "name": "n", "tools": []}, {"type": "image_generation"}],
        "input": [
            {"type": "message", "role": "developer", "content": [
                {"type": "input_text", "text": "Rules."}]},
            {"role": "user", "content": "Do it."},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": sealed("Hm.")},
            {"type": "message", "role": "assistant", "content": [
                {"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "x"},
            {"type": "function_call_output", "call_id": "c1", "output": [
                {"type": "input_text", "text": "sunny"}]},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"},
            {"type": "web_search_call", "status": "completed"}]})
    assert done.status_code == 200 and "event: response.completed" in done.text
    asked = _asked(core)
    assert [m["role"] for m in asked.messages] == [
        "developer", "developer", "user", "assistant", "tool", "tool"]
    said = asked.messages[3]
    assert (said["content"], said["reasoning_content"]) == ("I look.", "Hm.")
    assert [call["id"] for call in said["tool_calls"]] == ["c1", "c2"]
    assert asked.messages[4] == {"role": "tool", "tool_call_id": "c1", "content": "sunny",
                                 "name": "weather"}
    assert len(asked.tools) == 1 and not asked.parallel_calls


def test_an_empty_input_is_answered(address: str, core: ScriptedCore) -> None:
    core.script = [Begun(1), ended("length")]
    done = httpx.post(f"{address}/v1/responses", json={
        "model": "tiny-chat", "input": [], "max_output_tokens": 1})
    assert done.status_code == 200 and done.json()["status"] == "incomplete"


def test_logprobs(client: Any, core: ScriptedCore) -> None:
    core.script = [Begun(1), Probabilities(0, [(5, "a", -0.5, [(6, "b", -1.5)])]), Piece(0, "a"),
                   ended()]
    done = client.responses.create(model="tiny-chat", input="Hi", top_logprobs=1,
                                   include=["message.output_text.logprobs"])
    found = done.output[0].content[0].logprobs[0]
    assert (found.token, found.logprob, found.top_logprobs[0].token) == ("a", -0.5, "b")


def test_the_heartbeat_is_a_real_event(address: str, core: ScriptedCore) -> None:
    core.script = [Begun(11), 1.0, Piece(0, "a"), Fault("worker_lost", "it died")]
    done = httpx.post(f"{address}/v1/responses", timeout=60, json={"input": "Hi", "stream": True})
    assert done.text.count("event: response.in_progress") >= 3
    last = json.loads(done.text.rstrip().splitlines()[-1].removeprefix("data: "))
    assert last["type"] == "response.failed"
    assert "it died" in last["response"]["error"]["message"]
    numbers = [json.loads(line.removeprefix("data: "))["sequence_number"]
               for line in done.text.splitlines() if line.startswith("data: ")]
    assert numbers == [*range(len(numbers))]


@pytest.mark.parametrize("more", [
    {"background": True}, {"input": [{"role": 7}]}, {"input": [{"type": "function_call"}]},
    {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
    {"text": {"format": {"type": "x"}}}, {"max_output_tokens": 0}, {"tool_choice": 7},
    {"reasoning": {"effort": "x"}}, {"tools": [{"type": "function"}]}, {"truncation": "x"},
    {"input": 7}, {"conversation": "conv_1"}])
def test_wrong_fields_are_refused(address: str, more: dict[str, Any]) -> None:
    done = httpx.post(f"{address}/v1/responses", json={"input": "Hi", **more})
    assert done.status_code == 400
    assert done.json()["error"]["param"]
