"""The file of earlier messages: where it is, who may read it, how large it gets."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from unladen.cli._talk.history import LONGEST, MAX_BYTES, history, path_of_history, prepare


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNLADEN_HISTORY", str(tmp_path / "below/history"))
    return tmp_path / "below/history"


def test_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNLADEN_HISTORY", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert path_of_history() == tmp_path / "unladen/history"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert path_of_history() == Path.home() / ".local/state/unladen/history"
    monkeypatch.setattr("sys.platform", "darwin")
    assert path_of_history() == Path.home() / "Library/Application Support/unladen/history"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert path_of_history() == tmp_path / "unladen/history"
    monkeypatch.setenv("UNLADEN_HISTORY", "")
    assert path_of_history() is None


def test_only_the_owner_reads_it(path: Path) -> None:
    before = os.umask(0)
    try:
        kept = history()
    finally:
        os.umask(before)
    kept.append_string("a secret\nin two lines")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(history().load_history_strings()) == ["a secret\nin two lines"]


def test_very_long_messages_are_left_out(path: Path) -> None:
    kept = history()
    kept.append_string("x" * (LONGEST + 1))
    kept.append_string("short")
    assert list(history().load_history_strings()) == ["short"]
    assert "x" * (LONGEST + 1) in kept.get_strings()


def test_the_older_half_goes(path: Path) -> None:
    kept = history()
    for i in range(2 * MAX_BYTES // (LONGEST // 2)):
        kept.append_string(f"{i} " + "y" * (LONGEST // 2))
    size = path.stat().st_size
    assert size > MAX_BYTES
    names = [text.split()[0] for text in history().load_history_strings()]
    assert path.stat().st_size <= MAX_BYTES // 2
    assert names == [str(i) for i in range(int(names[0]), int(names[-1]) - 1, -1)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_place_that_cant_be_used(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNLADEN_HISTORY", str(tmp_path / "file/history"))
    kept = history()
    kept.append_string("said")
    assert kept.get_strings() == ["said"]
    assert "note: messages aren't kept" in capsys.readouterr().err
    with pytest.raises(OSError, match="file"):
        prepare(tmp_path / "file/history")


def test_a_disk_that_fills_up(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = history()
    path.unlink()
    path.mkdir()
    kept.append_string("said")
    assert kept.get_strings() == ["said"]
    assert "isn't kept" in capsys.readouterr().err
