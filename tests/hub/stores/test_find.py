"""Names of stored models: which file they mean, and which they never mean."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hub.stores.conftest import Built
from unladen.errors import InvalidArgument, ModelNotFound, UnladenError
from unladen.gguf.glance import glance
from unladen.hub import resolve_model
from unladen.hub.stores import find, find_one, listed

IMAGE = "application/vnd.ollama.image."


def ollama(built: Built, name: str, data: bytes, tree: str = "manifests") -> Path:
    """Add a model to Ollama's store; ``name`` is HOST/NAMESPACE/MODEL/TAG."""
    models = built.places["ollama"]
    blob = models / "blobs" / f"sha256-{hashlib.sha256(data).hexdigest()}"
    blob.write_bytes(data)
    manifest = models / tree / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"layers": [
        {"mediaType": f"{IMAGE}model", "digest": blob.name.replace("-", ":"),
         "size": len(data)}]}))
    return blob


def lm_studio(built: Built, name: str, data: bytes) -> Path:
    path = built.places["lmstudio"] / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_name_of_two_models(built: Built) -> None:
    lm_studio(built, "sam/one/one-Q8_0.gguf", built.gguf("one", "Q8_0"))
    ollama(built, "registry.ollama.ai/sam/one/Q8_0", built.gguf("two", "Q8_0"))
    with pytest.raises(InvalidArgument, match="may be several models") as caught:
        resolve_model("sam/one:Q8_0", aliases={}, look=glance)
    assert "LM Studio" in str(caught.value) and "Ollama" in str(caught.value)
    assert resolve_model("registry.ollama.ai/sam/one:q8_0", aliases={}).parent.name == "blobs"
    assert resolve_model("sam/one/one-Q8_0.gguf", aliases={}).name == "one-Q8_0.gguf"


def test_names_that_differ_in_case(built: Built) -> None:
    first = ollama(built, "registry.ollama.ai/library/Cat/1b", built.gguf("first"))
    second = ollama(built, "registry.ollama.ai/library/cat/1B", built.gguf("second"))
    assert resolve_model("Cat:1b", aliases={}) == first
    assert resolve_model("cat:1B", aliases={}) == second
    with pytest.raises(InvalidArgument, match="Cat:1b of Ollama"):
        resolve_model("CAT:1B", aliases={})


def test_copies_of_a_repository_are_one_model(built: Built) -> None:
    copy = lm_studio(built, "birch/Lamp-GGUF/lamp-Q8_0.gguf", built.gguf("lamp", "Q8_0"))
    assert resolve_model("birch/Lamp-GGUF:Q8_0", aliases={}) != copy
    names = [m.store for m in listed(glance) if m.name == "birch/Lamp-GGUF:Q8_0"]
    assert len(names) == 2


def test_several_files_of_one_quant(built: Built) -> None:
    one = lm_studio(built, "a/b/one-Q8_0.gguf", built.gguf("one", "Q8_0"))
    lm_studio(built, "a/b/two-Q8_0.gguf", built.gguf("two", "Q8_0", "adapter"))
    assert resolve_model("a/b:Q8_0", aliases={}, look=glance) == one
    lm_studio(built, "a/b/three-Q8_0.gguf", built.gguf("three", "Q8_0"))
    names = {m.name for m in listed(glance) if m.repo == "a/b" and m.is_usable}
    assert names == {"a/b/one-Q8_0.gguf", "a/b/three-Q8_0.gguf"}
    assert resolve_model("a/b/one-Q8_0.gguf", aliases={}, look=glance) == one
    with pytest.raises(UnladenError):
        resolve_model("a/b:Q8_0", aliases={}, look=glance)


