"""``unladen plan``, and the effect of the options that say where a model runs."""

from __future__ import annotations

import json
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run, Start
from unladen import backends, gpu
from unladen.cli._placement import placement
from unladen.cli.app import build_app
from unladen.schedule import blueprint
from unladen.schedule.place import PlaceOptions, place


def facts(unladen: Run, *arguments: object) -> dict[str, Any]:
    ran = unladen("plan", *arguments, "--json")
    assert ran.code == 0, ran
    result: dict[str, Any] = json.loads(ran.out)
    return result


def test_table(unladen: Run, model: str) -> None:
    ran = unladen("plan", model, "--pretend", "2x24GB", "-ngl", "2")
    assert (ran.code, ran.err) == (0, "")
    for text in ("null:0", "null:1", "cpu:0", "offloaded 1/3 layers to null:1", "staging", "left",
                 "embeddings on null:0, output head on cpu:0", "layers: ABC", "tokens/s predicted"):
        assert text in ran.out, text


@pytest.mark.parametrize(("options", "layers"), [
    ([], None), (["-ngl", "0"], "hhh"), (["-ngl", "1"], "0hh"), (["-ngl", "99"], "001"),
    (["-ngl", "999"], "001"),
    (["-ngl", "all", "--tensor-split", "0.7,0.3"], "001"),
    (["-ngl", "2", "--offload-order", "last"], "h01"),
    (["-ngl", "all", "-sm", "none", "-mg", "1"], "111"), (["-ngl", "all", "-sm", "row"], "000")])
def test_placement(unladen: Run, model: str, options: list[str], layers: str | None) -> None:
    found = facts(unladen, model, "--pretend", "24GB,24GB", *options)
    names = {"h": "cpu:0", "0": "null:0", "1": "null:1"}
    if layers is not None:
        assert found["layers"] == [names[c] for c in layers]
    assert found["fits"] and found["decode"]["tokens_per_second"] > 0


def test_override_and_explain(unladen: Run, model: str) -> None:
    ran = unladen("plan", model, "--pretend", "24GB", "-ngl", "all", "-ot", "ffn_.*=cpu",
                  "--explain")
    lines = {line.split()[0]: line for line in ran.out.splitlines() if line.startswith("blk.")}
    assert "cpu:0" in lines["blk.1.ffn_out"] and "override ffn_.*" in lines["blk.1.ffn_out"]
    assert "null:0" in lines["blk.1.attn_qkv"]


def test_picture(unladen: Run, model: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.svg"
    assert unladen("plan", model, "--pretend", "24GB", "--svg", path).code == 0
    assert path.read_text(encoding="utf-8").startswith("<svg ")


def test_too_large_is_said(unladen: Run, model: str) -> None:
    ran = unladen("plan", model, "--pretend", "1MB", "-ngl", "all")
    assert ran.code == 0 and "does not fit" in ran.err


@pytest.mark.parametrize(("options", "words"), [
    (["--tensor-split", "0.5,0.3"], ["sums to 0.8"]),
    (["--tensor-split", "1,1,1"], ["tensor_split", "2 devices"]),
    (["--expert-split", "1,1"], ["expert_split", "3 devices"]),
    (["--expert-split", "a,b"], ["--expert-split", "'a,b'"]), (["-sm", "up"], ["split_mode"]),
    (["-ot", "ffn=gpu"], ["gpu"]), (["--head-device", "null:5"], ["head_device", "null:5"]),
    (["--n-cpu-moe", "-3"], ["n_cpu_moe", "-3"]),
    (["-mg", "2", "-sm", "none"], ["main_gpu must be a number from 0 to 1, got 2",
                                   "null:0, null:1"])])
def test_bad_values(unladen: Run, model: str, options: list[str], words: list[str]) -> None:
    ran = unladen("plan", model, "--pretend", "2x8GB", *options)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ") and "\nhint: " in ran.err
    assert all(word in ran.err for word in words), ran.err


def test_bad_pretence(unladen: Run, model: str) -> None:
    assert "pretend" in unladen("plan", model, "--pretend", "lots").err


def test_a_device_without_layers_is_named(unladen: Run, model: str) -> None:
    """A device that gets nothing isn't in the table, so a line says why."""
    ran = unladen("plan", model, "--pretend", "1GB:1GBs:1GBs")
    assert "null:0: no layers, the CPU alone is predicted to be faster (-ngl all)" in ran.out
    assert ran.err == ""
    assert "null:0: no layers\n" in unladen(
        "plan", model, "--pretend", "1GB", "-ngl", "0", "--stream-weights", "off").out
    assert "no layers" not in unladen("plan", model, "--pretend", "1GB", "-ngl", "all").out


def test_notes_of_a_plan(unladen: Run, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan notes what a run would: why a GPU isn't used, and layers that are asked for in
    vain."""
    monkeypatch.setattr(gpu, "cards", lambda: ["NVIDIA"])
    monkeypatch.setattr("unladen.cli._notes.why_unused", lambda planned: "because")
    monkeypatch.setattr("unladen.assembly.setup.default_devices",
                        lambda: backends.all_devices()[:1])
    ran = unladen("plan", model, "-ngl", "99")
    assert ran.err.splitlines() == [
        "note: n_gpu_layers=99 has no effect: the model is on cpu:0 alone (hint: unladen doctor "
        "says which GPUs can be used, and why others can't)",
        "note: a GPU is there and isn't used (NVIDIA): because"]
    assert unladen("plan", model, "--json").err == ""


def test_run_says_what_was_offloaded(start: Start, model: str) -> None:
    process = start("run", model, "a", "-n", "1", "--temp", "0", "--device", "cpu,null:0",
                    "--n-gpu-layers", "3")
    _, err = process.communicate()
    assert process.returncode == 0 and b"offloaded 3/3 layers to null:0" in err


PLACED = ("run", "chat", "serve", "app", "plan", "bench", "perplexity")


def test_the_same_options_everywhere() -> None:
    """Every command that computes takes the options that say where a model runs."""
    shared = set(signature(placement).parameters)
    for command in build_app().registered_commands:
        assert command.callback is not None
        has = shared & set(signature(command.callback).parameters)
        assert has == (shared if command.name in PLACED else set()), command.name


@pytest.mark.parametrize("command", [("bench", "-p", "4", "-n", "1", "-r", "1"),
                                     ("perplexity", "--chunk", "8", "--text"),
                                     ("run", "-n", "1", "--prompt")])
def test_placement_reaches_the_model(unladen: Run, model: str, text_file: Path,
                                     monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
                                     ) -> None:
    seen: list[PlaceOptions] = []
    monkeypatch.setattr(blueprint, "place", lambda graph, devices, options, *rest: (
        seen.append(options), real(graph, devices, options, *rest))[1])
    real = place
    name, *rest = command
    arguments = {"perplexity": [*rest, text_file], "run": [*rest[:-1], "abc"]}.get(name, rest)
    ran = unladen(name, model, *arguments, "--device", "cpu:0,cpu:1", "-ot", "ffn_up=cpu:1",
                  "--offload-order", "last", "--embed-device", "cpu:1", "--tensor-split", "1,2",
                  "--stream-weights", "off")
    assert ran.code == 0, ran
    assert seen[-1] == PlaceOptions(override_tensor={"ffn_up": "cpu:1"}, offload_order="last",
                                    embed_device="cpu:1", tensor_split=[1.0, 2.0],
                                    stream_weights=False)
