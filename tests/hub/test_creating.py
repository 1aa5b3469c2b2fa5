"""Models of a user's own: copies, Modelfiles, and what becomes of their weights."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path

import numpy as np
import pytest

from hub.stores.conftest import Built
from hub.stores.conftest import build_tools as build_tools
from hub.stores.conftest import built as built
from hub.stores.conftest import no_stores as no_stores
from hub.stores.conftest import pile as pile
from hub.stores.conftest import scenario as scenario
from tiny_model import write_tiny
from unladen.errors import InvalidArgument, ModelfileError, ModelNotFound, UnladenError
from unladen.gguf.glance import glance
from unladen.hub import INCLUDED, find_model, resolve_model
from unladen.hub.creating import Made, copy, create
from unladen.hub.modelfile import parse
from unladen.hub.modelfile.writing import written
from unladen.hub.stores import find_one, listed
from unladen.hub.stores.created import folder
from unladen.hub.stores.removal import remove
from unladen.hub.stores.verifying import stored_at, verify


def resolve(text: str) -> Path:
    return resolve_model(text, aliases=INCLUDED, look=glance)


def make(name: str, text: str, where: Path = Path()) -> Made:
    return create(name, parse(text), where, resolve, glance)


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    return Path(write_tiny(tmp_path / "plain.gguf",
                           np.random.default_rng(secrets.randbits(32))))


FULL = '''FROM ./plain.gguf
PARAMETER temperature 0.25
PARAMETER num_ctx 128
PARAMETER num_gpu -1
PARAMETER num_predict -1
PARAMETER num_keep 4
PARAMETER stop <end>
PARAMETER stop """two
lines"""
TEMPLATE {{ .Prompt }}
SYSTEM Be brief.
MESSAGE user Who?
MESSAGE assistant I.
LICENSE CC0
GPU_LAYERS 3
FLASH_ATTENTION true
THINKING enabled false
AUTHOR somebody
'''


def test_all_that_a_modelfile_says_is_kept(no_stores: Path, gguf: Path) -> None:
    before = gguf.stat().st_mtime_ns
    made = make("Keeper", FULL, gguf.parent)
    assert (made.name, made.weights, gguf.stat().st_mtime_ns) == ("Keeper:latest", gguf, before)
    assert [text.split()[1] for text in made.warnings] == ["num_keep"]
    for name in ("keeper", "KEEPER:latest", "library/Keeper"):
        found = find_model(name, aliases={})
        assert found.path == gguf and found.preset is not None
        preset = found.preset
        assert (preset.template, preset.system) == ("{{ .Prompt }}", "Be brief.")
        assert preset.messages == [{"role": "user", "content": "Who?"},
                                   {"role": "assistant", "content": "I."}]
        assert preset.loading() == {"context_size": 128, "n_gpu_layers": 3}
        assert preset.answering() == {"temperature": 0.25, "stop": ["<end>", "two\nlines"],
                                      "reasoning": False}
    model, = listed(glance)
    assert (model.name, model.store, model.is_usable) == ("Keeper:latest", "unladen", True)
    assert model.size == gguf.stat().st_size
    json.dumps(model.facts())


def test_from_a_model_that_was_made(no_stores: Path, gguf: Path) -> None:
    make("one", FULL, gguf.parent)
    make("two:v2", "FROM one\nPARAMETER temperature 1\nSYSTEM Be long.\nLICENSE MIT\n")
    preset = find_model("two:v2", aliases={}).preset
    assert preset is not None
    assert (preset.system, preset.template) == ("Be long.", "{{ .Prompt }}")
    assert preset.answering()["temperature"] == 1 and preset.loading()["context_size"] == 128
    assert len(preset.messages) == 2
    whole = json.loads((folder() / "library" / "two" / "v2.json").read_text())
    assert whole["licenses"] == ["CC0", "MIT"]
    with pytest.raises(ModelNotFound):
        find_model("two", aliases={})
    make("two:v2", "FROM one\nMESSAGE user Only this.\n")  # it takes the place of the first one
    again = find_model("two:V2", aliases={}).preset
    assert again is not None and (again.system, len(again.messages)) == ("Be brief.", 1)
    assert len(listed()) == 2


def test_a_copy(built: Built) -> None:
    made = copy("pebble:1b", "mine", resolve, glance)
    found, source = find_model("mine", aliases={}), find_one("pebble:1b")
    assert found.path == made.weights and os.path.realpath(found.path) == source.place
    assert found.preset is not None and found.preset.system == "Be brief."
    assert found.preset.answering() == {"temperature": 0.6, "stop": ["<|end|>"]}
    assert found.preset.template == "{{ .Prompt }}"
    assert verify(find_one("mine")) == (found.path,)
    assert stored_at(found.path).digests
    copy("pebble:1b", "pebble:1b", resolve, glance)
    assert find_one("pebble:1b").store == "unladen"
    remove("pebble:1b", glance)
    assert find_one("pebble:1b").store == "Ollama"
    with pytest.raises(InvalidArgument, match="has an adapter"):
        copy("marlow/story-teller:v2", "mine", resolve, glance)


def test_a_copy_of_a_split_model(built: Built) -> None:
    copy("tin.roof/Walnut_3B-GGUF:Q8_0", "you/walnut:q8", resolve, glance)
    model, source = find_one("you/walnut:q8"), find_one("tin.roof/Walnut_3B-GGUF:Q8_0")
    assert len(model.files) == 3 and (model.size, model.quant) == (source.size, "Q8_0")


def test_weights_that_a_copy_needs_stay(built: Built) -> None:
    name = "acorn-labs/Pebble-1B-Instruct-GGUF:Q8_0"
    copy(name, "mine", resolve, glance)
    weights = find_one("mine").path
    with pytest.raises(InvalidArgument, match="has the weights of mine:latest") as caught:
        remove(name, glance)
    assert "unladen rm mine" in caught.value.hint and weights.is_file()
    removed = remove("MINE", glance)
    assert [path.suffix for path in removed.files] == [".json"] and weights.is_file()
    assert not (folder() / "library").exists()
    assert remove(name, glance).files and not weights.exists()


def test_weights_that_are_gone(no_stores: Path, gguf: Path) -> None:
    make("keeper", "FROM ./plain.gguf\nSYSTEM x\n", gguf.parent)
    gguf.unlink()
    model, = listed(glance)
    assert not model.is_usable and str(gguf) in model.problem and "doesn't exist" in model.problem
    with pytest.raises(ModelNotFound, match=r"keeper is made of .*doesn't exist") as caught:
        find_model("keeper", aliases={})
    assert caught.value.hint


def test_a_model_of_the_package(no_stores: Path) -> None:
    """Another installation of the package has it in another folder."""
    make("story", "FROM tiny\nSYSTEM x\n")
    record = json.loads((folder() / "library" / "story" / "latest.json").read_text())
    assert record["files"] == ["tiny"]
    assert find_model("story", aliases={}).path == INCLUDED["tiny"]


def test_folders(no_stores: Path, tmp_path: Path, gguf: Path) -> None:
    place = tmp_path / "several"
    place.mkdir()
    with pytest.raises(ModelfileError, match="no GGUF model"):
        make("a", f"FROM {place}")
    gguf.rename(place / "m-Q8_0.gguf")
    assert make("a", "FROM ./several", tmp_path).weights == place / "m-Q8_0.gguf"
    (place / "m-Q4_0.gguf").write_bytes((place / "m-Q8_0.gguf").read_bytes())
    with pytest.raises(ModelfileError, match="2 models"):
        make("a", f"FROM {place}")
    other = tmp_path / "safe"
    other.mkdir()
    (other / "model.safetensors").write_bytes(b"x")
    with pytest.raises(ModelfileError, match="aren't GGUF") as caught:
        make("a", f"FROM {other}")
    assert "convert" in caught.value.hint


def test_projectors(no_stores: Path, tmp_path: Path, gguf: Path, build_tools: object) -> None:
    (tmp_path / "mmproj.gguf").write_bytes(build_tools.gguf(  # type: ignore[attr-defined]
        "p", "F16", "mmproj"))
    made = make("eye", "FROM ./plain.gguf\nFROM ./mmproj.gguf\n", tmp_path)
    assert find_one("eye").projectors == (tmp_path / "mmproj.gguf",)
    made = make("eye", "FROM ./plain.gguf\nVISION_PROJECTOR ./mmproj.gguf\n", tmp_path)
    assert find_one("eye").projectors == (tmp_path / "mmproj.gguf",)
    assert any("pictures" in text for text in made.warnings)
    with pytest.raises(ModelfileError, match="one model, got 0"):
        make("eye", "FROM ./mmproj.gguf\n", tmp_path)


WRONG = (
    ("FROM ./none.gguf", ModelNotFound, "doesn't exist"), ("FROM none:1b", ModelNotFound, "none"),
    ("FROM tiny\nADAPTER ./a.gguf", ModelfileError, "ADAPTER can't be followed"),
    ("FROM tiny\nFROM tiny-chat", ModelfileError, "one model, got 2"),
    ("FROM tiny\nPARAMETER temperature -1", ModelfileError, "PARAMETER temperature"),
    ("FROM tiny\nPARAMETER num_ctx -5", ModelfileError, "PARAMETER num_ctx"),
    ("FROM tiny\nGPU_LAYERS -7", ModelfileError, "GPU_LAYERS"),
    ("FROM tiny\nTEMPLATE {{ range .Messages }}", UnladenError, "template"),
    ("FROM tiny\nVISION_PROJECTOR ./no.gguf", ModelNotFound, "VISION_PROJECTOR"),
    (f"FROM tiny\nDIGEST sha256:{'0' * 64}", UnladenError, "DIGEST says"))


@pytest.mark.parametrize(("text", "kind", "says"), WRONG)
def test_what_can_not_be_followed(no_stores: Path, text: str, kind: type[Exception], says: str
                                  ) -> None:
    with pytest.raises(kind, match=says) as caught:
        make("a", text)
    assert isinstance(caught.value, UnladenError) and caught.value.hint
    assert listed() == []


def test_the_right_digest(no_stores: Path, gguf: Path) -> None:
    digest = hashlib.sha256(gguf.read_bytes()).hexdigest()
    make("a", f"FROM {gguf}\nDIGEST sha256:{digest}\n")
    assert verify(find_one("a")) == (gguf,)
    with gguf.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(bytes([gguf.read_bytes()[-1] ^ 1]))
    with pytest.raises(UnladenError, match="damaged"):
        verify(find_one("a"))


@pytest.mark.parametrize("name", ["", "a b", "../a", "a/../b", "a/b/c", "a:b:c", "hf.co/a/b", ".a",
                                  "a:", "tiny", "Tiny-Chat", "x.gguf", "a\0", "\u00e9", "a" * 81])
def test_what_is_no_name(no_stores: Path, name: str) -> None:
    with pytest.raises(InvalidArgument):
        make(name, "FROM tiny")
    assert not folder().exists()


JUNK = ("", "[]", "{", '{"format": 2, "files": ["x"]}', '{"format": 1}', "\0",
        '{"format": 1, "files": []}', '{"format": 1, "files": [1]}',
        '{"format": 1, "files": ["/x"], "messages": {"role": "user"}}',
        '{"format": 1, "files": ["/x"], "parameters": []}', '{"format": 1, "files": ["\\u0000"]}',
        '{"format": 1, "files": ["/x"], "system": {}}')


def test_damaged_records(no_stores: Path) -> None:
    place = folder() / "library" / "odd"
    place.mkdir(parents=True)
    for i, text in enumerate(JUNK):
        (place / f"t{i}.json").write_text(text)
    (place / "not a name.json").write_text("{}")
    (place / "folder.json").mkdir()
    assert not [m for m in listed(glance) if m.is_usable]
    for i in range(len(JUNK)):
        with pytest.raises(ModelNotFound, match="record"):
            find_model(f"odd:t{i}", aliases={})
        assert remove(f"odd:t{i}").files


def test_a_malformed_message_is_left_out_and_told(no_stores: Path, gguf: Path,
                                                  caplog: pytest.LogCaptureFixture) -> None:
    made = make("odd", FULL, gguf.parent)
    record = json.loads(made.record.read_text())
    record["messages"] = ["x", {"role": "user", "content": [1]}, *record["messages"], {}]
    made.record.write_text(json.dumps(record))
    found = find_model("odd", aliases={})
    assert found.preset is not None and found.preset.system == "Be brief."
    assert [m["content"] for m in found.preset.messages] == ["Who?", "I."]
    assert [line.partition(" is left out: ")[::2] for line in caplog.messages] == [
        ("message 1 of 5 of odd:latest", "it is no message"),
        ("message 2 of 5 of odd:latest", "its content is no text"),
        ("message 5 of 5 of odd:latest", "its role is no text")]


def test_texts_that_are_too_long(no_stores: Path) -> None:
    with pytest.raises(InvalidArgument, match="are the most"):
        make("a", f'FROM tiny\nLICENSE """{"x" * (5 << 20)}"""\n')
    assert listed() == []


def test_a_folder_that_can_not_be_written(no_stores: Path, tmp_path: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLADEN_MODELS", "/dev/null/models")
    with pytest.raises(UnladenError, match="can't be written") as caught:
        make("a", "FROM tiny")
    assert "UNLADEN_MODELS" in caught.value.hint


@pytest.mark.parametrize("text", ["plain", " blanks ", "two\nlines", '"quoted"', 'in "it"', "#", "",
                                  "\u2028", "{{ .System }}\n\n{{ .Prompt }}\n"])
def test_a_modelfile_that_is_written_is_read_again(text: str) -> None:
    parameters = {"temperature": 0.5, "stop": ["a b", text or "x"], "num_ctx": 7,
                  "use_mmap": False}
    found = parse(written(["tiny", "./p.gguf"], template=text, system=text, parameters=parameters,
                          messages=[{"role": "user", "content": text}], licenses=[text or "x"]))
    assert found.sources == ("tiny", "./p.gguf") and found.parameters == parameters
    assert (found.last("TEMPLATE") or "", found.last("SYSTEM") or "") == (text, text)
    assert found.messages == [{"role": "user", "content": text}]
    assert found.every("LICENSE") == (text or "x",)
