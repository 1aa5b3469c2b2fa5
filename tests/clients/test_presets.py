"""A model of Ollama's store behind the server: every dialect answers through its Go template."""

from __future__ import annotations

import json
import secrets
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ollama_store
from clients.serving import Served, serving
from unladen import Model
from unladen.hub import INCLUDED
from unladen.hub.gotemplate import render

SEED = secrets.token_hex(3)
SYSTEM = f"You keep lighthouse {SEED}."
FIRST = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ahoy."}]
USER = {"role": "user", "content": "Hello! Who are you?"}
TEMPLATE = """\
{{- if .System }}<|im_start|>system
{{ .System }}<|im_end|>
{{ end }}{{ range .Messages }}{{ if ne .Role "system" }}<|im_start|>{{ .Role }}
{{ .Content }}<|im_end|>
{{ end }}{{ end }}<|im_start|>assistant
"""
WHOLE = [{"role": "system", "content": SYSTEM}, *FIRST, USER]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    print(f"the system message's number: {SEED}")
    root = tmp_path_factory.mktemp("store")
    ollama_store.add(root, "talk:1b", INCLUDED["tiny-chat"], template=TEMPLATE, system=SYSTEM,
                     messages=FIRST, params={"temperature": 0, "num_predict": 11, "num_ctx": 512,
                                             "stop": ["\x01zq"]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OLLAMA_MODELS", str(root))
        yield root


@pytest.fixture(scope="module")
def served(store: Path) -> Iterator[Served]:
    with serving({"ref": "talk:1b", "aliases": ["small"]}, allow_any=True) as found:
        yield found


@pytest.fixture(scope="module")
def expected(store: Path) -> tuple[str, int]:
    """What the model answers, and the tokens of its prompt: by the file alone and the template."""
    with Model("tiny-chat", devices=["cpu"], n_threads=1) as model:
        ids = model.tokenize(render(TEMPLATE, messages=WHOLE))
        return model.generate(ids, max_tokens=11, temperature=0).text, len(ids)


def post(served: Served, path: str, **body: Any) -> Any:
    asked = urllib.request.Request(served.address + path, json.dumps(body).encode(),
                                   {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.loads(answer.read())


def test_every_dialect_answers_through_it(served: Served, expected: tuple[str, int]) -> None:
    text, n_prompt = expected
    found = post(served, "/v1/chat/completions", model="talk:1b", messages=[USER])
    assert found["choices"][0]["message"]["content"] == text
    assert found["usage"]["prompt_tokens"] == n_prompt
    found = post(served, "/v1/responses", model="small", input=USER["content"])
    assert found["output"][0]["content"][0]["text"] == text
    found = post(served, "/v1/messages", model="small", max_tokens=11, messages=[USER])
    assert found["content"][0]["text"] == text
    assert post(served, "/v1/messages/count_tokens", model="small",
                messages=[USER])["input_tokens"] == n_prompt
    found = post(served, "/api/chat", model="talk:1b", messages=[USER], stream=False)
    assert found["message"]["content"] == text and found["prompt_eval_count"] == n_prompt
    found = post(served, "/api/generate", model="talk:1b", prompt=USER["content"], stream=False)
    assert found["response"] == text
    assert post(served, "/apply-template", messages=[USER])["prompt"] == render(
        TEMPLATE, messages=WHOLE)


def test_what_a_request_says_comes_first(served: Served, expected: tuple[str, int]) -> None:
    found = post(served, "/api/chat", model="talk:1b", messages=[USER], stream=False,
                 options={"num_predict": 3})
    assert found["eval_count"] == 3 and found["done_reason"] == "length"
    own = {"role": "system", "content": "Be brief."}
    assert post(served, "/apply-template", messages=[own, USER])["prompt"] == render(
        TEMPLATE, messages=[own, *FIRST, USER])
    stop = expected[0][4:7]
    found = post(served, "/v1/chat/completions", model="talk:1b", messages=[USER], stop=stop)
    assert found["choices"][0]["message"]["content"] == expected[0][:expected[0].index(stop)]
    found = post(served, "/api/generate", model="talk:1b", prompt="Hello", stream=False,
                 system="Be brief.", template="{{ .System }}|{{ .Prompt }}|{{ .Response }}")
    assert found["prompt_eval_count"] < expected[1]


def test_what_is_shown(served: Served, store: Path) -> None:
    found = post(served, "/api/show", model="talk:1b")
    assert found["template"] == TEMPLATE and found["system"] == SYSTEM
    assert found["messages"] == FIRST
    lines = sorted(line.split(None, 1) for line in found["parameters"].splitlines())
    assert lines == [["num_ctx", "512"], ["num_predict", "11"], ["stop", '"\\u0001zq"'],
                     ["temperature", "0"]]
    assert SYSTEM in found["modelfile"]
    with urllib.request.urlopen(f"{served.address}/v1/models", timeout=60) as answer:
        models = json.loads(answer.read())["data"]
    assert models[0]["context_length"] == 512


def test_a_model_of_the_store_can_be_asked_by_its_name(served: Served, store: Path) -> None:
    name = f"late{secrets.token_hex(3)}"
    ollama_store.add(store, name, INCLUDED["tiny-chat"], template="{{ .Prompt }}=")
    assert post(served, "/apply-template", model=name, messages=[USER])["prompt"] == (
        f"{USER['content']}=")
    ollama_store.add(store, name, INCLUDED["tiny-chat"], template="{{ .Prompt }}!")
    post(served, "/api/generate", model=name, keep_alive=0)  # unloads it
    assert post(served, "/api/show", model=name)["template"] == "{{ .Prompt }}!"
