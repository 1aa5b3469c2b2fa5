"""Removing models, and checking them against their checksums."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hub.stores.conftest import Built
from unladen.errors import InvalidArgument, ModelNotFound, UnladenError
from unladen.gguf.glance import glance
from unladen.hub.stores import find, find_one, listed
from unladen.hub.stores.removal import remove
from unladen.hub.stores.verifying import stored_at, verify


def files(root: Path) -> set[str]:
    return {str(p) for p in root.rglob("*") if p.is_symlink() or p.is_file()}


def test_from_our_cache(built: Built) -> None:
    hub, before = built.places["hub"], files(built.root)
    model = find_one("acorn-labs/Pebble-1B-Instruct-GGUF:Q4_K_M")
    blob = Path(model.place)
    removed = remove(model.name, glance)
    assert before - files(built.root) == {str(p) for p in removed.files}
    assert set(removed.files) == {model.path, blob}
    assert removed.n_bytes == model.size and find(model.name) is None
    assert find_one("acorn-labs/Pebble-1B-Instruct-GGUF:Q8_0").path.is_file()
    split = remove("tin.roof/Walnut_3B-GGUF:Q8_0", glance)
    assert len(split.files) == 6 and not split.files[0].parent.exists()
    for broken in ("acorn-labs/Pebble-1B-Instruct-GGUF:Q2_K", "win/Copied-GGUF:Q6_K",
                   "tin.roof/Walnut_3B-GGUF:BF16"):
        assert remove(broken, glance).files
        assert broken not in {m.name for m in listed()}
    assert (hub / "models--win--Copied-GGUF" / "refs" / "main").is_file()


def test_a_blob_that_another_file_needs_stays(built: Built) -> None:
    model = find_one("acorn-labs/Pebble-1B-Instruct-GGUF:Q8_0")
    twin = model.path.with_name("twin.Q8_0-copy.gguf")
    twin.symlink_to(os.readlink(model.path))
    removed = remove(f"{model.repo}/{model.filename}", glance)
    assert removed.files == (model.path,) and removed.n_bytes == 0 and twin.is_file()


@pytest.mark.parametrize(("name", "program", "n_files"), [
    ("quarry/Mica-GGUF:F16", "LM Studio", 1), ("birch/Lantern-GGUF:Q4_0", "llama.cpp", 4),
    ("birch/Lamp-GGUF:Q8_0", "llama.cpp", 2), ("orphan-Q8_0.gguf", "llama.cpp", 1),
    ("walnut", "Ollama", 3), ("marlow/story-teller:v2", "Ollama", 5), ("gone:7b", "Ollama", 1)])
def test_from_another_programs_store(built: Built, name: str, program: str, n_files: int) -> None:
    before = files(built.root)
    with pytest.raises(InvalidArgument, match=f"belongs to {program}") as caught:
        remove(name, glance)
    assert "--from-store" in caught.value.hint and files(built.root) == before
    removed = remove(name, glance, from_other=True)
    assert before - files(built.root) == {str(p) for p in removed.files}
    assert len(removed.files) == n_files
    with pytest.raises(ModelNotFound):
        find_one(name)
    assert find_one("pebble:1b").path.is_file()


def test_what_is_not_removed(built: Built) -> None:
    before = files(built.root)
    with pytest.raises(UnladenError, match="behind a link"):
        remove("linked/Linked-GGUF:Q4_0", glance, from_other=True)
    with pytest.raises(ModelNotFound, match="no store"):
        remove("../outside/secret.gguf", glance, from_other=True)
    remove("escape:rel", glance, from_other=True)
    assert len(before - files(built.root)) == 1  # the manifest
    assert (built.root / "outside" / "secret.gguf").is_file()


def test_a_blob_outside_is_not_removed(built: Built) -> None:
    model = find_one("acorn-labs/Pebble-1B-Instruct-GGUF:Q8_0")
    far = built.root / "outside" / "far.gguf"
    Path(model.place).rename(far)
    model.path.unlink()
    model.path.symlink_to(far)
    assert remove(model.name, glance).files == (model.path,) and far.is_file()


def test_checksums(built: Built) -> None:
    for name in ("acorn-labs/Pebble-1B-Instruct-GGUF:Q8_0", "walnut", "birch/Lantern-GGUF",
                 "tin.roof/Walnut_3B-GGUF:Q8_0"):
        model = stored_at(find_one(name).path)
        assert verify(model) == model.files
        Path(os.path.realpath(model.files[-1])).write_bytes(
            bytes(b ^ 1 for b in model.files[-1].read_bytes()))
        with pytest.raises(UnladenError, match="is damaged") as caught:
            verify(model)
        assert "get it again" in caught.value.hint
    with pytest.raises(UnladenError, match="LM Studio keeps no checksum"):
        verify(find_one("quarry/Mica-GGUF:F16"))
    with pytest.raises(ModelNotFound, match="no store"):
        stored_at(built.root / "outside" / "secret.gguf")


def test_facts_are_json(built: Built) -> None:
    for model in listed():
        assert set(json.loads(json.dumps(model.facts()))) >= {"name", "path", "size", "problem"}
