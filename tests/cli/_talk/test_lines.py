"""Messages of several lines, with and without an editor."""

from __future__ import annotations

import io

import pytest

from unladen.cli._talk.lines import Lines, is_open, joined, unquoted
from unladen.errors import InvalidArgument


@pytest.mark.parametrize(("text", "more"), [
    ("Hello", False), ("a\\", True), ("a\\\nb", False), ('"""', True), ('"""a', True),
    ('"""a"""', False), ('"""\na\n"""', False), ('a """', False), ('""""', True), ("", False)])
def test_open(text: str, more: bool) -> None:
    assert is_open(text) is more


def test_parts_become_one_message() -> None:
    assert joined("a\\\nb\\\nc") == "a\nb\nc"
    assert joined('"""\nsay \\\n "this"\n"""') == 'say \\\n "this"'
    assert unquoted('"""one line"""') == "one line"
    assert unquoted('say """this"""') == 'say """this"""'


def test_stdin_is_read_message_by_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('one\n\ntwo\\\nmore\n"""\nx\n\ny\n"""\nlast\\'))
    lines, found = Lines(), []
    while (message := lines.message()) is not None:
        found.append(message)
    assert found == ["one", "", "two\nmore", "x\n\ny", "last"]


def test_stdin_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InvalidArgument, match="stdin is closed"):
        Lines()


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_stdin_has_bytes_that_are_no_text(errors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However Python reads them: that depends on the locale."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(
        io.BytesIO(b"one \xff\n"), encoding="utf-8", errors=errors))
    with pytest.raises(InvalidArgument, match="stdin isn't utf-8 text"):
        Lines().message()
