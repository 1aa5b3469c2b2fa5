"""Completions, requested by the protocol's variables and in a real bash."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from unladen.backends import all_devices
from unladen.cli._completion import VALUES, mend_bash, with_values
from unladen.cli.app import build_app
from unladen.hub.stores.hugging_face import hub_cache
from unladen.quantizing.mixes import MIXES
from unladen.sample.params import ORDER


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home with one model of the hub in its cache, and ``unladen`` on the path."""
    commit = "0123456789abcdef" * 2 + "01234567"
    home = tmp_path / "hub" / "models--org--some-model"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text(commit)
    for name in ("m-Q4_K_M.gguf", "m-Q8_0-00001-of-00002.gguf"):
        folder = home / "snapshots" / commit
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"GGUF")
    script = tmp_path / "bin" / "unladen"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m unladen "$@"\n')
    script.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("UNLADEN_", "HF_", "_"))}
    return {**kept, "HF_HUB_CACHE": str(tmp_path / "hub"),
            "PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}"}


def asked(environment: dict[str, str], shell: str, line: str, *, cwd: Path | None = None
          ) -> tuple[int, list[str]]:
    """The exit code and the lines of stdout when ``shell`` asks for completions of ``line``."""
    words = line.split(" ")
    changed = {"_UNLADEN_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line,
               "_TYPER_COMPLETE_FISH_ACTION": "get-args",
               "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run([sys.executable, "-m", "unladen"], env=environment | changed, text=True,
                          cwd=cwd, capture_output=True, timeout=120)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_values(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "mine.gguf").write_bytes(b"GGUF")
    (tmp_path / "notes.txt").write_text("no model")
    (tmp_path / "more").mkdir()
    for line, expected in {
            "unladen pl": ["plan"], "unladen run tin": ["tiny", "tiny-chat"],
            "unladen run org": ["org/some-model:Q4_K_M"], "unladen show mi": ["mine.gguf"],
            "unladen show m": ["mine.gguf", "more/"],
            "unladen run tiny --device cpu": ["cpu:0"], "unladen run tiny -sm r": ["row"],
            "unladen plan tiny --offload-order ": ["first", "last", "cost"],
            "unladen bench tiny --kv-type q8_0,": ["q8_0,f16", "q8_0,f32"],
            "unladen run tiny --split-": ["--split-mode"]}.items():
        assert asked(environment, "bash", line, cwd=tmp_path) == (0, expected), line
    _, found = asked(environment, "bash", "unladen quantize tiny x.gguf Q4_K")
    assert set(found) >= {name for name in MIXES if name.startswith("Q4_K")}
    _, found = asked(environment, "bash", "unladen run tiny --samplers top_k;top_")
    assert found == [f"top_k;{name}" for name in ORDER
                     if name.startswith("top_") and name != "top_k"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(environment: dict[str, str], shell: str) -> None:
    code, lines = asked(environment, shell, "unladen run tiny --split-mode t")
    assert code == 0 and "tensor" in " ".join(lines) and "layer" not in " ".join(lines)
    code, lines = asked(environment, shell, "unladen run tiny --device cpu")
    assert code == 0 and "cpu" in " ".join(lines)


def test_fish_is_told_where_files_are_wanted(environment: dict[str, str]) -> None:
    wants = {**environment, "_UNLADEN_COMPLETE": "complete_fish",
             "_TYPER_COMPLETE_FISH_ACTION": "is-args"}
    for line, code in (("unladen run tiny --split-mode ", 0),
                       ("unladen perplexity tiny --text ", 1)):
        done = subprocess.run([sys.executable, "-m", "unladen"], capture_output=True, timeout=120,
                              env={**wants, "_TYPER_COMPLETE_ARGS": line})
        assert done.returncode == code, line


BASH = """
eval "$(unladen --show-completion bash)"
ask() {{
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    _unladen_completion unladen
    printf '%s ' "${{COMPREPLY[@]}}"; echo
}}
{asks}
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_real_bash(environment: dict[str, str]) -> None:
    """bash splits words at colons and expects only the part after the last colon."""
    run = "ask unladen run"
    asks = ("ask unladen ru", f"{run} tiny --device cpu :", f"{run} tiny --device cpu : 0",
            f"{run} org/some-model :", f"{run} org/some-model : Q4",
            f"{run} tiny \"'Once upon'\" --split-mode l")
    done = subprocess.run(["bash", "--norc", "-c", BASH.format(asks="\n".join(asks))], text=True,
                          env=environment, capture_output=True, timeout=240)
    assert done.stderr == ""
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["run"], ["0"], ["0"], ["Q4_K_M"], ["Q4_K_M"], ["layer"]]


def test_a_broken_plugin_is_no_completion(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands" / "broken.py").write_text("1 / 0")
    broken = {**environment, "UNLADEN_PLUGIN_PATH": str(tmp_path)}
    assert asked(broken, "bash", "unladen pl") == (0, ["plan"])


@pytest.mark.parametrize(("words", "at", "expected", "known"), [
    ("unladen run m", 2, "unladen run m", ""), ("unladen run a : b", 4, "unladen run a:b", "a:"),
    ("unladen run a :", 3, "unladen run a:", "a:"),
    ("unladen --x = a : b c", 6, "unladen --x=a:b c", ""),
    ("unladen --x = a : b", 5, "unladen --x=a:b", "--x=a:")])
def test_what_bash_cuts(words: str, at: int, expected: str, known: str) -> None:
    environment = {"_UNLADEN_COMPLETE": "complete_bash", "COMP_CWORD": str(at),
                   "COMP_WORDS": words.replace(" ", "\n")}
    assert mend_bash(environment) == known
    assert environment["COMP_WORDS"] == expected.replace(" ", "\n")
    assert environment["COMP_CWORD"] == str(len(expected.split()) - 1)


@pytest.mark.parametrize("changed", [{"COMP_CWORD": "x"}, {"COMP_CWORD": "9"}, {"COMP_WORDS": ""},
                                     {"_UNLADEN_COMPLETE": "complete_zsh"}])
def test_what_bash_would_not_say(changed: dict[str, str]) -> None:
    environment = {"_UNLADEN_COMPLETE": "complete_bash", "COMP_CWORD": "2",
                   "COMP_WORDS": "a\n:\nb", **changed}
    before = dict(environment)
    assert mend_bash(environment) == "" and environment == before


def test_every_value_belongs_to_an_option() -> None:
    """Every name in VALUES is a parameter of a command, which accepts what is offered."""
    callbacks = [c.callback for c in build_app().registered_commands]
    names = {name for callback in callbacks if callback is not None
             for name in with_values(callback).__annotations__}
    assert set(VALUES) <= names
    assert set(VALUES["devices"]("")) >= {d.name for d in all_devices()}


def test_the_cache_of_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert hub_cache() == Path.home() / ".cache" / "huggingface" / "hub"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert hub_cache() == tmp_path / "huggingface" / "hub"
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    assert hub_cache() == tmp_path / "home" / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    assert hub_cache() == tmp_path / "cache"
