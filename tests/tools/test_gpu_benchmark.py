"""The benchmark of a GPU runs from end to end, and says nothing about one where there is none."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from unladen.backends import backend_of
from unladen.errors import UnladenError

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "src/unladen/data/tiny.gguf"
QUICK = ("--product", "64", "--repeat", "1")


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The benchmark, whose folder of results is empty."""
    if not backend_of("opencl").devices():
        pytest.skip(backend_of("opencl").why_none())
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    module = importlib.import_module("gpu")
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(module, "N_HOST", 2)
    return module


def written(folder: Path) -> dict[str, Any]:
    """The only result in ``folder``."""
    (path,) = folder.glob("*.json")
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def test_a_device_from_end_to_end(program: ModuleType, tmp_path: Path,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["opencl:0", f"{TINY}:tg2,pp8,tg2x3@d4", *QUICK, "--peak", "0.001"]
    assert program.main([*arguments, "--out", str(tmp_path / "named")]) == 0
    data = written(tmp_path / "named")
    rows = {row["test"]: row for row in data["rows"]}
    assert rows["copy, read and written"]["value"] > 0
    for test in ("tg2", "pp8", "tg2 x3 @ d4"):
        assert rows[test]["rate"] > 0 and rows[test]["limit"] > 0
    assert rows["pp8"]["peak"] > 0 and "peak" not in rows["tg2"]
    assert all(row["peak"] > 0 for test, row in rows.items() if "by 2048 rows" in test)
    assert "Peak: 0.001 TFLOP/s, as given." in data["notes"]
    assert rows["host, of the calling thread"]["unit"] == "ms a step"
    assert rows["dispatches"]["value"] > 5
    monkeypatch.syspath_prepend(ROOT / "tools")
    history = importlib.import_module("gen_history")
    monkeypatch.setattr(history, "RESULTS", tmp_path / "named")
    assert "| tg2 x3 @ d4 |" in history.history()


def test_figures_of_a_driver_for_the_processor_are_not_kept(program: ModuleType, tmp_path: Path
                                                            ) -> None:
    (device, *_) = backend_of("opencl").devices()
    assert program.main(["opencl:0", "--product", "64"]) == 0
    assert (tmp_path / "results").exists() != device.is_software


def test_what_fails_is_a_row_and_the_rest_goes_on(program: ModuleType, tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no model, and a test that a device refuses. What came before is in the file by
    then."""
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF")
    real, before = program.speed.measure, list[int]()

    def measure(model: Any, test: Any, *rest: Any) -> Any:
        before.append(len(written(tmp_path / "out")["rows"]))
        if test.n_prompt:
            raise UnladenError("refused", hint="none")
        return real(model, test, *rest)

    monkeypatch.setattr(program.speed, "measure", measure)
    assert program.main(["opencl:0", str(bad), f"{TINY}:pp8,tg2", *QUICK, "--out",
                         str(tmp_path / "out")]) == 1
    rows = {(row["model"], row["test"]): row for row in written(tmp_path / "out")["rows"]}
    assert "bad.gguf" in rows["bad", "loading"]["error"]
    assert rows["tiny", "pp8"]["error"] == "refused (hint: none)" and "rate" in rows["tiny", "tg2"]
    assert before == [4, 4], "limits and the first model"


def test_a_run_that_is_ended_keeps_what_it_has(program: ModuleType, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(program.speed, "measure", measure)
    with pytest.raises(KeyboardInterrupt):
        program.main(["opencl:0", f"{TINY}:tg2", *QUICK, "--out", str(tmp_path)])
    assert len(written(tmp_path)["rows"]) == 3


@pytest.mark.parametrize(("arguments", "what"), [
    (["cpu:0"], "cpu:0 is no device of a GPU backend"),
    (["null:0"], "null:0 is no device of a GPU backend"),
    (["foo:0"], "no backend is called 'foo'"), (["opencl:x"], "'opencl:x'"),
    (["opencl:0", "nowhere.gguf"], "'nowhere.gguf' is no file"),
    (["opencl:0", f"{TINY}:tg2,zz9"], "'zz9' names no test")])
def test_what_is_wrong_is_said_before_anything_runs(
        program: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        arguments: list[str], what: str) -> None:
    monkeypatch.setattr(program, "_limits", None)
    assert program.main(arguments) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ") and what in error and hint.startswith("hint: ")


def test_steps_have_the_size_that_is_asked_for(program: ModuleType, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    real = program.speed.measure

    def measure(model: Any, *rest: Any) -> Any:
        sizes.append(model.engine.plan.blueprint.limits.n_tokens)
        return real(model, *rest)

    monkeypatch.setattr(program.speed, "measure", measure)
    assert program.main(["opencl:0", f"{TINY}:pp8", *QUICK, "--batch-size", "96", "--out",
                         str(tmp_path)]) == 0
    assert sizes == [96]


def test_experts_that_sequences_share(program: ModuleType) -> None:
    """One sequence reads 2 of 8 experts; two sequences that choose evenly read 3.5."""
    work = program.Work(0, 800, 2 / 8, 0, 0, 0, 0)
    named = program.programs.Test.named
    assert work.bytes_per_step(named("tg2")) == 200
    assert work.bytes_per_step(named("tg2x2")) == pytest.approx(350)
    assert work.bytes_per_step(named("tg2x64")) < 800
