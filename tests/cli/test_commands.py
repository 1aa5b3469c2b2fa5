"""The other commands: show, bench, perplexity; help and version."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Run
from tiny_model import write_tiny
from unladen import Model, __version__
from unladen.cli.app import build_app

COMMANDS = {command.name for command in build_app().registered_commands}
LLAMA_BENCH = {
    "cpu_info", "gpu_info", "backends", "model_filename", "model_type", "model_size",
    "model_n_params", "n_batch", "n_ubatch", "n_threads", "type_k", "type_v", "n_prompt", "n_gen",
    "n_depth", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns",
    "samples_ts"}


def test_help_names_every_command(unladen: Run) -> None:
    assert {"app", "bench", "chat", "cp", "create", "doctor", "list", "perplexity", "plan", "ps",
            "pull", "quantize", "rm", "run", "serve", "show", "stop", "tokenize"} == COMMANDS
    ran = unladen("--help")
    assert ran.code == 0 and all(name in ran.out for name in COMMANDS)


@pytest.mark.parametrize("command", sorted(str(c) for c in COMMANDS))
def test_help_of_a_command(unladen: Run, command: str) -> None:
    for flag in ("-h", "--help"):
        ran = unladen(command, flag)
        assert (ran.code, ran.err) == (0, "")
        assert f"Usage: unladen {command}" in ran.out


def test_version(unladen: Run) -> None:
    assert unladen("--version").out == f"unladen {__version__}\n"


def test_show(unladen: Run, model: str) -> None:
    ran = unladen("show", model)
    assert (ran.code, ran.err) == (0, "")
    assert "general.architecture" in ran.out and "llama.block_count" in ran.out
    assert "blk.0.attn_q.weight" not in ran.out
    assert "blk.0.attn_q.weight" in unladen("show", model, "--tensors").out


def test_show_json(unladen: Run, model: str) -> None:
    facts = json.loads(unladen("show", model, "--json").out)
    with Model(model) as loaded:
        assert {t["name"] for t in facts["tensors"]} == set(loaded.tensors)
        assert facts["n_parameters"] == sum(t.n_elements for t in loaded.tensors.values())
    assert facts["metadata"]["llama.block_count"] == 3
    assert facts["n_tensors"] == len(facts["tensors"]) == sum(facts["quants"].values())


BENCH = ("-p", "8,16", "-n", "4", "-d", "0,16", "-r", "2", "-t", "1")


def test_bench_json_has_the_names_of_llama_bench(unladen: Run, model: str) -> None:
    records = json.loads(unladen("bench", model, *BENCH, "--json").out)
    assert [(r["n_prompt"], r["n_gen"], r["n_depth"]) for r in records] == [
        (8, 0, 0), (16, 0, 0), (0, 4, 0), (8, 0, 16), (16, 0, 16), (0, 4, 16)]
    for record in records:
        assert set(record) >= LLAMA_BENCH
        assert len(record["samples_ts"]) == len(record["samples_ns"]) == 2
        assert record["avg_ts"] == pytest.approx(np.mean(record["samples_ts"]))
        assert record["stddev_ts"] == pytest.approx(np.std(record["samples_ts"], ddof=1))
        n = record["n_prompt"] + record["n_gen"]
        assert record["samples_ts"][0] == pytest.approx(n * 1e9 / record["samples_ns"][0])
        assert record["n_threads"] == 1


def test_bench_csv(unladen: Run, model: str) -> None:
    rows = list(csv.DictReader(io.StringIO(unladen("bench", model, *BENCH, "--csv").out)))
    assert [r["test"] for r in rows] == ["pp8", "pp16", "tg4", "pp8 @ d16", "pp16 @ d16",
                                         "tg4 @ d16"]
    assert all(float(r["avg_ts"]) > 0 for r in rows)


def test_bench_table(unladen: Run, model: str) -> None:
    ran = unladen("bench", model, "-p", "8", "-n", "4", "-r", "1")
    head, rule, *rows = ran.out.splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in (head, rule, *rows)]
    assert cells[0] == ["model", "size", "params", "backend", "threads", "n_batch", "type_kv",
                        "test", "t/s"]
    assert set(cells[1]) == {"---"} and {len(c) for c in cells} == {9}
    assert [c[7] for c in cells[2:]] == ["pp8", "tg4"]


@pytest.mark.parametrize("options", [["-p", "x"], ["-p", "0", "-n", "0"], ["-r", "0"],
                                     ["-t", "0"], ["-d", "-1"], ["-b", ""]])
def test_bench_of_nothing(unladen: Run, model: str, options: list[str]) -> None:
    ran = unladen("bench", model, *options)
    assert (ran.code, ran.out) == (1, "") and "hint: " in ran.err


def test_perplexity_is_that_of_the_logits(unladen: Run, model: str, text_file: Path, tmp_path: Path
                                          ) -> None:
    with Model(model) as loaded:
        tokens = loaded.tokenize(text_file.read_text())
        losses = []
        for i in range(0, len(tokens) // 64 * 64, 64):
            chunk = [loaded.tokenizer.bos_id, *tokens[i + 1:i + 64]]
            logits = loaded.logits(chunk).astype(np.float64)
            logprobs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
            losses += [-logprobs[j, chunk[j + 1]] for j in range(32, 63)]
    ids = tmp_path / "ids.json"
    ids.write_text(json.dumps(tokens))
    result = json.loads(unladen("perplexity", model, "--text", text_file, "--chunk", "64",
                                "--json").out)
    assert result["value"] == pytest.approx(np.exp(np.mean(losses)), rel=1e-5)
    assert result["n_scored"] == len(losses)
    again = json.loads(unladen("perplexity", model, "--ids", ids, "--chunk", "64", "--json").out)
    assert again == result
    shown = unladen("perplexity", model, "--text", text_file, "--chunk", "64").out
    assert shown.startswith(f"PPL = {result['value']:.4f} +/- ")


def test_divergence(unladen: Run, model: str, text_file: Path, tmp_path: Path) -> None:
    base = tmp_path / "base.npz"
    common = ("--text", text_file, "--chunk", "64")
    assert unladen("perplexity", model, *common, "--save-logits", base).code == 0
    same = json.loads(unladen("perplexity", model, *common, "--kl-base", base, "--json").out)
    assert same["mean_kl"] == pytest.approx(0, abs=1e-6) and same["same_top"] == 1
    other = write_tiny(tmp_path / "other.gguf", np.random.default_rng(1))
    ran = unladen("perplexity", other, *common, "--kl-base", base, "--json")
    assert json.loads(ran.out)["mean_kl"] > 0.1
    assert "KL = " in unladen("perplexity", other, *common, "--kl-base", base).out


def test_perplexity_of_bad_input(unladen: Run, model: str, text_file: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    halves = tmp_path / "halves.json"
    halves.write_text("[1.5, 2]", encoding="utf-8")
    text = ("--text", text_file, "--chunk", "64")
    for options in ([], ["--text", text_file, "--ids", text_file], ["--text", tmp_path],
                    ["--text", tmp_path / "absent"], ["--ids", text_file], ["--ids", halves],
                    ["--text", empty],
                    ["--text", text_file, "--chunk", "2"], ["--text", text_file],
                    [*text, "--kl-base", text_file], [*text, "--kl-base", empty],
                    [*text, "--save-logits", tmp_path / "absent" / "base"]):
        ran = unladen("perplexity", model, *options)
        assert (ran.code, ran.out) == (1, ""), options
        assert "hint: " in ran.err and "Traceback" not in ran.err, options
