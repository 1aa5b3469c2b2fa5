"""State, events, library, metrics and log of a server process, as the page sees them."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from server.ui.talking import PRETENDED, Page, page

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ends processes by signals")


def complete(at: Page, n: int) -> dict[str, Any]:
    answer = at.client.post("/v1/completions", json={
        "model": "tiny", "prompt": "Once upon a time", "max_tokens": n, "ignore_eos": True,
        "temperature": 0})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_model_is_loaded_used_and_unloaded(tmp_path: Path) -> None:
    with page(tmp_path, "tiny", "tiny-chat", *PRETENDED) as at, at.events() as events:
        number, name, state = next(events)
        assert name == "state"
        assert [each["id"] for each in state["models"]] == ["tiny", "tiny-chat"]
        assert state["can_manage"] and state["offline"] and not state["allow_any"]
        at.until_state("tiny", "ready")
        assert at.post("models/tiny-chat/load", {"options": {"context_size": 256}}, 202) == {
            "id": "tiny-chat", "state": "loading"}
        seen = []
        for n, kind, data in events:
            assert n > number
            number = n
            if kind == "state":
                model = data["models"][1]
                seen.append((model["state"], model["progress"] and model["progress"]["phase"]))
                if model["state"] == "ready" and data["devices"]:
                    break
        assert "loading" in dict(seen)
        assert model["context_size"] == 256
        assert model["options"]["context_size"] == 256
        assert model["chat"]["thinking"]
        assert model["arrived"] == 1
        assert {each["name"]: each["total_bytes"] for each in data["devices"]}["null:0"] == 10**8
        assert all(0 < each["free_bytes"] <= each["total_bytes"] for each in data["devices"])
        plan = at.get("models/tiny-chat")["plan"]
        assert plan["context_size"] == 256
        assert at.post("models/tiny-chat/unload", {}, 202)["id"] == "tiny-chat"
        at.until_state("tiny-chat", "unloaded")
        assert at.get("models/tiny-chat")["plan"] is None


def test_tokens_are_counted_each_second(tmp_path: Path) -> None:
    with page(tmp_path, "tiny", "--device", "cpu") as at, at.events() as events:
        at.until_state("tiny", "ready")
        next(kind for _, kind, _ in events if kind == "metrics")  # the first has no rate
        usage = complete(at, 300)["usage"]
        samples: list[Any] = []
        for _, kind, data in events:
            samples += [data] if kind == "metrics" else []
            if len(samples) > 2 and not samples[-1]["decode_tps"] and any(
                    each["decode_tps"] for each in samples):
                break
        columns = at.get("metrics?seconds=600")
        times = columns["time"]
        # A rate times its seconds is a number of tokens; each of these is rounded.
        gaps = [b - a for a, b in pairwise(times)]
        for name, n in (("decode_tps", usage["completion_tokens"]),
                        ("prefill_tps", usage["prompt_tokens"])):
            assert sum(rate * gap for rate, gap in zip(columns[name][1:], gaps, strict=True)
                       ) == pytest.approx(n, rel=0.1)
        assert sum(columns["prompt_tokens"]) == usage["prompt_tokens"]
        assert columns["bytes"]["cpu:0"][-1] == at.model("tiny")["device_bytes"]["cpu:0"]
        assert at.get("metrics?seconds=-1", 400)["error"]["param"] == "seconds"


def test_a_page_that_comes_back_gets_the_log_that_it_missed(tmp_path: Path) -> None:
    with page(tmp_path, "tiny", *PRETENDED) as at:
        at.until_state("tiny", "ready")
        at.until(lambda: any("is loaded" in line["text"] for line in at.get("log")["lines"]))
        with at.events("?after=0") as events:
            assert next(events)[1] == "state"
            number, line = next((n, data) for n, kind, data in events
                                if kind == "log" and "is loaded" in data["text"])
        known = at.get(f"log?after={line['n']}")
        assert all(each["n"] > line["n"] for each in known["lines"])
        with at.events(f"?after={number}") as events:
            for n, kind, data in events:
                assert kind != "log" or data["n"] > line["n"]
                if kind == "metrics":
                    assert n > number
                    break


def test_the_library_shows_names_and_no_folders(tmp_path: Path) -> None:
    home = tmp_path / "home"
    folder = home / ".lmstudio" / "models" / "org" / "repo"
    folder.mkdir(parents=True)
    import unladen
    tiny = (Path(unladen.__file__).parent / "data" / "tiny.gguf").read_bytes()
    (folder / "m-Q8_0.gguf").write_bytes(tiny)
    (folder / "cut-Q4_0.gguf").write_bytes(tiny[:5000])
    own = tmp_path / "own.gguf"
    own.write_bytes(tiny)
    with page(tmp_path, "tiny", own, *PRETENDED) as at:
        library = {each["path_label"]: each for each in at.get("library")}
        assert str(tmp_path) not in str(at.get("library")) + str(at.get("state"))
        found = library["m-Q8_0.gguf"]
        assert (found["store"], found["ref"], found["bytes"]) == ("LM Studio", "org/repo:Q8_0",
                                                                  len(tiny))
        assert (found["arch"], found["context"], found["model"]) == ("llama", 512, None)
        assert library["cut-Q4_0.gguf"]["problem"]
        assert library["tiny.gguf"]["store"] == "unladen"
        assert library["tiny.gguf"]["model"] == library["tiny.gguf"]["ref"] == "tiny"
        assert (library["own.gguf"]["store"], library["own.gguf"]["model"]) == ("file", "own")
        refused = at.post("models/org/repo:Q8_0/load", {}, 404)["error"]
        assert refused["code"] == "unknown_model"
        assert "tiny" in refused["hint"]


def test_a_failed_load_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\xff" * 100)
    with page(tmp_path, "tiny", broken, *PRETENDED) as at:
        at.post("models/broken/load", {}, 202)
        model = at.until_state("broken", "failed")
        assert "broken.gguf" in model["error"]["message"]
        assert at.post("models/tiny/load", {"options": {"tokenizer": "/etc/passwd"}}, 400)[
            "error"]["param"] == "options.tokenizer"
        assert at.post("models/tiny/load", {"options": {"n_gpu_layers": "some"}}, 400)[
            "error"]["hint"]
