"""Lists of models: every row of the shared stores, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import time
from pathlib import Path

import pytest

import ollama_store
from hub.stores.conftest import Built
from unladen.errors import UnladenError
from unladen.gguf.glance import glance
from unladen.hub import INCLUDED, resolve_model
from unladen.hub.preset import Preset
from unladen.hub.stores import StoredModel, find_one, listed, stores
from unladen.hub.stores.presets import read_preset

both = pytest.mark.parametrize("scenario", ["env", "home"])


def state(root: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.lstat().st_mtime_ns, p.lstat().st_size) for p in root.rglob("*")}


def at(found: list[StoredModel], place: str) -> list[StoredModel]:
    return [m for m in found if m.place == place]


@both
@pytest.mark.parametrize("pile", [True])
def test_every_row(built: Built) -> None:
    before, started = state(built.root), time.thread_time()
    found = listed(glance)
    assert time.thread_time() - started < 10
    assert state(built.root) == before, "the stores have changed"
    explained: list[StoredModel] = []
    for row in built.rows:
        here = at(found, built.real(row))
        names = {name.casefold() for name in row["names"]}
        if row["listed"] == "yes":
            good = [m for m in here if m.is_usable and m.name.casefold() in names]
            assert len(good) == 1, (row, here)
            assert (good[0].size, good[0].quant) == (row["size"], row["quant"]), row
        elif row["listed"] == "no":
            assert not [m for m in found if m.is_usable and (
                m.name.casefold() in names or (not names and m in here))], row
        assert not set(row.get("never", ())) & {m.name for m in here}
        explained += here
    assert not [m for m in found if m.is_usable and m not in explained]
    assert len({(m.place, m.name.casefold()) for m in found}) == len(found)
    json.loads(json.dumps([m.facts() for m in found]).encode())


@both
def test_every_name_leads_to_its_file(built: Built) -> None:
    for row in built.rows:
        if row["listed"] != "yes":
            continue
        for name in row["names"]:
            for text in (name, name.upper()):
                assert os.path.realpath(resolve_model(text, aliases={}, look=glance)
                                        ) == built.real(row), text
    for model in listed(glance):
        if model.is_usable:
            assert os.path.realpath(resolve_model(model.name, aliases={}, look=glance)
                                    ) == model.place


def test_what_belongs_to_a_model(built: Built) -> None:
    model, other = find_one("pebble:1b"), find_one("marlow/story-teller:v2")
    assert read_preset(model) == Preset(
        "{{ .Prompt }}", system="Be brief.", messages=[], licenses=("CC0-1.0",),
        parameters={"stop": ["<|end|>"], "temperature": 0.6})
    settings = read_preset(other)
    assert other.place == model.place and settings.system == "Tell stories."
    assert settings.messages == [{"role": "user", "content": "hi"}] and not settings.template
    assert len(other.adapters) == len(other.projectors) == 1
    assert [p.name for p in find_one("quarry/Slate-4B-GGUF:Q6_K").projectors] == [
        "mmproj-Slate-4B-GGUF-f16.gguf"]
    assert find_one("tin.roof/Walnut_3B-GGUF:Q8_0").files[2].name.endswith("00003-of-00003.gguf")
    assert read_preset(find_one("orphan-Q8_0")) == Preset()


def test_no_stores(no_stores: Path) -> None:
    assert listed() == [] and [s.is_ours for s in stores().values()] == [
        True, True, False, False, False]
    assert list(stores()) == ["unladen", "Hugging Face", "llama.cpp", "LM Studio", "Ollama"]


def test_odd_files_in_the_place_of_stores(no_stores: Path, monkeypatch: pytest.MonkeyPatch
                                          ) -> None:
    no_stores.mkdir(parents=True)
    for name in (".ollama", ".lmstudio", ".cache"):
        (no_stores / name).write_bytes(b"\0")
    os.mkfifo(no_stores / ".lmstudio-home-pointer")
    assert listed() == []
    for name in ("OLLAMA_MODELS", "LLAMA_CACHE", "HF_HOME"):
        monkeypatch.setenv(name, "/dev/null")
    assert listed() == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all")
def test_a_folder_that_may_not_be_read(built: Built, caplog: pytest.LogCaptureFixture) -> None:
    assert listed() and "locked" in caplog.text


JSON = (None, True, 0, -1, 1e400, "", "x", "../..", "sha256:" + "0" * 64, [], {}, [[]], [None],
        {"digest": []}, {"mediaType": "application/vnd.ollama.image.model"}, {"lfs": 3},
        {"rfilename": "../x.gguf"}, {"rfilename": "/x.gguf", "size": "many"}, {"layers": [{}]})


def some_json(draw: random.Random, depth: int = 3) -> object:
    if depth and draw.random() < 0.6:
        keys = ["layers", "config", "digest", "mediaType", "size", "manifests", "runner",
                "ggufFile", "mmprojFile", "rfilename", "lfs", "sha256", "downloadsFolder"]
        return {draw.choice(keys): some_json(draw, depth - 1) for _ in range(4)}
    if depth and draw.random() < 0.3:
        return [some_json(draw, depth - 1) for _ in range(3)]
    return draw.choice(JSON)


@pytest.mark.parametrize("layer", [3, None, {}, {"mediaType": 7, "digest": "sha256:0"}])
def test_a_malformed_layer_is_told(no_stores: Path, layer: object) -> None:
    """It may be what the model writes by, so that the model isn't used without it."""
    manifest = ollama_store.add(no_stores / ".ollama/models", "odd:1b", INCLUDED["tiny"])
    told = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**told, "layers": [*told["layers"], layer]}))
    found, = listed()
    assert (found.name, found.is_usable) == ("odd:1b", False)
    assert "malformed" in found.problem


@pytest.mark.parametrize("first", [None, 5, "x.gguf", [], {"rfilename": "gone.gguf", "size": 1}])
def test_a_manifest_whose_projector_is_a_model(no_stores: Path, first: object) -> None:
    """What the manifest says of its first file doesn't count for another one."""
    llama = no_stores / ".cache/llama.cpp"
    llama.mkdir(parents=True)
    data = b"GGUF"
    (llama / "o_r_x.gguf").write_bytes(data)
    manifest = {"ggufFile": first, "mmprojFile": {"rfilename": "x.gguf", "size": len(data)}}
    (llama / "manifest=o=r=latest.json").write_text(json.dumps(manifest))
    found, = listed()
    assert found.repo == "o/r" and found.filename == "x.gguf" and not found.problem


def test_any_record_is_survived(no_stores: Path) -> None:
    seed = secrets.randbits(32)
    print(f"seed: {seed}")
    draw = random.Random(seed)
    ollama = no_stores / ".ollama/models/manifests/registry.ollama.ai/library"
    llama, lms = no_stores / ".cache/llama.cpp", no_stores / ".lmstudio"
    for folder in (llama, lms):
        folder.mkdir(parents=True)
    (llama / "o_r_x.gguf").write_bytes(b"GGUF")
    for n in range(60):
        for path in (ollama / f"m{n}" / "latest", llama / f"manifest=o=r=t{n}.json",
                     lms / "settings.json"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(some_json(draw)))
    found = listed(glance)
    assert len([m for m in found if m.store == "Ollama"]) == 60
    assert not [m for m in found if m.is_usable]
    for model in found:
        if model.store == "Ollama":
            with contextlib.suppress(UnladenError):
                read_preset(model)
    (no_stores / ".lmstudio-home-pointer").write_text("~nobody-of-this-name/x")
    assert len(listed()) == len(found)
