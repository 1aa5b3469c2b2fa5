"""Which abilities of a device are used: what the environment asks for, and what it may ask for."""

from __future__ import annotations

import pytest

from unladen.backends._gpu.abilities import chosen
from unladen.errors import InvalidArgument

VARIABLE = "UNLADEN_NO_FEATURES"
THERE = frozenset({"mma", "subgroups"})


def test_without_a_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert chosen(VARIABLE, THERE, "a card") == THERE
    assert chosen(VARIABLE, THERE, "a card", frozenset({"mma", "pdl"})) == {"mma"}


@pytest.mark.parametrize(("text", "used"), [
    ("none", set()), ("", set()), ("mma", {"mma"}), ("subgroups,mma", THERE)])
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
