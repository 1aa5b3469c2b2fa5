"""Plans on paper and moves of loaded models, as the page asks a server process for them."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

import unladen
from server.ui.talking import PRETENDED, Page, page

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ends processes by signals")

BOTH = ("--device", "cpu:0,cpu:1")


def stream(at: Page, n: int, begun: threading.Event) -> str:
    """A text of ``n`` tokens; ``begun`` is set at its first piece."""
    found = []
    with at.client.stream("POST", "/v1/completions", json={
            "model": "tiny", "prompt": "Once upon a time", "max_tokens": n, "ignore_eos": True,
            "temperature": 0, "stream": True}) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                data = json.loads(line[6:])
                assert "error" not in data, data
                found += [each["text"] for each in data["choices"]]
                begun.set()
    return "".join(found)


def test_a_plan_is_that_of_the_library_with_what_became_of_each_option(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLADEN_NULL_MEMORY", str(10**8))
    with page(tmp_path, "tiny", *PRETENDED) as at:
        for options in ({}, {"n_gpu_layers": 2, "context_size": 300}, {"kv_type": "q8_0"},
                        {"n_gpu_layers": "auto"}):
            plan = at.post("plan", {"ref": "tiny", "options": options})
            expected = unladen.plan("tiny", **{
                "devices": ["null:0", "cpu"], "n_gpu_layers": 0, "stream_weights": False,
                **options}).facts()
            assert plan["layers"] == expected["layers"]
            assert plan["layer_bytes"] == expected["layer_bytes"]
            assert [d["weight_bytes"] for d in plan["devices"]] == [
                d["weight_bytes"] for d in expected["devices"]]
            assert plan["context_size"] == options.get("context_size", 512)
            off_host = sum(name == "null:0" for name in plan["layers"])
            resolved = plan["resolved"]
            assert resolved["n_gpu_layers"] == {
                "value": off_host, "least": 0, "greatest": len(plan["layers"]), "choices": None,
                "source": "auto" if options.get("n_gpu_layers") == "auto" else "set"}
            assert resolved["context_size"]["source"] == (
                "set" if "context_size" in options else "auto")
            assert resolved["kv_type"]["value"] == options.get("kv_type", "f16")
            assert set(resolved["devices"]["choices"]) == {"null:0", "cpu:0"}
            for name, each in resolved.items():
                if each["least"] is not None:
                    assert each["least"] <= each["value"] <= each["greatest"], name
            totals = {d["name"]: d["total_bytes"] for d in plan["devices"]}
            assert totals.get("null:0", 10**8) == 10**8 and ("null:0" in totals) == (off_host > 0)
        wrong = at.post("plan", {"ref": "tiny", "options": {"context_size": 0}}, 400)["error"]
        assert "context_size" in wrong["message"] and wrong["hint"]
        for ref in ("/etc/passwd", "../tiny.gguf", "nothing", "\0", ""):
            assert at.post("plan", {"ref": ref}, 404)["error"]["code"] == "unknown_model"


def test_fit_answers_for_each_file(tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".lmstudio" / "models" / "org" / "repo"
    folder.mkdir(parents=True)
    data = (Path(unladen.__file__).parent / "data" / "tiny.gguf").read_bytes()
    (folder / "m-Q8_0.gguf").write_bytes(data)
    (folder / "cut-Q4_0.gguf").write_bytes(data[:5000])
    with page(tmp_path, "tiny", *PRETENDED, UNLADEN_DEVICES="cpu") as at:
        refs = ["tiny", "org/repo:Q8_0", "org/repo:Q4_0", "/etc/passwd"]
        found = at.post("fit", {"refs": refs})["files"]
        assert [each["ref"] for each in found] == refs
        assert [each["error"] is None for each in found] == [True, True, False, False]
        expected = unladen.plan("tiny", devices=["cpu"])
        assert found[1]["fits"] and found[1]["n_layers"] == 4
        assert found[1]["decode_tps"] > 0 and found[1]["prefill_tps"] > 0
        assert found[1]["bound"] == expected.decode.bound
        assert at.post("fit", {"refs": ["tiny"] * 1000}, 400)["error"]["param"] == "refs"


def test_a_move_pauses_a_stream_and_changes_no_word_of_it(tmp_path: Path) -> None:
    with page(tmp_path, "tiny", *BOTH, "--context-size", "400") as at:
        at.until_state("tiny", "ready")
        whole = stream(at, 380, threading.Event())
        texts: list[str] = []
        begun = threading.Event()
        reading = threading.Thread(target=lambda: texts.append(stream(at, 380, begun)))
        reading.start()
        assert begun.wait(60)
        before = at.model("tiny")["arrived"]
        accepted = at.post("models/tiny/place", {"options": {
            "context_size": 512, "devices": ["cpu:1"]}}, 202)
        assert accepted == {"id": "tiny", "state": "moving"}
        model = at.until(lambda: (m := at.model("tiny"))["arrived"] > before and m)
        assert (model["state"], model["context_size"], model["error"]) == ("ready", 512, None)
        reading.join(60)
        assert texts == [whole]
        plan = at.get("models/tiny")["plan"]
        assert set(plan["layers"]) == {"cpu:1"}
        assert [each["taken_bytes"] > 0 for each in plan["devices"]] == [True]


def test_layers_move_to_another_device(tmp_path: Path) -> None:
    with page(tmp_path, "tiny", *PRETENDED) as at:
        at.until_state("tiny", "ready")
        planned = at.post("plan", {"ref": "tiny", "options": {"n_gpu_layers": 3}})
        assert planned["fits"]
        at.post("models/tiny/place", {"options": {"n_gpu_layers": 3}}, 202)
        at.until(lambda: at.model("tiny")["arrived"] == 2)
        plan = at.get("models/tiny")["plan"]
        assert plan["layers"] == planned["layers"] == ["null:0"] * 3 + ["cpu:0"]
        taken = {each["name"]: each["taken_bytes"] for each in plan["devices"]}
        needed = {d["name"]: d["weight_bytes"] + d["kv_bytes"] + d["arena_bytes"]
                  for d in plan["devices"]}
        assert taken["null:0"] == needed["null:0"] > 0
        assert at.model("tiny")["options"]["n_gpu_layers"] == 3


@pytest.mark.parametrize(("options", "code"), [
    ({"context_size": 2**45}, "out_of_memory"), ({"devices": ["nothing:0"]}, None)])
def test_a_failed_move_leaves_the_model_as_it_was(tmp_path: Path, options: dict[str, Any],
                                                  code: str | None) -> None:
    with page(tmp_path, "tiny", *PRETENDED) as at:
        at.until_state("tiny", "ready")
        before = at.model("tiny")
        at.post("models/tiny/place", {"options": options}, 202)
        model = at.until(lambda: (m := at.model("tiny"))["error"] and m)
        assert model["error"]["message"] and model["error"]["hint"]
        assert code in (None, model["error"]["code"])
        for name in ("state", "arrived", "context_size", "options", "device_bytes"):
            assert model[name] == before[name]
        assert stream(at, 8, threading.Event())


def test_what_cannot_be_moved_says_why(tmp_path: Path) -> None:
    with page(tmp_path, "tiny", "tiny-chat", *PRETENDED) as at:
        assert "loaded" in at.post("models/tiny-chat/place", {"options": {"batch_size": 64}}, 400)[
            "error"]["hint"]
        at.until_state("tiny", "ready")
        unmovable = at.post("models/tiny/place", {"options": {"n_threads": 2}}, 400)["error"]
        assert unmovable["code"] == "bad_request" and "n_threads" in unmovable["message"]
        unknown = at.post("models/nothing/place", {"options": {}}, 404)["error"]
        assert unknown["code"] == "unknown_model"
