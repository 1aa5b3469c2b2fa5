"""The start and the end of a process of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NEEDLESS = {
    "unladen.backends.null.backend", "unladen.backends.wgpu.backend", "unladen.cli._completion",
    "unladen.cli._elsewhere", "unladen.cli.doctor",
    "unladen.cli.show", "unladen.measure.perplexity", "unladen.hub.fetch", "unladen.models.qwen3",
    "unladen.quantizing", "unladen.schedule.show.picture", "unladen.schedule.show.report",
    "wgpu", "huggingface_hub", "tokenizers", "rich", "asyncio", "fractions", "html",
    "statistics"}
"""Modules that running a local file on the CPU must not import."""


def unladen(*arguments: str, **streams: int | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "unladen", *arguments], text=True, timeout=60,
                          env={**os.environ, "UNLADEN_DEVICES": "cpu"},
                          **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams})


def test_run_imports_what_it_needs_and_no_more() -> None:
    code = ("import sys; from unladen.cli.app import main\n"
            "try: main()\nfinally: print(*sys.modules, file=sys.stderr)")
    done = subprocess.run([sys.executable, "-c", code, "run", "tiny", "Once", "-n", "2"],
                          capture_output=True, text=True, check=True, timeout=60,
                          env={**os.environ, "UNLADEN_DEVICES": "cpu"})
    loaded = set(done.stderr.split())
    assert {"unladen.cli.run", "unladen.engine.engine"} <= loaded and done.stdout
    assert NEEDLESS & loaded == set()


def test_pages_are_mapped_before_numpy_is_imported() -> None:
    code = "import sys, unladen.api; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                            check=True, timeout=60).stdout.split()
    assert {"unladen.api", "unladen.storage.mapping", "unladen._native"} <= set(loaded)
    assert "numpy" not in loaded


@pytest.mark.parametrize(("arguments", "code", "where"), [
    (["run", "tiny", "Once", "-n", "3"], 0, "stdout"), (["--version"], 0, "stdout"),
    (["run", "no-such-model"], 1, "stderr"), (["run", "--no-such-option"], 2, "stderr"),
    (["no-such-command"], 2, "stderr"), (["show"], 2, "stderr"), (["run"], 2, "stderr")])
def test_the_end_at_once_loses_nothing(arguments: list[str], code: int, where: str) -> None:
    done = unladen(*arguments)
    assert done.returncode == code, done.stderr
    assert getattr(done, where)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk_is_no_success() -> None:
    with open("/dev/full", "w") as full:
        assert unladen("--version", stdout=full.fileno()).returncode != 0


def test_what_was_left_for_the_end_is_done(tmp_path: Path) -> None:
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands" / "late.py").write_text(
        "import atexit\ndef command() -> None:\n    atexit.register(print, 'at last')\n")
    done = subprocess.run([sys.executable, "-m", "unladen", "late"],
                          capture_output=True, text=True, timeout=60,
                          env={**os.environ, "UNLADEN_PLUGIN_PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (0, "at last\n"), done.stderr
