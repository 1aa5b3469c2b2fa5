"""Key files, and what a key may ask."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from unladen.errors import InvalidArgument
from unladen.server.faults import Fault
from unladen.server.keys import Key, add_key, digest_of, find, make_key, read_keys
from unladen.server.limits import KeyLimits

FULL = """
[[keys]]
name = "owner"
hash = "{}"
scopes = ["use", "manage"]

[[keys]]
name = "guest"
hash = "{}"
requests_per_minute = 30
concurrent = 2
priority = -1
"""


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "keys.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_file_of_keys(tmp_path: Path) -> None:
    keys = read_keys(written(tmp_path, FULL.format(digest_of("one"), digest_of("two"))))
    assert keys == (Key("owner", digest_of("one")),
                    Key("guest", digest_of("two"), frozenset({"use"}), 30, 2, -1))
    assert find(keys, "two") is keys[1]
    assert find(keys, b"one") is keys[0]
    assert find(keys, "three") is None
    assert find(keys, digest_of("one")) is None


def test_keys_that_are_made(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    one, two = add_key(path, "one"), add_key(path, "two")
    assert one != two
    assert len(one) > 40
    assert [found.name for key in (one, two) if (found := find(read_keys(path), key))] == [
        "one", "two"]
    text = path.read_text()
    assert one not in text
    assert two not in text
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidArgument, match="already"):
        add_key(path, "one")
    assert make_key() != make_key()


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path, FULL.format(digest_of("one"), digest_of("two")), mode)
    with pytest.raises(InvalidArgument, match="others can read") as caught:
        read_keys(path)
    assert "chmod 600" in caught.value.hint


KEY = f'[[keys]]\nname = "a"\nhash = "{digest_of("a")}"\n'


@pytest.mark.parametrize("text", [
    "", "x", "keys = 1", "keys = [1]", "[[keys]]", KEY + "x = 1", KEY + KEY, "a = 1\n" + KEY,
    '[[keys]]\nname = "a"\nhash = "secret"', KEY.replace('"a"', "1"), KEY.replace('"a"', '"a b"'),
    KEY.replace('"a"', '""'), KEY + 'scopes = "use"', KEY + "scopes = []",
    KEY + 'scopes = ["all"]', KEY + "scopes = [1]", KEY + "concurrent = 0",
    KEY + "requests_per_minute = 1.5", KEY + "priority = true", KEY + "concurrent = 99999999999",
    KEY + KEY.replace('"a"', '"b"')])
def test_what_is_wrong_in_a_file_is_said(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InvalidArgument) as caught:
        read_keys(path)
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_a_rate_is_kept_and_recovers() -> None:
    now = 0.0
    limits = KeyLimits(lambda: now)
    key = Key("a", "", requests_per_minute=6)
    taken, waits = [], []
    for second in range(120):
        now = float(second)
        try:
            with limits.request(key):
                taken.append(second)
        except Fault as fault:
            waits.append(fault.retry_after)
    assert 6 + 11 <= len(taken) <= 6 + 12  # six at once, then one in ten seconds
    assert {*waits} <= {*range(1, 11)}
    assert waits


def test_requests_at_once_are_counted_for_each_key() -> None:
    limits = KeyLimits()
    key, other = Key("a", "", concurrent=1), Key("b", "", concurrent=1)
    with (limits.request(key), limits.request(other), pytest.raises(Fault, match="at once"),
          limits.request(key)):
        pass
    with limits.request(key):
        pass
