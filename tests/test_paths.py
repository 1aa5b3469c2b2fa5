"""The error for a name that isn't a file says what it is."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from unladen import Model
from unladen.errors import ModelNotFound, UnladenError
from unladen.hub import resolve_model
from unladen.paths import N_LISTED, problem_of


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(name: str) -> tuple[str, str]:
    """The function, Model and other public functions report the same problem."""
    problem = problem_of(os.path.expanduser(name))
    assert problem is not None
    with pytest.raises(UnladenError) as caught:
        Model(name)
    assert problem.what in caught.value.message
    assert caught.value.hint
    with pytest.raises(ModelNotFound):
        resolve_model(name, aliases={})
    return problem.what, caught.value.hint


def test_kinds(here: Path) -> None:
    os.mkfifo("pipe.gguf")
    os.symlink("b.gguf", "a.gguf")
    os.symlink("a.gguf", "b.gguf")
    os.symlink("nothing.bin", "gone.gguf")
    os.symlink("pipe.gguf", "org")
    Path("file").write_bytes(b"x")
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind("s.gguf")
        for name, what in (
                ("pipe.gguf", "is a pipe"), ("org", "is a pipe"), ("s.gguf", "is a socket"),
                ("/dev/null", "is a device"), ("/dev/zero", "is a device"),
                ("a.gguf", "leads back to itself"), ("b.gguf", "leads back to itself"),
                ("gone.gguf", "link to nothing.bin, which doesn't exist"),
                ("./file/x.gguf", "file isn't a folder"), ("x" * 5000 + ".gguf", "is too long"),
                ("./none", "doesn't exist"),
                (str(here / "no" / "such.gguf"), "doesn't exist")):
            assert what in said(name)[0], name
    problem = problem_of("nul\0.gguf")
    assert problem is not None and "contains a NUL" in problem.what
    with pytest.raises(UnladenError, match="NUL"):
        Model("nul\0.gguf")


def test_folders_say_what_is_in_them(here: Path) -> None:
    names = [f"models/m{i}.gguf" for i in range(N_LISTED + 2)]
    Path("models").mkdir()
    for name in names:
        Path(name).write_bytes(b"x")
        for folder in ("models", "./models", "models/", str(here / "models")):
            what, hint = said(folder)
            assert what == "is a directory"
            assert "m0.gguf" in hint
    assert "m3.gguf, ... (6 in all)" in said("models")[1] and "m4.gguf" not in said("models")[1]
    Path("empty").mkdir()
    assert "there is none in it" in said("empty")[1]


def test_a_folder_called_like_a_repository(here: Path) -> None:
    Path("org/repo").mkdir(parents=True)
    Path("org/repo/m-Q8_0.gguf").write_bytes(b"x")
    what, hint = said("org/repo")
    assert what == "is a directory"
    assert "org/repo/m-Q8_0.gguf" in hint and "hf://org/repo" in hint


def test_slips_of_the_pen(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("Llama-3.Q4_0.gguf").write_bytes(b"x")
    Path("org").mkdir()
    Path("org/Model.gguf").write_bytes(b"x")
    Path("Big-00001-of-00002.gguf").write_bytes(b"x")
    monkeypatch.setenv("HOME", str(here))
    for name, near in (("big.gguf", "Big-00001-of-00002.gguf"),
                       ("./Big", "Big-00001-of-00002.gguf"),
                       ("llama-3.q4_0.gguf", "Llama-3.Q4_0.gguf"),
                       ("Llama-3.Q4_0", "Llama-3.Q4_0.gguf"), ("llama-3.Q4_0 ", "Llama-3.Q4_0"),
                       ("./Llama-3.Q40.gguf", "Llama-3.Q4_0.gguf"),
                       ("./org/model", "org/Model.gguf"), ("~/org/model.gguf", "Model.gguf")):
        with pytest.raises(ModelNotFound) as caught:
            Model(name)
        assert f"did you mean {near}" in caught.value.hint.replace("./", "").replace(
            f"{here}/org/", ""), name


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_permissions(here: Path) -> None:
    Path("secret.gguf").write_bytes(b"x")
    os.chmod("secret.gguf", 0)
    assert "permission denied" in said("secret.gguf")[0]


def test_permissions_as_the_system_tells_them(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("secret.gguf").write_bytes(bytes(64))
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda name, mode: False)
        assert problem_of("secret.gguf") == (
            "can't be read: permission denied", "change its permissions (chmod u+r)")
        with pytest.raises(ModelNotFound, match="permission denied"):
            Model("secret.gguf")

    def refuse(name: str) -> os.stat_result:
        raise PermissionError(13, "Permission denied")
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", refuse)
        problem = problem_of("secret.gguf")
    assert problem is not None and "folders above" in problem.hint
