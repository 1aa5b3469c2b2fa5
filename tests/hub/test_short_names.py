"""Short names of models: the package's table, and one that a user edits."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hub.stores.conftest import build_tools as build_tools
from hub.stores.conftest import built as built
from hub.stores.conftest import no_stores as no_stores
from hub.stores.conftest import pile as pile
from hub.stores.conftest import scenario as scenario
from unladen.errors import InvalidArgument
from unladen.hub import HubQuant, ModelNotFound, find_model, parse_ref, resolve_model
from unladen.hub.resolve import quant_of
from unladen.hub.short_names import TABLE, meaning


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "names.toml"
    monkeypatch.setenv("UNLADEN_NAMES", str(path))
    return path


def test_every_line_of_the_packages_table(table: Path) -> None:
    given = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    assert len(given) > 30 and "llama3.2:1b" in given
    for name, ref in given.items():
        assert name == name.lower() and not name.endswith(":latest")
        found = parse_ref(ref, aliases={})
        assert isinstance(found, HubQuant) and found.quant == quant_of(f"{found.quant}.gguf"), ref
        assert parse_ref(meaning(name), aliases={}) == found


@pytest.mark.parametrize(("name", "means"), [
    ("llama3.2:1b", "bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M"),
    ("Llama3.2:1B", "bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M"),
    ("llama3.2:latest", "bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M"),
    ("llama3.2", "bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M"),
    ("llama3.2:1b-q8_0", "bartowski/Llama-3.2-1B-Instruct-GGUF:Q8_0"),
    ("llama3.2:1b-instruct-q8_0", "bartowski/Llama-3.2-1B-Instruct-GGUF:Q8_0"),
    ("gemma3:4b-it-iq4_xs", "ggml-org/gemma-3-4b-it-GGUF:IQ4_XS"),
    ("llama3.2:1b-instruct-fp8", "llama3.2:1b-instruct-fp8"), ("llama3.2:2b", "llama3.2:2b"),
    ("org/repo:Q4_K_M", "org/repo:Q4_K_M"), ("", "")])
def test_what_a_name_stands_for(table: Path, name: str, means: str) -> None:
    assert meaning(name) == means


def test_a_users_own_table(table: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(b"GGUF")
    table.write_text(f'"llama3.2:1b" = "me/mine:Q5_K_M"\nbest = "Llama3.2:1b"\n'
                     f'here = "{file}"\n"small:latest" = "qwen3:0.6b"\n')
    assert meaning("llama3.2:1b") == meaning("best") == meaning("BEST:latest") == "me/mine:Q5_K_M"
    assert meaning("small") == "Qwen/Qwen3-0.6B-GGUF:Q8_0"
    assert meaning("best:q8_0") == "best:q8_0"
    assert resolve_model("here", aliases={}) == file


@pytest.mark.parametrize(("text", "says"), [
    ('a = "b"\nb = "c"\nc = "a"\n', "goes in circles"), ("a", "isn't TOML"),
    ("llama3.2 = 'x/y'\n", "must stand for a model"), ("a = 1\n", "must stand for a model"),
    ('a = ""\n', "must stand for a model")])
def test_a_table_that_can_not_be_used(table: Path, text: str, says: str) -> None:
    table.write_text(text)
    with pytest.raises(InvalidArgument, match=says) as caught:
        resolve_model("a", aliases={})
    assert caught.value.hint and str(table) in caught.value.message


def test_a_table_that_is_no_text(table: Path) -> None:
    table.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidArgument, match="isn't TOML"):
        meaning("a")


def test_a_store_comes_before_the_packages_table(built: object, table: Path) -> None:
    """A model that is on this machine is used, and none is downloaded."""
    table.write_text('"pebble:1b" = "quarry/Mica-GGUF:F16"\n"llama3.2:1b" = "walnut"\n')
    assert resolve_model("pebble:1b", aliases={}).name == "mica.F16.gguf"
    assert resolve_model("llama3.2:1b", aliases={}) == resolve_model("walnut", aliases={})
    table.unlink()
    assert resolve_model("pebble:1b", aliases={}).parent.name == "blobs"
    with pytest.raises(ModelNotFound, match=r"bartowski/Llama-3\.2-1B-Instruct-GGUF"):
        find_model("llama3.2:1b", aliases={})
