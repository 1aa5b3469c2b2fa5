"""Which abilities of a device are used: what the environment asks for, and what it may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from unladen.backends._gpu import abilities
from unladen.errors import InvalidArgument

VARIABLE = "UNLADEN_NO_FEATURES"
THERE = frozenset({"mma", "subgroups"})
KNOWN = ("mma", "subgroups", "pdl", "int_dot")


def chosen(*arguments: Any) -> frozenset[str]:
    return abilities.chosen(*arguments, known=KNOWN)


def test_without_a_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert chosen(VARIABLE, THERE, "a card") == THERE
    assert chosen(VARIABLE, THERE, "a card", frozenset({"mma", "pdl"})) == {"mma"}


@pytest.mark.parametrize(("text", "used"), [
    ("none", set()), ("", set()), ("mma", {"mma"}), ("subgroups,mma", THERE),
    (" subgroups , mma ", THERE), ("mma, none", {"mma"})])
def test_a_wish(monkeypatch: pytest.MonkeyPatch, text: str, used: set[str]) -> None:
    monkeypatch.setenv(VARIABLE, text)
    assert chosen(VARIABLE, THERE, "a card", frozenset()) == used


def test_what_a_device_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "pdl,mma,int_dot")
    with pytest.raises(InvalidArgument, match="asks for int_dot, pdl, which a card lacks") as told:
        chosen(VARIABLE, THERE, "a card")
    assert told.value.hint == "use some of mma, subgroups, or none"
    with pytest.raises(InvalidArgument) as told:
        chosen(VARIABLE, frozenset(), "a card")
    assert told.value.hint == "use none"


def test_a_word_that_is_no_ability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "pdl,foo")
    with pytest.raises(InvalidArgument, match=f"{VARIABLE}: foo is no ability") as told:
        chosen(VARIABLE, THERE, "a card")
    assert told.value.hint == "there are int_dot, mma, pdl, subgroups, and none"
