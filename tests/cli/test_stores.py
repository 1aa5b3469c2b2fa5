"""The commands that list, download, check and remove models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ollama_store
from cli.conftest import Run, Shell
from hub.conftest import cache as cache
from hub.conftest import hub as hub
from hub.pretend_hub import CONTENT, Pretend
from hub.stores.conftest import Built
from hub.stores.conftest import build_tools as build_tools
from hub.stores.conftest import built as built
from hub.stores.conftest import no_stores as no_stores
from hub.stores.conftest import pile as pile
from hub.stores.conftest import scenario as scenario
from unladen import Model
from unladen.hub import INCLUDED
from unladen.hub.gotemplate import render


def test_list(unladen: Run, built: Built) -> None:
    ran = unladen("list", "--json")
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out)
    assert {"name", "path", "size", "quant", "kind", "problem", "store"} <= set(found[0])
    by_name = {m["name"]: m for m in found}
    assert by_name["pebble:1b"]["path"] == by_name["marlow/story-teller:v2"]["path"]
    assert os.path.isfile(by_name["tiny/stories:Q8_0"]["path"])
    ran = unladen("list")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["name", "type", "size", "store"]
    assert any(line.split() == ["walnut:latest", "Q8_0", "2.53", "KiB", "Ollama"] for line in lines)
    assert "can't be used:" in lines and any("gone:7b (Ollama): lacks" in line for line in lines)
    sizes = {m["path"]: m["size"] for m in found if m["kind"] == "model" and not m["problem"]}
    real = {os.path.realpath(path): size for path, size in sizes.items()}
    n_models = sum(m["kind"] == "model" and not m["problem"] for m in found)
    assert f"{n_models} models, {sum(real.values()) / 1024:,.2f} KiB in all" in lines


def test_nothing_to_list(unladen: Run, no_stores: Path) -> None:
    assert unladen("list", "--json").out == "[]\n"
    ran = unladen("list")
    assert ran.code == 0 and "unladen pull org/repo:Q4_K_M" in ran.out


def test_a_stored_model_runs(shell: Shell, built: Built) -> None:
    home = {"HOME": str(built.root / "home"), "HF_HUB_OFFLINE": "1"}
    ran = shell("", "run", "tiny/stories:Q8_0", "Once", "--max-tokens", "3", **home)
    assert ran.code == 0 and ran.out.strip(), ran.err
    ran = shell("", "show", "pebble:1b", "--json", HF_HUB_OFFLINE="1", HOME=home["HOME"],
                OLLAMA_MODELS=str(built.root / "ollama"))
    assert json.loads(ran.out)["quants"] == {"Q4_K": 2}


def test_verify(unladen: Run, built: Built) -> None:
    ran = unladen("show", "walnut", "--verify")
    assert ran.code == 0 and "the SHA-256 is right" in ran.out
    ran = unladen("show", "quarry/Mica-GGUF:F16", "--verify")
    assert ran.code == 1 and "keeps no checksum" in ran.err


def test_rm(unladen: Run, built: Built) -> None:
    ran = unladen("rm", "win/Copied-GGUF:Q4_0")
    assert ran.code == 0 and ran.out.splitlines()[-1] == "1.53 KiB are free again"
    ran = unladen("rm", "walnut")
    assert ran.code != 0 and ran.out == ""
    assert "belongs to Ollama" in ran.err and "--from-store" in ran.err
    assert unladen("rm", "walnut", "--from-store").code == 0
    assert "walnut:latest" not in unladen("list").out
    assert "no store" in unladen("rm", "walnut").err


def test_pull(unladen: Run, no_stores: Path, hub: Pretend, cache: Path) -> None:
    hub.n_cut = 10**6
    ran = unladen("pull", "org/repo:Q8_0")
    assert ran.code == 1 and "broke off" in ran.err and "goes on where it ended" in ran.err
    hub.n_cut, hub.begins = 0, []
    ran = unladen("pull", "org/repo:Q8_0")
    assert (ran.code, ran.err) == (0, "") and Path(ran.out.strip()).read_bytes() == CONTENT
    assert hub.begins != [0] and len(hub.begins) == 1
    assert unladen("pull", "org/repo:q8_0").out == ran.out and len(hub.begins) == 1
    ran = unladen("pull", "tiny")
    assert ran.code != 0 and "on this machine already" in ran.err
    ran = unladen("pull", "llama3.2:1x")
    assert ran.code == 1 and "org/repo:Q4_K_M" in ran.err and "names.toml" in ran.err
    ran = unladen("pull", "llama3.2:1b")
    assert ran.code == 1 and ran.err.startswith("llama3.2:1b stands for bartowski/")
    assert "the hub has no bartowski/" in ran.err and "names.toml" in ran.err


def test_pull_by_a_short_name(unladen: Run, no_stores: Path, hub: Pretend, cache: Path,
                              tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "names.toml"
    table.write_text('"mine:1b" = "org/repo:Q8_0"\n')
    monkeypatch.setenv("UNLADEN_NAMES", str(table))
    ran = unladen("pull", "Mine:1b")
    assert (ran.code, ran.err) == (0, "Mine:1b stands for org/repo:Q8_0\n")
    assert Path(ran.out.strip()).read_bytes() == CONTENT
    assert "m-Q8_0.gguf" in ran.out
    assert "m-Q4_K_M.gguf" in unladen("pull", "hf.co/org/repo").out
    assert "m-Q4_K_M.gguf" in unladen("pull", "https://huggingface.co/org/repo:q4_k_m").out


def test_create_and_cp(unladen: Run, no_stores: Path, tmp_path: Path,
                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = unladen("create", "keeper")
    assert ran.code == 1 and "Modelfile doesn't exist" in ran.err and "-f FILE" in ran.err
    Path("Modelfile").write_text("FROM tiny-chat\nSYSTEM You keep a lighthouse.\n"
                                 "PARAMETER temperature 0\nPARSER qwen3\n")
    ran = unladen("create", "keeper")
    assert ran.code == 0 and ran.out.startswith("keeper:latest is made of ")
    assert ran.err == "note: PARSER has no effect: the chat template shows how answers are read\n"
    assert unladen("cp", "keeper", "other:v1").code == 0
    names = {m["name"]: m["store"] for m in json.loads(unladen("list", "--json").out)}
    assert names == {"keeper:latest": "unladen", "other:v1": "unladen"}
    ran = unladen("show", "other:v1", "--modelfile")
    assert "SYSTEM You keep a lighthouse.\nPARAMETER temperature 0.0\n" in ran.out
    assert unladen("create", "again", "-f", "Modelfile").code == 0
    assert "SYSTEM You keep a lighthouse." in unladen("show", "keeper").out
    assert json.loads(unladen("show", "keeper", "--json").out)["settings"]["system"] == (
        "You keep a lighthouse.")
    ran = unladen("rm", "other:v1")
    assert ran.code == 0 and "v1.json" in ran.out
    assert unladen("show", "other:v1").code == 1
    Path("bad").write_text("FROM tiny\nPARAMETER temprature 1\n")
    ran = unladen("create", "x", "-f", "bad")
    assert ran.code == 1 and "Modelfile, line 2" in ran.err
    assert "did you mean temperature" in ran.err
    assert unladen("create", "piped", "-f", "-", stdin="FROM tiny\nSYSTEM x\n").code == 0
    assert "SYSTEM x" in unladen("show", "piped", "--modelfile").out
    ran = unladen("pull", "keeper")
    assert ran.code == 1 and "was made on this machine" in ran.err


@pytest.mark.parametrize(("line", "n_batch", "n_layers"), [
    ([], 64, 3), (["-b", "512"], 512, 3), (["-b", "100"], 100, 3), (["-ngl", "auto"], 64, None),
    (["--kv-type", "f16", "--n-gpu-layers", "0"], 64, 0)], ids=str)
def test_an_option_counts_more_than_a_models_own(
        unladen: Run, no_stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        line: list[str], n_batch: int, n_layers: int | None) -> None:
    """Also one that is given with its default as its value."""
    monkeypatch.setenv("UNLADEN_NULL_MEMORY", str(10**8))
    file = tmp_path / "Modelfile"
    file.write_text("FROM tiny\nPARAMETER num_batch 64\nPARAMETER num_gpu 3\n")
    assert unladen("create", "mine", "-f", file).code == 0
    ran = unladen("plan", "mine", "--device", "null:0,cpu", "--json", *line)
    found = json.loads(ran.out)["resolved"]
    assert found["batch_size"]["value"] == n_batch, ran
    if n_layers is not None:
        assert found["n_gpu_layers"]["value"] == n_layers


def test_pull_by_the_endpoint_of_the_environment(hub: Pretend, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items()
                   if not k.upper().endswith("_PROXY") and not k.startswith(("HF_", "UNLADEN_"))}
    done = subprocess.run(
        [sys.executable, "-m", "unladen", "pull", "org/repo"], capture_output=True, text=True,
        timeout=120, check=False, env={**environment, "HF_HOME": str(tmp_path / "home"),
                                       "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}"})
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "home" / "hub")
    assert Path(done.stdout.strip()).read_bytes() == CONTENT


def test_a_stored_model_answers_through_its_template(shell: Shell, tmp_path: Path) -> None:
    template = "{{ range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}" \
               "<|im_start|>assistant\n"
    ollama_store.add(tmp_path, "talk:1b", INCLUDED["tiny-chat"], template=template,
                     system="Be brief.", params={"temperature": 0, "num_predict": 6})
    home = {"OLLAMA_MODELS": str(tmp_path), "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)}
    ran = shell("", "run", "talk:1b", "Hello!", "--json", **home)
    found = json.loads(ran.out)
    prompt = render(template, system="Be brief.", prompt="Hello!")
    with Model("tiny-chat", devices=["cpu"]) as model:
        same = model.generate(model.tokenize(prompt), max_tokens=6, temperature=0)
    assert found["text"] == same.text
    assert found["usage"]["n_prompt"] == same.usage.n_prompt
    longer = json.loads(shell("", "run", "talk:1b", "Hello!", "--json", "-n", "3", **home).out)
    assert longer["usage"]["n_completion"] == 3
    (tmp_path / "said").write_text("Hello!\n")
    ran = shell(f"< {tmp_path}/said", "chat", "talk:1b", **home)
    assert ran.out.strip() == same.text.strip(), ran.err


def test_a_plan_has_the_context_that_the_store_says(shell: Shell, tmp_path: Path) -> None:
    ollama_store.add(tmp_path, "told", INCLUDED["tiny"], params={"num_ctx": 64})
    home = {"OLLAMA_MODELS": str(tmp_path), "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)}
    for more, expected in (((), 64), (("-c", "32"), 32)):
        ran = shell("", "plan", "told", "--json", *more, **home)
        assert json.loads(ran.out)["context_size"] == expected, ran.err
