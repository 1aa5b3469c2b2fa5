"""Settings from a TOML file and from options; every wrong key is named."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from unladen.errors import InvalidArgument
from unladen.server.config import (
    SERVER,
    model_of,
    name_of,
    read_config,
    settings_of,
    with_options,
)
from unladen.server.settings import ModelSettings, Settings

FILE = """
[server]
host = "localhost"
port = 9000
keep_alive = "10m"
max_waiting = 3
origins = ["https://chat.example"]
audit = "audit.jsonl"

[[models]]
ref = "models/a.gguf"
aliases = ["small", "claude-haiku-4"]
context_size = 2048
num_gpu = 3
keep_alive = -1

[[models]]
name = "b"
ref = "tiny"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "unladen.toml"
    path.write_text(text)
    return path


def test_every_setting_can_be_in_a_file() -> None:
    assert {each.name for each in fields(Settings)} == {
        *SERVER, "models", "keys", "key_file",
        "any_options"}  # `unladen app` passes its own options on


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a.gguf").touch()
    settings = settings_of(*read_config(written(tmp_path, FILE)))
    assert (settings.host, settings.port, settings.keep_alive, settings.max_waiting) == (
        "localhost", 9000, 600.0, 3)
    assert settings.origins == ("https://chat.example",)
    assert settings.audit == tmp_path / "audit.jsonl"
    assert settings.models == (
        ModelSettings("a", str(tmp_path / "models" / "a.gguf"), ("small", "claude-haiku-4"),
                      {"context_size": 2048, "n_gpu_layers": 3}, -1.0),
        ModelSettings("b", "tiny"))


@pytest.mark.parametrize(("text", "says"), [
    ("x", "isn't TOML"), ("[serve]", "'serve'"), ("server = 1", "server"), ("models = 1", "models"),
    ("[server]\nprot = 1", "'prot'"), ("[server]\nport = 'x'", "port"),
    ("[server]\nport = 70000", "port"), ("[server]\nhost = ''", "host"),
    ("[server]\nkeep_alive = 'soon'", "keep_alive"), ("[server]\norigins = 'https://a'", "origins"),
    ("[server]\norigins = ['https://a/b']", "origins"), ("[server]\nmodels = []", "'models'"),
    ("[server]\nkeys = []", "'keys'"), ("[server]\ncert = 'a.pem'", "cert_key"),
    ("[server]\nkey_file = 'none.toml'", "none.toml"), ("[server]\nmax_loaded = 0", "max_loaded"),
    ("[[models]]", "ref"), ("[[models]]\nref = 1", "ref"),
    ("[[models]]\nref = 'tiny'\ncontext = 1", "context"),
    ("[[models]]\nref = 'tiny'\ncontext_size = 'x'", "context_size"),
    ("[[models]]\nref = 'tiny'\nname = ''", "name"),
    ("[[models]]\nref = 'tiny'\naliases = [1]", "name"),
    ("[[models]]\nref = 'tiny'\nprogress = 1", "progress"),
    ("[[models]]\nref = 'tiny'\n[[models]]\nref = 'tiny'", "tiny")])
def test_what_is_wrong_in_a_file_is_said(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_config(written(tmp_path, text))
    assert says in caught.value.message
    assert caught.value.hint


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="can't read"):
        read_config(tmp_path / "none.toml")


@pytest.mark.parametrize(("ref", "name"), [
    ("tiny", "tiny"), ("/m/Llama-3.2-1B.Q4_K_M.gguf", "Llama-3.2-1B.Q4_K_M"),
    ("org/repo:Q4_K_M", "org/repo:Q4_K_M"), ("big-00001-of-00003.gguf", "big"),
    ("hf://org/repo/file.gguf", "hf://org/repo/file.gguf"), (".gguf", ".gguf")])
def test_names(ref: str, name: str) -> None:
    assert name_of(ref) == name


def test_names_of_arguments(tmp_path: Path) -> None:
    assert model_of("chat=org/repo:Q4") == ModelSettings("chat", "org/repo:Q4")
    assert model_of("tiny") == ModelSettings("tiny", "tiny")
    odd = tmp_path / "a=b.gguf"
    odd.touch()
    assert model_of(str(odd)).ref == str(odd)


def test_a_models_own_options_win() -> None:
    models = with_options([ModelSettings("a", "a", options={"batch_size": 1})],
                          {"batch_size": 2, "n_threads": 3})
    assert models[0].options == {"batch_size": 1, "n_threads": 3}
