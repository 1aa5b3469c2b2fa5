"""The ``anthropic`` package against the dialect, with answers that the tests write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import pytest

from server.scripted import ScriptedCore, Step, answer, ended
from unladen.server.asked import Chat, Count
from unladen.server.events import Begun, CallArguments, CallBegun, Piece, Reasoning, Waiting
from unladen.server.faults import Fault

USER = [{"role": "user", "content": "Hi"}]
TOOL = {"name": "weather", "input_schema": {"type": "object", "properties": {
    "city": {"type": "string"}}}}
CALLS: list[Step] = [
    Begun(11), Reasoning(0, "It "), Reasoning(0, "asks."), Piece(0, "I look. "),
    CallBegun(0, 0, "call_1", "weather"), CallArguments(0, 0, '{"city": '),
    CallArguments(0, 0, '"Rome"}'), CallBegun(0, 1, "call_2", "weather"),
    CallArguments(0, 1, "{}"), ended("tool_calls")]


@pytest.fixture(params=[False, True], ids=["lenient", "strict"])
def client(address: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0,
                             _strict_response_validation=request.param) as made:
        yield made


def _asked(core: ScriptedCore) -> Chat:
    asked = core.asked[-1][1]
    assert isinstance(asked, Chat)
    return asked


def test_a_whole_answer(client: Any, core: ScriptedCore) -> None:
    core.script = answer("Good ", "day.")
    done = client.messages.create(model="tiny-chat", max_tokens=9, messages=USER, system="Be kind.",
                                  stop_sequences=["x"], extra_body={"temperature": 0.5})
    assert (done.content[0].text, done.stop_reason, done.stop_sequence) == (
        "Good day.", "end_turn", None)
    assert (done.usage.input_tokens, done.usage.cache_read_input_tokens,
            done.usage.output_tokens) == (8, 3, 5)
    assert done._request_id.startswith("req_")
    asked = _asked(core)
    assert asked.messages == [{"role": "system", "content": "Be kind."}, *USER]
    assert asked.parameters == {"reasoning": False, "max_tokens": 9, "temperature": 0.5,
                                "stop": ["x"]}


@pytest.mark.parametrize(("end", "reason", "stop"), [
    (ended("stop", stop="END"), "stop_sequence", "END"), (ended("length"), "max_tokens", None),
    (ended("context"), "model_context_window_exceeded", None)])
def test_why_it_ended(client: Any, core: ScriptedCore, end: Step, reason: str, stop: str | None
                      ) -> None:
    core.script = [Begun(11), Piece(0, "a"), end]
    done = client.messages.create(model="tiny-chat", max_tokens=9, messages=USER)
    assert (done.stop_reason, done.stop_sequence) == (reason, stop)


def test_a_stream_with_calls(client: Any, core: ScriptedCore) -> None:
    core.script = [Waiting("loading", 0.5), *CALLS]
    whole = client.messages.create(model="tiny-chat", max_tokens=9, messages=USER, tools=[TOOL])
    with client.messages.stream(model="tiny-chat", max_tokens=9, messages=USER, tools=[TOOL],
                                thinking={"type": "enabled", "budget_tokens": 1024}) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    assert [block.type for block in final.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert final.content[2].input == {"city": "Rome"} == whole.content[2].input
    assert final.content[3].input == {} and final.stop_reason == "tool_use" == whole.stop_reason
    assert final.usage.output_tokens == 5 and final.usage.input_tokens == 8
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    assert kinds.count("content_block_stop") == kinds.count("content_block_start") == 4
    assert _asked(core).parameters["reasoning_tokens"] == 1024


def test_a_history_with_results(client: Any, core: ScriptedCore) -> None:
    core.script = answer("Fine.")
    client.messages.create(model="tiny-chat", max_tokens=9, tools=[
        TOOL, {"type": "web_search_20250305", "name": "web_search"}], messages=[
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "x"},
            {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Rome"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1",
             "content": [{"type": "text", "text": "sunny"}]},
            {"type": "text", "text": "So?"}]}], tool_choice={"type": "any"})
    asked = _asked(core)
    assert [m["role"] for m in asked.messages] == ["user", "assistant", "tool", "user"]
    assert asked.messages[1]["reasoning_content"] == "Hm."
    assert json.loads(asked.messages[1]["tool_calls"][0]["function"]["arguments"]) == {
        "city": "Rome"}
    assert asked.messages[2] == {"role": "tool", "tool_call_id": "c1", "content": "sunny",
                                 "name": "weather"}
    assert asked.tool_choice == "required" and len(asked.tools) == 1


def test_what_agents_change_in_every_request_is_masked(client: Any, core: ScriptedCore) -> None:
    said = []
    for number in ("0a1b2", "ffe31"):
        core.script = answer("Yes.")
        client.messages.create(model="tiny-chat", max_tokens=9, messages=USER, system=[
            {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2; cch={number};"},
            {"type": "text", "text": "The code is cch=12.",
             "cache_control": {"type": "ephemeral"}}])
        said.append(_asked(core).messages[0]["content"])
    assert said[0] == said[1] and said[0].endswith("\n\nThe code is cch=12.")


def test_a_prefilled_answer_goes_on(client: Any, core: ScriptedCore) -> None:
    core.script = answer("day.")
    client.messages.create(model="tiny-chat", max_tokens=9, messages=[
        *USER, {"role": "assistant", "content": "Good "}])
    assert _asked(core).parameters["continues"] is True


def test_tokens_are_counted(client: Any, core: ScriptedCore) -> None:
    found = client.messages.count_tokens(model="tiny-chat", messages=USER, tools=[TOOL])
    assert found.input_tokens == len("<user>Hi")
    assert isinstance(core.asked[-1][1], Count)


def test_unknown_parameters_of_beta_calls(address: str, core: ScriptedCore) -> None:
    core.script = answer("Yes.")
    done = httpx.post(f"{address}/v1/messages?beta=true", json={
        "model": "tiny-chat", "max_tokens": 9, "messages": USER, "context_management": {},
        "metadata": {"user_id": "x"}}, headers={"anthropic-version": "2031-01-01"})
    assert done.status_code == 200


@pytest.mark.parametrize(("fault", "kind", "text"), [
    (Fault("overflow", "x", n_tokens=9, limit=8), "BadRequestError",
     "prompt is too long: 9 tokens > 8 maximum"),
    (Fault("unknown_model", "no such"), "NotFoundError", "no such"),
    (Fault("no_key", "no key"), "AuthenticationError", "no key"),
    (Fault("full", "full"), "RateLimitError", "full"),
    (Fault("worker_lost", "it died"), "InternalServerError", "it died")])
def test_faults(client: Any, core: ScriptedCore, fault: Fault, kind: str, text: str) -> None:
    for script in ([fault], [Begun(1), fault]):
        core.script = script
        with pytest.raises(getattr(anthropic, kind), match=text):
            client.messages.create(model="tiny-chat", max_tokens=9, messages=USER)
    with pytest.raises(anthropic.APIError, match=text), client.messages.stream(
            model="tiny-chat", max_tokens=9, messages=USER) as stream:
        stream.get_final_message()


@pytest.mark.parametrize("more", [
    {"max_tokens": None}, {"max_tokens": 0}, {"messages": []}, {"model": ""}, {"model": None},
    {"messages": [{"role": "x", "content": ""}]}, {"messages": [{"role": "user"}]},
    {"messages": [{"role": "user", "content": [{"type": "x"}]}]},
    {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
    {"tools": [{}]}, {"tool_choice": {"type": "tool"}}, {"tool_choice": "auto"},
    {"system": [{"type": "image"}]}, {"mcp_servers": [{"url": "x"}]}, {"temperature": -1}])
def test_wrong_fields_are_refused(address: str, more: dict[str, Any]) -> None:
    body = {"model": "tiny-chat", "max_tokens": 9, "messages": USER, **more}
    done = httpx.post(f"{address}/v1/messages", json=body)
    assert done.status_code == 400
    assert done.json()["type"] == "error"
    assert done.json()["error"]["type"] == "invalid_request_error"


def test_pings_while_nothing_comes(address: str, core: ScriptedCore) -> None:
    core.script = [Begun(11), 1.0, Piece(0, "a"), Fault("worker_lost", "it died")]
    done = httpx.post(f"{address}/v1/messages", timeout=60, json={
        "model": "tiny-chat", "max_tokens": 9, "messages": USER, "stream": True})
    assert done.text.count("event: ping") >= 2
    assert "event: error" in done.text and "message_stop" not in done.text
