"""Binaries are read back only if they are whole and are those asked for; the folder stays small."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from unladen.backends._gpu import binaries
from unladen.backends._gpu.binaries import Binaries

OF = ("text", "-O3", "12.9", "sm_90")


def made(*answers: bytes) -> tuple[list[bytes], Callable[[], bytes]]:
    """What was compiled, and a compiler with these answers."""
    done: list[bytes] = []

    def make() -> bytes:
        done.append(answers[len(done)])
        return done[-1]
    return done, make


def test_compiled_once_for_all_processes(tmp_path: Path) -> None:
    done, make = made(b"cubin", b"other")
    assert Binaries(tmp_path / "a").get(OF, make) == b"cubin"
    assert Binaries(tmp_path / "a").get(OF, make) == b"cubin"
    assert done == [b"cubin"]
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0 or os.name == "nt"


@pytest.mark.parametrize("of", [("text2", *OF[1:]), (*OF[:3], "sm_80"), ("text-O3", "", *OF[2:]),
                                OF[:3], (*OF, "")])
def test_what_differs_is_another_binary(tmp_path: Path, of: tuple[str, ...]) -> None:
    kept = Binaries(tmp_path)
    assert kept.get(OF, lambda: b"one") == b"one"
    assert kept.get(of, lambda: b"two") == b"two"
    assert kept.get(OF, lambda: b"three") == b"one"


def test_every_damage_is_noticed(tmp_path: Path) -> None:
    kept = Binaries(tmp_path)
    kept.get(OF, lambda: b"right")
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    damaged = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1:] for i in range(len(whole))]
    for data in (*damaged, b"", whole[:-1], whole + b"x"):
        path.write_bytes(data)
        assert kept.get(OF, lambda: b"again") == b"again"
        path.write_bytes(whole)
        assert kept.get(OF, lambda: b"again") == b"right"


def test_the_file_of_another_binary_is_foreign(tmp_path: Path) -> None:
    kept = Binaries(tmp_path)
    kept.get(OF, lambda: b"right")
    (path,) = tmp_path.iterdir()
    kept.get(("else",), lambda: b"foreign")
    (other,) = set(tmp_path.iterdir()) - {path}
    path.write_bytes(other.read_bytes())
    assert kept.get(OF, lambda: b"again") == b"again"


def test_a_failing_compiler_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> bytes:
        raise ValueError("no")
    with pytest.raises(ValueError, match="no"):
        Binaries(tmp_path).get(OF, fail)
    assert not list(tmp_path.iterdir())


def test_the_least_used_goes_first(tmp_path: Path) -> None:
    kept = Binaries(tmp_path, most_bytes=4 * 1100)
    for i in range(4):
        kept.get((str(i),), lambda: bytes(1000))
        for path in tmp_path.iterdir():
            os.utime(path, (path.stat().st_mtime - 10,) * 2)
    done, make = made(b"again")
    kept.get(("0",), make)  # used again
    kept.get(("new",), lambda: bytes(1000))
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= 4 * 1100
    kept.get(("0",), make)
    assert not done
    kept.get(("1",), make)
    assert done == [b"again"]


def test_abandoned_parts_are_removed(tmp_path: Path) -> None:
    old, young = tmp_path / "a.part", tmp_path / "b.part"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    Binaries(tmp_path).get(OF, lambda: b"cubin")
    assert not old.exists() and young.exists()


def test_a_folder_that_takes_no_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The kernel works all the same; one warning says why the next start will be slow again."""
    (tmp_path / "file").write_bytes(b"")
    kept = Binaries(tmp_path / "file" / "below")
    with caplog.at_level(logging.WARNING, "unladen"):
        assert [kept.get(OF, lambda: b"cubin") for _ in range(2)] == [b"cubin"] * 2
    (said,) = caplog.messages
    assert "can't be kept" in said and binaries.VARIABLE in said


def test_threads_share_a_folder(tmp_path: Path) -> None:
    kept, results = Binaries(tmp_path, most_bytes=3000), []

    def work(i: int) -> None:
        for k in range(20):
            text = str((i + k) % 7)
            results.append(kept.get((text,), lambda text=text: text.encode() * 500) ==
                           text.encode() * 500)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == [True] * 80
    assert not [p for p in tmp_path.iterdir() if p.suffix == binaries.PART_SUFFIX]


def test_where_the_folder_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(binaries.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert binaries.folder_of_binaries() == tmp_path / "unladen/kernels"
    monkeypatch.setenv(binaries.VARIABLE, str(tmp_path / "mine"))
    assert binaries.folder_of_binaries() == tmp_path / "mine"
    monkeypatch.setenv(binaries.VARIABLE, "")
    assert binaries.folder_of_binaries() is None
    done, make = made(b"a", b"b")
    assert [Binaries(None).get(OF, make) for _ in range(2)] == [b"a", b"b"] == done
