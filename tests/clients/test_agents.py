"""Codex and Claude Code from npm, unchanged, in two turns each, without a network. The server's
model says one greeting to everything; what is tested is that they are answered, and that a second
turn reads little more than what is new. ``make long`` installs them: UNLADEN_TEST_AGENTS names the
folder of their commands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from clients.greeter import GREETING, write_greeter
from clients.namespace import loopback_alone
from clients.serving import Served, serving

pytestmark = pytest.mark.long
VARIABLE = "UNLADEN_TEST_AGENTS"
PATIENCE = 300.0
"""Seconds that an agent may take for a turn on a busy machine. It needs a few."""
KEPT = 0.95
"""The share of a second turn's prompt that comes from the cache at least."""
CODEX = """model = "greeter"
model_provider = "local"
[model_providers.local]
name = "local"
base_url = "{address}/v1"
wire_api = "responses"
"""
CLAUDE = {"ANTHROPIC_AUTH_TOKEN": "none", "ANTHROPIC_MODEL": "greeter",
          "ANTHROPIC_SMALL_FAST_MODEL": "greeter", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "64",
          "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
          "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}


class Agent:
    """An agent's command in a home of its own, in the network of its server."""

    def __init__(self, name: str, home: Path, within: list[str], **environment: str) -> None:
        folder = os.environ.get(VARIABLE)
        if shutil.which("node") is None or not folder:
            pytest.skip(f"needs node, and {VARIABLE}, the folder of the commands codex and claude "
                        "from npm; make long installs them")
        self._command = [*within, str(Path(folder).absolute() / name)]
        self._work = home / "work"
        self._work.mkdir(parents=True)
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(home), **environment}
        subprocess.run(["git", "init", "--quiet", str(self._work)], check=True)

    def __call__(self, *arguments: str) -> str:
        """What the agent prints."""
        done = subprocess.run([*self._command, *arguments], cwd=self._work, text=True,
                              env=self._environment, stdin=subprocess.DEVNULL, timeout=PATIENCE,
                              capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def within() -> Iterator[list[str]]:
    with loopback_alone() as command:
        yield command


@pytest.fixture
def greeting(within: list[str], tmp_path: Path) -> Iterator[Served]:
    """A server for one agent, with nothing in its cache."""
    path = write_greeter(tmp_path / "greeter.gguf")
    with serving({"ref": path, "name": "greeter", "cache_tokens": 262_144}, within=within
                 ) as served:
        yield served
        log = served.log.read_text()
    assert "failed" not in log and "died" not in log, log


def test_codex(greeting: Served, within: list[str], tmp_path: Path) -> None:
    home = tmp_path / "codex"
    (home / ".codex").mkdir(parents=True)
    (home / ".codex" / "config.toml").write_text(CODEX.format(address=greeting.address))
    codex = Agent("codex", home, within)
    options = ["--json", "--skip-git-repo-check"]
    first = _codex_turn(codex("exec", *options, "Say hello"))
    total = _codex_turn(codex("exec", "resume", "--last", *options, "And again"))
    assert first["input_tokens"] > 10_000
    # The second turn tells the sum of both.
    second = {name: total[name] - first[name] for name in ("input_tokens", "cached_input_tokens")}
    assert second["input_tokens"] > first["input_tokens"]
    assert second["cached_input_tokens"] > KEPT * second["input_tokens"]


def _codex_turn(out: str) -> Mapping[str, int]:
    """The usage of a turn that was answered."""
    events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    said = [event["item"]["text"] for event in events if event["type"] == "item.completed"
            and event["item"]["type"] == "agent_message"]
    assert said == [GREETING], out
    usage: Mapping[str, int] = events[-1]["usage"]
    return usage


def test_claude_code(greeting: Served, within: list[str], tmp_path: Path) -> None:
    claude = Agent("claude", tmp_path / "claude", within, ANTHROPIC_BASE_URL=greeting.address,
                   **CLAUDE)
    turns = []
    for number, arguments in enumerate((["Say hello"], ["--continue", "And again"])):
        log = tmp_path / f"debug{number}"
        turn: dict[str, Any] = json.loads(claude("-p", *arguments, "--output-format", "json",
                                                 "--debug-file", str(log)))
        assert (turn["is_error"], turn["result"]) == (False, GREETING), turn
        assert "API error" not in log.read_text()
        turns.append(turn["usage"])
    first, second = turns
    assert first["input_tokens"] > 20_000 and first["cache_read_input_tokens"] == 0
    whole = second["input_tokens"] + second["cache_read_input_tokens"]
    assert whole > first["input_tokens"]
    assert second["cache_read_input_tokens"] > KEPT * whole
