"""LangChain, litellm and ``llm``, unchanged, against a server that runs. They have an environment
of their own, which ``make long`` makes: UNLADEN_TEST_FRAMEWORKS names its Python."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.asking import HELLO, SUM
from clients.serving import PATIENCE, Served
from unladen import Model

pytestmark = pytest.mark.long
VARIABLE = "UNLADEN_TEST_FRAMEWORKS"
PROGRAMS = Path(__file__).parent / "programs"
QUESTION = HELLO[0]["content"]


@pytest.fixture(scope="session")
def frameworks() -> Path:
    """The Python of an environment with the frameworks; skips where there is none."""
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"needs {VARIABLE}, the Python of an environment with the dependency group "
                    "frameworks; make long makes one")
    return Path(python).absolute()


def _run(arguments: list[str], **more: str) -> str:
    # litellm would ask the internet for prices, LangChain for a place to trace to.
    own = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false", **more}
    kept = {name: value for name, value in os.environ.items()
            if not name.lower().endswith("_proxy") and name != "PYTHONPATH"}
    done = subprocess.run(arguments, env={**kept, **own}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=PATIENCE * 2)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _asked(python: Path, program: str, *arguments: str) -> Any:
    out = _run([str(python), "-P", str(PROGRAMS / f"{program}.py"), *arguments])
    return json.loads(out.splitlines()[-1])


def test_langchain(frameworks: Path, served: Served, model: Model, encoder: Path) -> None:
    own = model.chat(HELLO, temperature=0.0, max_tokens=80)
    found = _asked(frameworks, "langchain_asks", served.address, QUESTION, SUM[0]["content"])
    for way in ("openai", "ollama"):
        got = found[way]
        assert got["whole"] == got["stream"] == own.text != ""
        assert (got["usage"]["input_tokens"], got["usage"]["output_tokens"]) == (
            own.usage.n_prompt, own.usage.n_completion)
        assert got["call"][0] == "calculator" and "12" in got["call"][1]["expression"]
        assert "42" in got["after"]
        assert got["form"] in ("cat", "dog")
    with Model(str(encoder), devices=["cpu"]) as alone:
        expected = np.array([alone.embed(text) for text in ("a cat", "a dog")])
    np.testing.assert_allclose(np.array(found["embeddings"]), expected, atol=1e-5)


def test_litellm(frameworks: Path, served: Served, model: Model) -> None:
    own = model.chat(HELLO, temperature=0.0, max_tokens=80)
    found = _asked(frameworks, "litellm_asks", served.address, QUESTION)
    assert {*found} == {"openai", "anthropic", "ollama_chat"}
    for got in found.values():
        assert got["whole"] == got["stream"] == own.text != ""
        assert got["usage"] == [own.usage.n_prompt, own.usage.n_completion]
        assert "no-such" in got["error"]


def test_llm(frameworks: Path, served: Served, model: Model, tmp_path: Path) -> None:
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: tiny-chat\n  model_name: tiny-chat\n  api_base: {served.address}/v1\n")
    for more in ([], ["--no-stream"]):
        said = _run([str(frameworks.parent / "llm"), "-m", "tiny-chat", "-o", "temperature", "0",
                     *more, QUESTION], LLM_USER_PATH=str(tmp_path), OPENAI_API_KEY="none")
        assert said.strip() == model.chat(HELLO, temperature=0.0).text
