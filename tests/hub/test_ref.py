"""The forms of a model's name, and what each means."""

from __future__ import annotations

from pathlib import Path

import pytest

from unladen.errors import InvalidArgument, ModelNotFound
from unladen.hub import HubFile, HubQuant, LocalFile, parse_ref, resolve_model


@pytest.mark.parametrize(("text", "ref"), [
    ("org/repo", HubQuant("org/repo")),
    ("org/repo:Q4_K_M", HubQuant("org/repo", "Q4_K_M")),
    ("org/repo:q8_0", HubQuant("org/repo", "Q8_0")),
    ("o.r-g_1/Re.po-GGUF:UD-Q4_K_XL", HubQuant("o.r-g_1/Re.po-GGUF", "UD-Q4_K_XL")),
    ("org/repo@v1.0:Q4_0", HubQuant("org/repo", "Q4_0", "v1.0")),
    ("hf.co/org/repo:iq4_xs", HubQuant("org/repo", "IQ4_XS")),
    ("https://hf.co/org/repo:Q4_0", HubQuant("org/repo", "Q4_0")),
    ("huggingface.co/org/repo", HubQuant("org/repo")),
    ("https://huggingface.co/org/repo/", HubQuant("org/repo")),
    ("https://huggingface.co/org/repo/tree/main", HubQuant("org/repo")),
    ("https://huggingface.co/org/repo/tree/v2/", HubQuant("org/repo", revision="v2")),
    ("hf://org/repo", HubQuant("org/repo")),
    ("hf://org/repo:F16", HubQuant("org/repo", "F16")),
    ("hf://org/repo/file.gguf", HubFile("org/repo", "file.gguf")),
    ("hf://org/repo/sub/dir/file.gguf", HubFile("org/repo", "sub/dir/file.gguf")),
    ("hf://org/repo@abc123/file.gguf", HubFile("org/repo", "file.gguf", "abc123")),
    ("https://huggingface.co/org/repo/resolve/main/file.gguf", HubFile("org/repo", "file.gguf")),
    ("https://huggingface.co/org/repo/resolve/main/a%20b.gguf?download=true",
     HubFile("org/repo", "a b.gguf")),
    ("https://huggingface.co/org/repo/blob/v2/sub/file.gguf",
     HubFile("org/repo", "sub/file.gguf", "v2"))])
def test_references(text: str, ref: object) -> None:
    assert parse_ref(text, aliases={}) == ref


@pytest.mark.parametrize("text", [
    "https://example.com/file.gguf", "file:///tmp/x.gguf", "ftp://huggingface.co/org/repo",
    "hf://org", "a/b/c", "org/repo:", "org/repo:a b", "org//repo", "/hf.co"[1:] + "/",
    "hf://org/repo/../x.gguf",
    "hf://org/repo/readme.md", "org/re po", "https://huggingface.co/org/repo/resolve/main/x.bin",
    "org/repo:Q4_0/x", "\u00f6rg/repo", "https://[/x"])
def test_wrong_forms(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_ref(text, aliases={})
    assert caught.value.hint


@pytest.mark.parametrize("text", [
    "", "llama", "./none.gguf", "/none/at/all", "~/none.gguf", "a/none.gguf", "C:\\none.gguf",
    "org/repo/file.gguf", "."])
def test_missing_files(text: str) -> None:
    with pytest.raises(ModelNotFound) as caught:
        parse_ref(text, aliases={})
    assert caught.value.hint


@pytest.mark.parametrize("text", ["x" * 9000, "x/" * 4000, "x" * 9000 + ".gguf", "x" * 200 + "/y"])
def test_long_names_are_quoted_in_part(text: str) -> None:
    with pytest.raises((ModelNotFound, InvalidArgument)) as caught:
        resolve_model(text, aliases={}, offline=True)
    assert len(str(caught.value)) < 1000


def test_aliases(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"x")
    aliases = {"tiny": path, "gone": tmp_path / "gone.gguf"}
    assert parse_ref("tiny", aliases=aliases) == LocalFile(path)
    assert resolve_model("tiny", aliases=aliases) == path
    with pytest.raises(ModelNotFound, match=r"gone\.gguf"):
        resolve_model("gone", aliases=aliases)
    with pytest.raises(ModelNotFound, match="aliases: gone, tiny"):
        resolve_model("other", aliases=aliases)
    with pytest.raises(ModelNotFound, match="did you mean tiny"):
        resolve_model("tinny", aliases=aliases)


def test_a_file_that_is_there_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "org").mkdir()
    for name in ("tiny", "org/repo", "a b.gguf"):
        (tmp_path / name).write_bytes(b"x")
        assert parse_ref(name, aliases={"tiny": Path("other")}) == LocalFile(Path(name))
    assert resolve_model("~/tiny", aliases={}) == tmp_path / "tiny"
    assert parse_ref("org/other", aliases={}) == HubQuant("org/other")
    with pytest.raises(ModelNotFound, match="is a directory"):
        parse_ref("./org", aliases={})