def test_a_quant_that_only_the_header_says(built: Built) -> None:
    path = lm_studio(built, "a/plain/model.gguf", built.gguf("plain", "Q5_K_M"))
    assert [m.name for m in listed(glance) if m.repo == "a/plain"] == ["a/plain:Q5_K_M"]
    assert resolve_model("a/plain:q5_k_m", aliases={}, look=glance) == path
    assert resolve_model("a/plain", aliases={}, look=glance) == path


def test_without_the_hub_the_only_quant_will_do(built: Built) -> None:
    assert resolve_model("quarry/Mica-GGUF", aliases={}).name == "mica.F16.gguf"
    lm_studio(built, "quarry/Mica-GGUF/mica.Q8_0.gguf", built.gguf("m", "Q8_0"))
    with pytest.raises(ModelNotFound):
        resolve_model("quarry/Mica-GGUF", aliases={})
    best = lm_studio(built, "quarry/Mica-GGUF/mica.Q4_K_M.gguf", built.gguf("m"))
    assert resolve_model("quarry/Mica-GGUF", aliases={}) == best


BROKEN = (
    ("gone:7b", "lacks its blob"), ("half:7b", "lacks its blob"), ("sized:1b", "its manifest says"),
    ("escape:rel", "malformed digest"), ("escape:abs", "malformed digest"),
    ("broken:text", "isn't one"), ("broken:types", "without weights"),
    ("mlxonly:4b", "safetensors"),
    ("sky:120b-cloud", "another machine"), ("tin.roof/Walnut_3B-GGUF:BF16", "00002-of-00003"),
    ("acorn-labs/Pebble-1B-Instruct-GGUF:Q2_K", "which doesn't exist"),
    ("birch/Lantern-GGUF/mmproj-F16.gguf", "of kind projector"))


def test_what_cannot_be_used(built: Built) -> None:
    for name, message in BROKEN:
        with pytest.raises(ModelNotFound, match=message) as caught:
            resolve_model(name, aliases={}, look=glance)
        assert caught.value.hint


STRANGE = (
    "../outside/secret.gguf", "library/../../pebble:1b", "pebble:../1b", "pebble/1b",
    "manifests/registry.ollama.ai/library/pebble/1b", "blobs/sha256-" + "a" * 64, "loop/again:Q8_0",
    "acorn-labs/Pebble-1B-Instruct-GGUF@..:Q4_K_M", "acorn-labs/Pebble-1B-Instruct-GGUF:Q6_K",
    "win/Copied-GGUF/../../x.gguf", "\0", "pebble:1b\0", "acorn/talks:Q8_0", "pebble")


def test_names_do_not_leave_the_store(built: Built) -> None:
    for name in STRANGE:
        with pytest.raises(UnladenError):
            resolve_model(name, aliases={}, look=glance)


def test_suggestions(built: Built) -> None:
    with pytest.raises(ModelNotFound) as caught:
        resolve_model("pebbel:1b", aliases={})
    assert caught.value.hint.startswith("did you mean pebble:1b?")
    with pytest.raises(ModelNotFound, match="no store") as caught:
        find_one("walnut:lates")
    assert "walnut:latest" in caught.value.hint
    assert find("xyzzy:1b") is None


def test_links_out_of_ollamas_store(built: Built) -> None:
    blob = ollama(built, "registry.ollama.ai/library/out/1b", built.gguf("out"))
    far = built.root / "outside" / "far.gguf"
    blob.rename(far)
    blob.symlink_to(far)
    with pytest.raises(ModelNotFound, match="link out of the store"):
        resolve_model("out:1b", aliases={})
    manifest = built.places["ollama"] / "manifests/registry.ollama.ai/library/out/1b"
    moved = built.root / "outside" / "manifest"
    manifest.rename(moved)
    manifest.symlink_to(moved)
    with pytest.raises(ModelNotFound, match="isn't one"):
        resolve_model("out:1b", aliases={})


