"""The ``ollama`` package against the dialect, with answers that the tests write."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import ollama
import pytest

from server.scripted import CARD, ScriptedCore, Step, answer, ended
from unladen.hub.modelfile import parse
from unladen.server.asked import Chat, Text
from unladen.server.dialects.ollama.shapes import at, seconds_of
from unladen.server.events import Begun, CallArguments, CallBegun, Piece, Reasoning, Waiting
from unladen.server.faults import Fault

USER = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "weather", "description": "", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
CALLS: list[Step] = [
    Begun(11), Reasoning(0, "It asks."), CallBegun(0, 0, "call_1", "weather"),
    CallArguments(0, 0, '{"city": '), CallArguments(0, 0, '"Rome"}'),
    CallBegun(0, 1, "call_2", "weather"), CallArguments(0, 1, "{}"), ended("tool_calls")]


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Any]:
    made = ollama.Client(host=address)
    with contextlib.closing(made._client):
        yield made


@pytest.mark.parametrize("name", ["tiny-chat", "tiny-chat:latest", "small"])
def test_a_whole_answer(client: Any, core: ScriptedCore, name: str) -> None:
    core.script = answer("Good ", "day.")
    done = client.chat(model=name, messages=USER, keep_alive="5m", format="json", options={
        "temperature": 0.5, "num_predict": 9, "stop": ["x"], "num_ctx": 512, "seed": 3})
    assert (done.message.content, done.done_reason, done.done) == ("Good day.", "stop", True)
    assert (done.prompt_eval_count, done.eval_count) == (11, 5)
    assert done.total_duration == 61_000_000 and done.eval_duration == 50_000_000
    known, asked, wish = core.asked[-1]
    assert isinstance(asked, Chat) and known == "tiny-chat"
    assert asked.parameters == {"temperature": 0.5, "seed": 3, "max_tokens": 9, "stop": ["x"],
                                "response_format": {"type": "json_object"}}
    assert wish.keep_alive == 300 and wish.options == {"context_size": 512}


def test_a_stream(client: Any, core: ScriptedCore) -> None:
    core.script = [Waiting("loading", 0.5), *answer("Good ", "day.")]
    lines = [*client.chat(model="tiny-chat", messages=USER, stream=True)]
    assert "".join(line.message.content for line in lines) == "Good day."
    assert [line.done for line in lines] == [False, False, True]
    assert lines[-1].eval_count == 5


def test_tool_calls_and_thinking(client: Any, core: ScriptedCore) -> None:
    for streams in (False, True):
        core.script = CALLS
        got = client.chat(model="tiny-chat", messages=USER, tools=[TOOL], think=True,
                          stream=streams)
        messages = [line.message for line in got] if streams else [got.message]
        calls = [call.function for m in messages for call in m.tool_calls or ()]
        assert [(call.name, call.arguments) for call in calls] == [
            ("weather", {"city": "Rome"}), ("weather", {})]
        assert "".join(m.thinking or "" for m in messages) == "It asks."
    asked = core.asked[-1][1]
    assert isinstance(asked, Chat) and asked.parameters == {"reasoning": True}


def test_a_history_with_results(client: Any, core: ScriptedCore) -> None:
    core.script = answer("Fine.")
    client.chat(model="tiny-chat", messages=[
        *USER, {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [
            {"function": {"name": "weather", "arguments": {"city": "Rome"}}}]},
        {"role": "tool", "tool_name": "weather", "content": "sunny"}])
    asked = core.asked[-1][1]
    assert isinstance(asked, Chat)
    assert asked.messages[1]["reasoning_content"] == "Hm."
    assert asked.messages[1]["tool_calls"][0]["function"]["arguments"] == {"city": "Rome"}
    assert asked.messages[2]["name"] == "weather"


def test_generate(client: Any, core: ScriptedCore) -> None:
    core.script = answer("Good ", "day.")
    first = client.generate(model="tiny-chat", prompt="Hi", system="Be kind.")
    assert first.response == "Good day." and first.context
    again = [*client.generate(model="tiny-chat", prompt="Again", context=first.context,
                              stream=True)]
    assert "".join(line.response for line in again) == "Good day." and again[-1].context
    asked = core.asked[-1][1]
    assert isinstance(asked, Chat)
    assert [m["content"] for m in asked.messages] == ["Be kind.", "Hi", "Good day.", "Again"]
    with pytest.raises(ollama.ResponseError, match="context"):
        client.generate(model="tiny-chat", prompt="Hi", context=[1, 2, 3])
    client.generate(model="tiny-chat", prompt="def f(", suffix="return x")
    assert core.asked[-1][1] == Text(prompt="def f(", suffix="return x")
    client.generate(model="tiny-chat", prompt="Once", raw=True)
    assert core.asked[-1][1] == Text(prompt="Once")


def test_an_empty_prompt_loads_and_unloads(client: Any, core: ScriptedCore) -> None:
    assert client.generate(model="tiny-chat", keep_alive=0).done_reason == "unload"
    assert client.ps().models == []
    assert client.generate(model="tiny-chat").done_reason == "load"
    listed = client.ps().models
    assert [each.name for each in listed] == ["tiny-chat:latest"]
    assert listed[0].context_length == CARD.context_size


def test_embeddings(client: Any) -> None:
    assert [len(row) for row in client.embed(model="tiny-chat", input=["a", "b"]).embeddings] == [
        CARD.n_embd] * 2
    assert len(client.embed(model="tiny-chat", input="a", dimensions=4).embeddings[0]) == 4
    assert len(client.embeddings(model="tiny-chat", prompt="a").embedding) == CARD.n_embd


def test_what_there_is(client: Any, address: str) -> None:
    listed = client.list().models
    assert [each.model for each in listed] == ["tiny-chat:latest"]
    assert listed[0].details.quantization_level == "Q8_0"
    shown = client.show("tiny-chat:latest")
    assert shown.modelinfo["llama.context_length"] == 1024
    assert set(shown.capabilities) >= {"completion", "tools", "thinking"}
    assert client.pull("tiny-chat").status == "success"
    assert [line.status for line in client.pull("tiny-chat", stream=True)][-1] == "success"
    assert httpx.head(f"{address}/").status_code == 200
    assert httpx.get(f"{address}/api/status").status_code == 200
    assert httpx.get(f"{address}/api/version").json()["version"].count(".") == 2


@pytest.mark.parametrize(("fault", "status"), [
    (Fault("overflow", "9 tokens > 8", n_tokens=9, limit=8), 400), (Fault("full", "full"), 503),
    (Fault("worker_lost", "it died"), 503)])
def test_faults(client: Any, core: ScriptedCore, fault: Fault, status: int) -> None:
    for script in ([fault], [Begun(1), fault]):
        core.script = script
        with pytest.raises(ollama.ResponseError) as error:
            client.chat(model="tiny-chat", messages=USER)
        assert error.value.status_code == status and fault.message in error.value.error
    with pytest.raises(ollama.ResponseError, match=fault.message):
        for _ in client.chat(model="tiny-chat", messages=USER, stream=True):
            pass


def test_unknown_models(client: Any) -> None:
    for ask in (lambda: client.chat(model="none", messages=USER), lambda: client.show("none"),
                lambda: client.pull("none"), lambda: client.embed(model="none", input="a")):
        with pytest.raises(ollama.ResponseError, match="none") as error:
            ask()
        assert error.value.status_code == 404


@pytest.mark.parametrize("more", [
    {"model": ""}, {"messages": [{"role": "user", "content": "", "images": ["aGk="]}]},
    {"format": "xml"}, {"keep_alive": "soon"}, {"options": [1]}, {"messages": "Hi"},
    {"tools": "x"}])
def test_wrong_fields_are_refused(address: str, more: dict[str, Any]) -> None:
    done = httpx.post(f"{address}/api/chat", json={"model": "tiny-chat", "messages": USER, **more})
    assert done.status_code == 400 and done.json()["error"]


@pytest.mark.parametrize(("given", "seconds"), [
    ("5m", 300), ("1h30m", 5400), (-1, -1), ("-1", -1), ("0", 0), (2.5, 2.5), ("500ms", 0.5),
    ("-1m", -60), (None, None), (1e12, -1), ("9" * 400 + "h", -1)])
def test_durations(given: Any, seconds: float | None) -> None:
    assert seconds_of(given) == seconds


@pytest.mark.parametrize("seconds", [253402300799.5, 1e300, -1e12, float("inf")])
def test_times_that_cant_be_written(seconds: float) -> None:
    assert at(seconds) == ("1970-01-01T00:00:00Z" if seconds < 0 else "9999-12-31T23:59:59Z")


@pytest.mark.parametrize("keep_alive", ["1e12", "253000000000", "9" * 400, '"99999999999h"'])
def test_a_long_time_to_stay(address: str, keep_alive: str) -> None:
    body = f'{{"model": "tiny-chat", "messages": [], "keep_alive": {keep_alive}}}'
    assert httpx.post(f"{address}/api/chat", content=body).status_code in (200, 400)
    assert httpx.get(f"{address}/api/ps").status_code == 200


def test_the_heartbeat_is_an_empty_line(address: str, core: ScriptedCore) -> None:
    core.script = [Begun(11), 1.0, Piece(0, "a"), Fault("worker_lost", "it died")]
    done = httpx.post(f"{address}/api/chat", json={"model": "tiny-chat", "messages": USER},
                      timeout=60)
    lines = [json.loads(line) for line in done.text.splitlines()]
    assert sum(line.get("message", {}).get("content") == "" for line in lines) >= 2
    assert "it died" in lines[-1]["error"]


def test_a_model_with_settings(client: Any, core: ScriptedCore) -> None:
    preset = {"system": "Be brief.", "parameters": {"temperature": 0.5, "stop": ["a b", "c"]},
              "messages": [{"role": "user", "content": "Ahoy"}]}
    core._cards["keeper"] = replace(CARD, name="keeper", aliases=(), preset=preset)
    shown = client.show("keeper")
    found = parse(shown.modelfile)
    del core._cards["keeper"]
    assert (found.sources, found.last("SYSTEM")) == (("keeper",), "Be brief.")
    assert (found.parameters, found.messages) == (preset["parameters"], preset["messages"])
    assert [line.split(maxsplit=1) for line in shown.parameters.splitlines()] == [
        ["temperature", "0.5"], ["stop", '"a b"'], ["stop", '"c"']]
