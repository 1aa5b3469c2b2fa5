"""Search, fit and downloads through a server process and a hub that is pretended."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

import unladen
from hub.pretend_hub import Pretend
from server.ui.talking import Page, page

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ends processes by signals")

REF = "org/repo:Q8_0"
TINY = (Path(unladen.__file__).parent / "data" / "tiny.gguf").read_bytes()


@pytest.fixture
def hub() -> Iterator[Pretend]:
    with Pretend() as server:
        server.content = TINY
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def online(hub: Pretend) -> dict[str, str]:
    """The environment of a server that uses ``hub``."""
    return {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
            "HTTP_PROXY": "", "http_proxy": "", "ALL_PROXY": "", "all_proxy": ""}


def state_of(at: Page, number: str) -> Any:
    return next(each for each in at.get("downloads")["downloads"] if each["id"] == number)


def until_state(at: Page, number: str, *states: str) -> Any:
    return at.until(lambda: (d := state_of(at, number))["state"] in states and d)


def blob_of(folder: Path) -> Path:
    return (folder / "home" / "hub" / "models--org--repo" / "blobs"
            / hashlib.sha256(TINY).hexdigest())


def test_a_model_is_found_judged_downloaded_and_loaded(hub: Pretend, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[server]\nallow_any = true\n")
    with page(tmp_path, "--config", config, **online(hub)) as at, at.events() as events:
        assert not at.get("state")["offline"] and at.get("state")["allow_any"]
        first = at.get("hub?q=repo")
        assert first["repos"] == [{"repo": "org/repo", "downloads": 7, "likes": 3, "gated": False,
                                   "updated": "2026-01-02T03:04:05.000Z"}]
        second = at.get(f"hub?q=repo&cursor={first['cursor']}")
        assert (second["repos"][0]["repo"], second["cursor"]) == ("org/other", None)
        assert at.get("hub?q=nothing") == {"repos": [], "cursor": None}
        files = at.get("hub/org/repo")["files"]
        assert {each["quant"]: (each["ref"], each["bytes"], each["is_here"]) for each in files} == {
            "Q4_K_M": ("org/repo:Q4_K_M", len(TINY), False), "Q8_0": (REF, len(TINY), False)}
        assert at.get("hub/org/none", 404)["error"]["code"] == "unknown_model"
        fit, = at.post("fit", {"refs": [REF]})["files"]
        assert fit["error"] is None and fit["fits"] and fit["n_layers"] == 4
        assert not blob_of(tmp_path).exists()
        number = at.post("downloads", {"ref": REF}, 202)["id"]
        done = until_state(at, number, "done", "failed")
        assert (done["state"], done["done"], done["total"]) == ("done", len(TINY), len(TINY))
        assert blob_of(tmp_path).read_bytes() == TINY
        kinds = []
        for _, kind, _ in events:
            kinds.append(kind)
            if kind == "library":
                break
        assert "download" in kinds
        entry = next(each for each in at.get("library") if each["ref"] == REF)
        assert (entry["store"], entry["problem"]) == ("Hugging Face", "")
        assert at.get("hub/org/repo")["files"][1]["is_here"]
        at.post(f"models/{REF}/load", {"options": {"n_threads": 1, "devices": ["cpu"]}}, 202)
        at.until_state(REF, "ready")
        assert next(each for each in at.get("library") if each["ref"] == REF)["model"] == REF
        assert at.post(f"downloads/{number}", {}, method="DELETE") == {}
        assert at.get("downloads") == {"downloads": []}
        assert blob_of(tmp_path).exists()


def test_a_download_is_paused_and_survives_the_server(hub: Pretend, tmp_path: Path) -> None:
    hub.pace = 0.05
    with page(tmp_path, "tiny", **online(hub)) as at:
        number = at.post("downloads", {"ref": REF}, 202)["id"]
        assert at.post("downloads", {"ref": REF}, 202)["id"] == number
        at.until(lambda: state_of(at, number)["done"] > 2 * 2**15)
        assert at.post(f"downloads/{number}", {"action": "pause"}, method="PATCH")["state"] == (
            "paused")
        part = blob_of(tmp_path).with_name(blob_of(tmp_path).name + ".unladen.incomplete")
        size = part.stat().st_size
        assert 0 < size < len(TINY)
        n_asked = len(hub.begins)
        assert at.post(f"downloads/{number}", {"action": "resume"}, method="PATCH")["state"] in (
            "queued", "running")
        at.until(lambda: len(hub.begins) > n_asked)
        assert hub.begins[-1] >= size
        at.until(lambda: state_of(at, number)["done"] > size + 2**15)
        at.served.process.kill()
        at.served.process.wait(60)
    size = part.stat().st_size
    hub.pace = 0.0
    n_asked = len(hub.begins)
    with page(tmp_path, "tiny", **online(hub)) as at:
        done = until_state(at, number, "done", "failed")
        assert done["state"] == "done", done
        assert hub.begins[n_asked:] and min(hub.begins[n_asked:]) >= size
        assert blob_of(tmp_path).read_bytes() == TINY
        assert not part.exists()


def test_a_paused_download_stays_paused_and_loses_its_bytes_when_deleted(
        hub: Pretend, tmp_path: Path) -> None:
    hub.pace = 0.05
    with page(tmp_path, "tiny", **online(hub)) as at:
        number = at.post("downloads", {"ref": REF}, 202)["id"]
        at.until(lambda: state_of(at, number)["done"] > 2**15)
        at.post(f"downloads/{number}", {"action": "pause"}, method="PATCH")
    part = blob_of(tmp_path).with_name(blob_of(tmp_path).name + ".unladen.incomplete")
    with page(tmp_path, "tiny", **online(hub)) as at:
        assert state_of(at, number)["state"] == "paused"
        assert part.exists()
        at.post(f"downloads/{number}", {}, method="DELETE")
        assert not part.exists()
        missing = at.post(f"downloads/{number}", {"action": "resume"}, 404, method="PATCH")
        assert missing["error"]["code"] == "not_found"


def test_a_wrong_checksum_and_a_missing_model_say_so(hub: Pretend, tmp_path: Path) -> None:
    hub.n_corrupt = 2
    with page(tmp_path, "tiny", **online(hub)) as at:
        numbers = [at.post("downloads", {"ref": ref}, 202)["id"]
                   for ref in (REF, "org/none:Q4_0", "org/repo:Q2_K")]
        ended = [until_state(at, number, "failed", "done") for number in numbers]
        assert [each["state"] for each in ended] == ["failed"] * 3
        assert "SHA-256" in ended[0]["error"]["message"]
        assert [each["error"]["code"] for each in ended[1:]] == ["unknown_model"] * 2
        assert all(each["error"]["hint"] for each in ended)
        assert not blob_of(tmp_path).exists()
        at.post(f"downloads/{numbers[0]}", {"action": "resume"}, method="PATCH")
        assert until_state(at, numbers[0], "failed", "done")["state"] == "done"
        for ref in ("/etc/passwd", "../x", "", "tiny", "a b/c"):
            wrong = at.post("downloads", {"ref": ref}, 400)["error"]
            assert wrong["param"] == "ref" and wrong["hint"]


def test_offline_says_so(tmp_path: Path) -> None:
    remembered = tmp_path / "home" / ".cache" / "unladen"
    remembered.mkdir(parents=True)
    victim = tmp_path / "precious"
    victim.write_text("keep me")
    (remembered / "downloads.json").write_text(json.dumps([{
        "id": "a", "ref": REF, "state": "paused", "done": 1, "total": 2, "created": 0.0,
        "parts": [str(victim)]}]))
    with page(tmp_path, "tiny") as at:
        assert at.get("state")["offline"]
        for path in ("hub?q=a", "hub/org/repo"):
            wrong = at.get(path, 503)["error"]
            assert wrong["code"] == "offline" and wrong["hint"]
        fit, = at.post("fit", {"refs": [REF]})["files"]
        assert fit["error"]["code"] == "offline"
        at.post("downloads/a", {"action": "resume"}, method="PATCH")
        assert until_state(at, "a", "failed")["error"]["code"] == "offline"
        at.post("downloads/a", {}, method="DELETE")
        assert victim.read_text() == "keep me"  # a file that is no part is never removed


def test_a_file_that_is_not_ours_starts_nothing(tmp_path: Path) -> None:
    remembered = tmp_path / "home" / ".cache" / "unladen"
    remembered.mkdir(parents=True)
    for content in (b"\xff\xfe", b"[1]", b'[{"id": "a"}]', b"{"):
        (remembered / "downloads.json").write_bytes(content)
        with page(tmp_path, "tiny", "--threads", "1") as at:
            assert at.get("downloads") == {"downloads": []}
            assert "can't be read" in at.served.said
