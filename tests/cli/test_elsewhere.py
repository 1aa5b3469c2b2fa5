"""For commands of other programs the error says what to use instead."""

from __future__ import annotations

import re

import pytest

from cli.conftest import Run
from unladen.cli._elsewhere import ELSEWHERE, unknown
from unladen.cli.app import build_app

COMMANDS = sorted(str(c.name) for c in build_app().registered_commands)
OTHERS = ["ls", "convert", "download", "top", "conversation", "remove", "copy", "push",
          "make", "embed", "rerank", "llama-cli", "cli", "server", "llama-server", "imatrix",
          "gguf-split", "export-lora", "tts", "unload", "llama-bench",
          "llama-quantize", "help", "version", "login", "llama-gguf-split",
          "convert_hf_to_gguf.py", "llama-perplexity", "detokenize"]


@pytest.mark.parametrize("name", OTHERS)
def test_is_answered(unladen: Run, name: str) -> None:
    ran = unladen(name, "x")
    assert (ran.code, ran.out) == (2, "")
    error, hint = ran.err.splitlines()
    assert error.startswith(f"error: no such command: {name}")
    assert hint.startswith("hint: ") and "did you mean" not in hint and "there are" not in hint


def test_what_is_named_is_there() -> None:
    """Hints name existing commands and options."""
    assert not set(ELSEWHERE) & set(COMMANDS), "it is there by now"
    for missing, instead in ELSEWHERE.values():
        assert instead
        named = re.findall(r"unladen ([a-z]+)", f"{missing} {instead}")
        assert set(named) <= {*COMMANDS}, instead


@pytest.mark.parametrize(("name", "command"), [("runn", "run"), ("plann", "plan"), ("quantise",
                                               "quantize"), ("shwo", "show"), ("Bench", "bench")])
def test_misspelt(unladen: Run, name: str, command: str) -> None:
    ran = unladen(name)
    assert ran.code == 2
    assert ran.err == f"error: no such command: {name}\nhint: did you mean: unladen {command}\n"


@pytest.mark.parametrize(("name", "rest", "hint"), [
    ("llama3.2:1b", [], "unladen run llama3.2:1b PROMPT"), ("tiny", ["hi"], "unladen run tiny"),
    ("model.gguf", [], "unladen run model.gguf PROMPT"),
    ("org/repo:Q4_K_M", ["hi"], "unladen run org/repo:Q4_K_M"),
    ("./x/y.GGUF", [], "unladen run ./x/y.GGUF PROMPT")])
def test_a_model_in_the_place_of_a_command(name: str, rest: list[str], hint: str) -> None:
    assert unknown(name, rest, COMMANDS).hint == hint


def test_anything_else(unladen: Run) -> None:
    ran = unladen("xyzzy")
    assert ran.code == 2 and all(name in ran.err for name in COMMANDS)
    assert unladen("x\x1b[31my").err.count("\x1b") == 0


@pytest.mark.parametrize("name", ["llama3.2:1x", "qwen", "my-model:latest"])
@pytest.mark.parametrize("command", ["run", "show", "plan", "bench", "tokenize"])
def test_names_of_ollama(unladen: Run, command: str, name: str) -> None:
    ran = unladen(command, name, *(["a"] if command in ("run", "tokenize") else []))
    assert ran.code == 1 and ran.out == ""
    assert f"'{name}'" in ran.err and "no store has it" in ran.err
    assert f"hint: ollama pull {name} gets it" in ran.err and "give a GGUF file" in ran.err
