"""Answers that may call tools: where calls begin, how many there may be, and their arguments."""

from __future__ import annotations

from typing import Any

import pytest

from sample.constrain.conftest import Fits
from unladen.errors import InvalidArgument
from unladen.sample.constrain.calls import Call, Calls
from unladen.sample.constrain.schema import JsonSchema

ARGUMENTS = JsonSchema({"type": "object", "properties": {"x": {"type": "integer"}},
                        "required": ["x"], "additionalProperties": False})


def tagged(name: str, trigger: str = "<tool_call>") -> Call:
    return Call(trigger, f'{trigger}\n{{"name": "{name}", "arguments": ', ARGUMENTS, "}\n</end>")


def text_of(name: str, arguments: str = '{"x": 1}', trigger: str = "<tool_call>") -> str:
    return f'{trigger}\n{{"name": "{name}", "arguments": {arguments}}}\n</end>'


F, G, BAD = text_of("f"), text_of("g"), text_of("h")
TEXTS = {"": "", "text": "hi < you", "f": F, "text f": "hi" + F, "f g": f"{F}\n{G}",
         "f text g text": f"a{F}b{G}c", "unknown": BAD, "wrong": text_of("f", '{"x": "a"}'),
         "open": F[:-3], "f text": F + "x"}


@pytest.mark.parametrize(("options", "expected"), [
    ({}, {"", "text", "f", "text f", "f g", "f text g text", "f text"}),
    ({"required": True}, {"f", "text f", "f g", "f text g text", "f text"}),
    ({"parallel": False}, {"", "text", "f", "text f"}),
    ({"parallel": False, "required": True}, {"f", "text f"}),
    ({"has_text": False, "separator": "\n"}, {"", "f", "f g"}),
    ({"has_text": False, "separator": "\n", "required": True}, {"f", "f g"}),
    ({"has_text": False, "required": True, "parallel": False}, {"f"})])
def test_tagged_calls(fits: Fits, options: Any, expected: set[str]) -> None:
    calls = Calls([tagged("f"), tagged("g")], **options)
    assert {name for name, text in TEXTS.items() if fits(calls, text)} == expected


@pytest.mark.parametrize("mark", ["[CALLS]", "<mark>"])
def test_calls_in_one_list(fits: Fits, mark: str) -> None:
    """With a mark that is text, and one that is a special token."""
    items = [Call("", f'{{"name": "{name}", "arguments": ', ARGUMENTS, "}") for name in "fg"]
    one, two = ('{"name": "f", "arguments": {"x": 1}}', '{"name": "g", "arguments": {"x": 23}}')
    texts = {"": "", "text": "hi", "one": f"{mark}[{one}]", "text one": f"hi{mark}[{one}]",
             "two": f"{mark}[{two}, {one}]", "none": f"{mark}[]", "open": f"{mark}[{one}",
             "mark": f"{mark}x"}
    for options, expected in (
            ({}, {"", "text", "one", "text one", "two"}), ({"required": True, "has_text": False},
                                                           {"one", "two"}),
            ({"parallel": False}, {"", "text", "one", "text one"})):
        calls = Calls(items, opening=mark, separator=", ", closing="]", **options)
        listed = Calls([Call("", c.begin, c.arguments, c.end) for c in items], opening=f"{mark}[",
                       separator=", ", closing="]", **options)
        found = {name for name, text in texts.items() if fits(listed, text)}
        assert found - {"mark"} == expected
        assert not fits(calls, texts["one"]), "the opening has no bracket here"


def test_special_tokens(fits: Fits) -> None:
    """A special token as the trigger, and others that free text may have."""
    calls = [tagged("f", "<mark>")]
    f = text_of("f", trigger="<mark>")
    assert all(fits(Calls(calls), text) for text in ("", "hi", f"hi{f}", f + f))
    assert not fits(Calls(calls), "hi<mark>x")
    text = Calls([tagged("f")], marks=["<mark>"])
    for each in ("<mark>", "a<mark>b", f"a<mark>b{F}<mark>", f"{F}a<mark>{F}"):
        assert fits(text, each), each
        assert not fits(Calls([tagged("f")]), each), each


def test_triggers_of_their_own(fits: Fits) -> None:
    calls = Calls([tagged("f", "<f>"), tagged("g", "<g>")])
    f, g = text_of("f", trigger="<f>"), text_of("g", trigger="<g>")
    assert all(fits(calls, text) for text in ("", f, g, f"{g} and {f}", "<h>"))
    assert not any(fits(calls, text) for text in ("<f>", text_of("g", trigger="<f>")))


def test_what_cannot_be(fits: Fits) -> None:
    with pytest.raises(InvalidArgument, match="at least one tool"):
        fits(Calls([]), "")
    with pytest.raises(InvalidArgument, match="begin with its trigger"):
        fits(Calls([Call("<a>", "<b>", ARGUMENTS)]), "")
    with pytest.raises(InvalidArgument, match="not at #"):
        fits(Calls([Call("<a>", "<a>", JsonSchema({"not": {}}))]), "")