def test_newer_trees_of_manifests(built: Built) -> None:
    ollama(built, "registry.ollama.ai/library/new/1b", built.gguf("old"))
    data = built.gguf("newer")
    made = ollama(built, "registry.ollama.ai/library/new/1b", data, "manifests-v2")
    manifest = built.places["ollama"] / "manifests-v2/registry.ollama.ai/library/new/1b"
    text = manifest.read_bytes()
    blob = made.parent / f"sha256-{hashlib.sha256(text).hexdigest()}"
    manifest.rename(blob)
    manifest.symlink_to(os.path.relpath(blob, manifest.parent))
    assert resolve_model("new:1b", aliases={}) == made
    child = {"digest": blob.name.replace("-", ":"), "size": len(text), "runner": "llamacpp"}
    manifest.unlink()
    manifest.write_text(json.dumps({
        "mediaType": "application/vnd.ollama.manifest.list.v2+json",
        "manifests": [{"digest": "sha256:" + "e" * 64, "runner": "mlx"}, child]}))
    assert resolve_model("new:1b", aliases={}) == made


def test_a_file_here_comes_first(built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                 ) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pebble:1b").write_bytes(b"x")
    assert resolve_model("pebble:1b", aliases={}) == Path("pebble:1b")
    assert resolve_model("walnut", aliases={"walnut": tmp_path / "pebble:1b"}).name == "pebble:1b"


def test_refs(built: Built) -> None:
    home = built.places["hub"] / "models--some--refs"
    for n, ref in enumerate(("v2", "pr/1"), 1):
        commit = str(n) * 40
        path = home / "snapshots" / commit / f"m{n}-Q4_0.gguf"
        path.parent.mkdir(parents=True)
        path.write_bytes(built.gguf(ref, "Q4_0"))
        (home / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (home / "refs" / ref).write_text(commit)
    for ref in ("bad", "worse"):
        (home / "refs" / ref).write_text("../../../outside" if ref == "bad" else "\xff")
    names = {m.name for m in listed(glance) if m.repo == "some/refs"}
    # Without the ref main the first one gives a copy its plain name.
    assert names == {"some/refs:Q4_0", "some/refs@v2:Q4_0"}
    assert resolve_model("some/refs:Q4_0", aliases={}).name == "m2-Q4_0.gguf"
    (home / "refs" / "main").write_text("1" * 40)
    names = {m.name for m in listed(glance) if m.repo == "some/refs"}
    assert names == {"some/refs:Q4_0", f"some/refs@{'2' * 40}:Q4_0"}
    for name in names:
        assert resolve_model(name, aliases={}).is_file()
    assert resolve_model("some/refs", aliases={}).name == "m1-Q4_0.gguf"


def test_a_header_says_which_of_two_quants_is_meant(built: Built) -> None:
    path = lm_studio(built, "a/c/like-F16-Q8_0.gguf", built.gguf("c", "F16"))
    other = lm_studio(built, "a/d/d-UD-Q4_K_XL.gguf", built.gguf("d"))
    assert {m.name for m in listed(glance) if m.repo in ("a/c", "a/d")} == {
        "a/c:F16", "a/d:UD-Q4_K_XL"}
    assert resolve_model("a/c:F16", aliases={}, look=glance) == path
    assert resolve_model("a/d:UD-Q4_K_XL", aliases={}, look=glance) == other


PLUGIN = """
from pathlib import Path
from unladen.hub.stores import Store, StoredModel


class Shelf(Store):
    program = "Shelf"
    order = 9

    def models(self):
        yield StoredModel("book:1", Path(__file__), self.program, files=(Path(__file__),))

    def removed_with(self, model):
        return [model.path]
"""


def test_a_plug_in_brings_a_store(no_stores: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "plugins" / "stores" / "shelf.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(PLUGIN)
    code = "from unladen.hub import resolve_model; print(resolve_model('Book:1', aliases={}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env={**os.environ, "UNLADEN_PLUGIN_PATH": str(plugin.parents[1])})
    assert done.stdout == f"{plugin}\n", done.stderr
