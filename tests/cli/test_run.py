"""``unladen run``: its output streams and its exit codes."""

from __future__ import annotations

import json
import signal

import pytest

from cli.conftest import Run, Start
from unladen import Model

GREEDY = ("--temp", "0", "-n", "20")


@pytest.fixture(scope="module")
def expected(model: str) -> str:
    """What the model continues "abc" with."""
    with Model(model) as loaded:
        return loaded.generate("abc", temperature=0.0, max_tokens=20).text


def test_stdout_is_the_completion_and_nothing_else(start: Start, model: str, expected: str) -> None:
    process = start("run", model, "abc", *GREEDY, "--device", "cpu")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert out.decode() == expected


def test_prompt_from_stdin(unladen: Run, model: str, expected: str) -> None:
    for text in ("abc", "abc\n"):
        assert unladen("run", model, *GREEDY, stdin=text).out == expected


def test_devices_agree(unladen: Run, model: str) -> None:
    cpu, reference = (unladen("run", model, "abc", *GREEDY, "--json", "--device", device).out
                      for device in ("cpu", "reference"))
    assert json.loads(cpu)["tokens"] == json.loads(reference)["tokens"]


def test_json(unladen: Run, model: str, expected: str) -> None:
    result = json.loads(unladen("run", model, "abc", *GREEDY, "--json").out)
    assert result["text"] == expected
    assert result["stop_reason"] == "length"
    assert result["usage"]["n_completion"] == len(result["tokens"]) == 20
    assert result["timings"]["completion_s"] > 0


def test_seed_repeats_a_run(unladen: Run, model: str) -> None:
    hot = ("run", model, "abc", "-n", "20", "--temp", "2")
    first, again, other = (unladen(*hot, "--seed", seed).out for seed in (5, 5, 6))
    assert first == again != other


def test_stop_ends_the_text_and_is_no_part_of_it(unladen: Run, model: str, expected: str) -> None:
    stop = expected[4:6]
    ran = unladen("run", model, "abc", *GREEDY, "--stop", stop)
    assert (ran.code, ran.out) == (0, expected[:expected.index(stop)])


def test_no_tokens_wanted(unladen: Run, model: str) -> None:
    ran = unladen("run", model, "abc", "-n", "0")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_empty_prompt_begins_with_bos(unladen: Run, model: str) -> None:
    result = json.loads(unladen("run", model, "", *GREEDY, "--json").out)
    assert result["usage"] == {"n_prompt": 1, "n_completion": 20, "n_cached": 0,
                               "n_truncated": 0}


def test_context_ends_a_text(unladen: Run, model: str) -> None:
    result = json.loads(unladen("run", model, "abc", "--temp", "0", "-c", "16", "--json").out)
    assert result["stop_reason"] == "context"
    assert result["usage"]["n_prompt"] + result["usage"]["n_completion"] == 16


def test_options_reach_the_model(unladen: Run, model: str, expected: str) -> None:
    ran = unladen("run", model, "abc", *GREEDY, "-t", "1", "--threads-batch", "2", "-b", "2",
                  "--kv-type", "f32,f16", "-ngl", "0", "--no-mmap", "--strict", "-c", "64",
                  "--tensor-split", "1", "-ot", r"blk\.1=cpu")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == expected


def test_reader_that_leaves_is_no_crash(start: Start, model: str) -> None:
    with start("run", model, "abc", "--temp", "1", "-n", "250", "--device", "cpu") as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.read(3)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(120) in (0, 1)


def test_an_interrupt_ends_within_a_step(start: Start, model: str) -> None:
    """Little is written after it, of a text that would be long. The reference is slow enough to be
    still at work."""
    with start("run", model, "abc", "-n", "400", "--ignore-eos",
               "--device", "reference") as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, b"") and len(out) < 200


def test_ascii_stdout_shows_what_it_can(start: Start, model: str, expected: str) -> None:
    process = start("run", model, "abc", *GREEDY, "--device", "cpu", PYTHONIOENCODING="ascii")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert out == expected.encode("ascii", "replace")


def test_warnings_are_talk(start: Start, model: str) -> None:
    process = start("run", model, "abc", "--temp", "0", "-n", "1", "-c", "1000")
    out, err = process.communicate()
    assert process.returncode == 0
    assert b"context_size=1000" in err and b"context_size" not in out
