"""Every command with streams that are full, closed, or left by their reader: it prints one line,
has the right exit code, and writes all that can be written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.conftest import Run, Shell, Start
from unladen.cli._ending import MEANINGS, Code

COMMANDS: dict[str, list[str]] = {
    "run": ["run", "MODEL", "abc", "-n", "3", "--temp", "0"],
    "tokenize": ["tokenize", "MODEL", "abc"], "show": ["show", "MODEL"], "plan": ["plan", "MODEL"],
    "doctor": ["doctor"], "bench": ["bench", "MODEL", "-p", "4", "-n", "1", "-r", "1"],
    "perplexity": ["perplexity", "MODEL", "--text", "TEXT", "--chunk", "64"],
    "quantize": ["quantize", "MODEL", "TARGET", "Q8_0"]}
JSON = {f"{name} --json": [*line, "--json"] for name, line in COMMANDS.items()
        if name != "quantize"}
OTHERS = {"help": ["--help"], "version": ["--version"], "run -h": ["run", "-h"], "nothing": []}
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")


@pytest.fixture
def fill(model: str, text_file: Path, tmp_path: Path) -> dict[str, str]:
    """The values for the words in upper case."""
    return {"MODEL": model, "TEXT": str(text_file), "TARGET": str(tmp_path / "target.gguf")}


def filled(line: list[str], fill: dict[str, str]) -> list[str]:
    return [fill.get(word, word) for word in line]


@needs_full
@pytest.mark.parametrize("line", [*COMMANDS.values(), *JSON.values(), *OTHERS.values()],
                         ids=[*COMMANDS, *JSON, *OTHERS])
def test_full(shell: Shell, fill: dict[str, str], line: list[str]) -> None:
    ran = shell(">/dev/full", *filled(line, fill))
    assert ran.err == "error: can't write to stdout: No space left on device\n"
    assert ran.code == Code.FAILED


@pytest.mark.parametrize("line", [*COMMANDS.values(), OTHERS["version"]],
                         ids=[*COMMANDS, "version"])
def test_stdout_closed(shell: Shell, fill: dict[str, str], line: list[str]) -> None:
    ran = shell(">&-", *filled(line, fill))
    assert (ran.code, ran.err) == (Code.FAILED, "error: can't write to stdout: it is closed\n")


@pytest.mark.parametrize("line", COMMANDS.values(), ids=COMMANDS)
def test_stderr_closed(shell: Shell, fill: dict[str, str], line: list[str]) -> None:
    ran = shell("2>&-", *filled(line, fill))
    assert ran.code == Code.DONE and ran.out


@needs_full
def test_stderr_full_or_closed_while_there_is_something_to_say(shell: Shell, model: str) -> None:
    line = ("run", model, "abc", "-n", "3", "--temp", "0", "-c", "1000")
    expected = shell("", *line)
    assert expected.code == Code.DONE and "context_size=1000" in expected.err
    for redirection in ("2>/dev/full", "2>&-"):
        ran = shell(redirection, *line)
        assert (ran.code, ran.out) == (Code.DONE, expected.out)
        assert shell(redirection, "run", "no-such-model", "a").code == Code.FAILED
        assert shell(redirection, "--no-such-option").code == Code.MISUSED


def test_a_file_that_is_opened_is_not_taken_for_stderr(shell: Shell, fill: dict[str, str]) -> None:
    """The next file that is opened gets the lowest free descriptor, so 2 must not be free."""
    ran = shell("2>&- <&-", "quantize", fill["MODEL"], fill["TARGET"], "Q8_0")
    assert ran.code == Code.DONE
    assert shell("", "show", fill["TARGET"]).code == Code.DONE


@pytest.mark.parametrize(("line", "code"), [
    (["run", "MODEL", "abc", "-n", "3"], 0), (["run", "MODEL", "-n", "3"], 1),
    (["tokenize", "MODEL"], 1), (["show", "MODEL"], 0), (["doctor"], 0)])
def test_stdin_closed(shell: Shell, fill: dict[str, str], line: list[str], code: int) -> None:
    ran = shell("<&-", *filled(line, fill))
    assert ran.code == code, ran
    assert not code or ran.err.startswith("error: there is no ")


def test_all_closed(shell: Shell, model: str) -> None:
    assert shell("<&- >&- 2>&-", "run", model, "abc", "-n", "3").code == Code.FAILED


@pytest.mark.parametrize("line", [["show", "MODEL", "--tensors"], ["show", "MODEL", "--json"],
                                  ["run", "MODEL", "abc", "-n", "200", "--temp", "1"],
                                  ["--help"]], ids=" ".join)
def test_reader_that_leaves(fill: dict[str, str], line: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run([sys.executable, "-m", "unladen", *filled(line, fill)], text=True,
                         stdout=write, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                         env={**os.environ, "UNLADEN_DEVICES": "cpu"}, timeout=120)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (Code.FAILED, "")


@pytest.mark.parametrize("changed", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"},
                                     {"LC_ALL": "C", "PYTHONUTF8": "0",
                                      "PYTHONCOERCECLOCALE": "0"}], ids=str)
def test_streams_that_lack_characters(shell: Shell, fill: dict[str, str], changed: dict[str, str]
                                      ) -> None:
    for name in ("show", "bench"):
        ran = shell("", *filled(COMMANDS[name], fill), **changed)
        assert ran.code == Code.DONE and ran.out and "Traceback" not in ran.err, name
    assert shell("", "--help", **changed).code == Code.DONE
    assert json.loads(shell("", *filled(JSON["show --json"], fill), **changed).out)
    ran = shell("", "run", "/ä€😀.gguf", "a", **changed)
    assert ran.code == Code.FAILED and ran.err.startswith("error: ")


SIGNALS = [(signal.SIGINT, Code.INTERRUPTED), (signal.SIGTERM, Code.TERMINATED),
           (signal.SIGHUP, Code.HUNG_UP)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_signals(start: Start, model: str, number: int, code: Code) -> None:
    # The reference is slow enough to be still at work.
    with start("run", model, "abc", "--device", "reference") as process:
        assert process.stdout is not None and process.stdout.read(1)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_half_written_file(start: Start, tmp_path: Path, number: int) -> None:
    """A signal at any moment leaves the whole target or none."""
    target = tmp_path / "target.gguf"
    for delay in (0.15, 0.3, 0.45):
        with start("quantize", "tiny", target, "Q4_0", "--allow-requantize") as process:
            time.sleep(delay)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        left = {path.name for path in tmp_path.iterdir()}
        assert left <= ({target.name} if process.returncode == 0 else set()), (left, err)
        target.unlink(missing_ok=True)


def test_an_ignored_hangup_stays_ignored(model: str) -> None:
    line = ["nohup", sys.executable, "-m", "unladen", "run", model, "abc", "-n", "40",
            "--device", "reference", "--temp", "0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None and process.stdout.read(1)
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=120)
    assert process.returncode == Code.DONE


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Code) and all(MEANINGS.values())


def test_what_nobody_foresaw_is_one_line(unladen: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a\nb")
    monkeypatch.setattr("unladen.cli.doctor._memory", fail)
    ran = unladen("doctor")
    assert (ran.code, ran.out) == (Code.FAILED, "")
    assert ran.err.splitlines()[0] == "error: unexpected ZeroDivisionError: a b"
    assert "--debug" in ran.err.splitlines()[1]


def test_a_file_that_cannot_be_written(unladen: Run, model: str, tmp_path: Path) -> None:
    ran = unladen("plan", model, "--svg", tmp_path / "absent" / "plan.svg")
    assert (ran.code, ran.out) == (Code.FAILED, "")
    assert "absent/plan.svg" in ran.err and ran.err.startswith("error: ")
