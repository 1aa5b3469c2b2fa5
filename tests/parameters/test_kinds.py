"""Kinds accept and refuse the right values, and the error names the parameter."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import (
    Choice,
    Either,
    Flag,
    Items,
    Kind,
    OrNone,
    Pair,
    Pairs,
    PathText,
    Pattern,
    Real,
    Text,
    Whole,
    shown,
    token_ids,
)

INTS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
FLOATS = (np.float16, np.float32, np.float64)


@pytest.mark.parametrize("kind", INTS)
def test_whole_numbers_of_numpy_are_whole_numbers(kind: Any) -> None:
    taken = Whole(1, 9).of("n", kind(7))
    assert taken == 7 and type(taken) is int
    assert token_ids("ids", [kind(7)]) == token_ids("ids", np.array([7], kind)) == [7]


@pytest.mark.parametrize("kind", [*FLOATS, *INTS, int, Fraction, Decimal])
def test_numbers_are_numbers(kind: Any) -> None:
    taken = Real(0, 9).of("x", kind(2))
    assert taken == 2 and type(taken) is float


@pytest.mark.parametrize("value", [
    True, np.True_, "5", b"5", None, 5.0, np.float64(5), [5], np.array([5]), 5j, math.nan, object])
def test_what_is_no_whole_number(value: object) -> None:
    with pytest.raises(InvalidArgument, match="n_draft must be a whole number from 1 on, got"):
        Whole(1).of("n_draft", value)


@pytest.mark.parametrize("value", [
    True, np.True_, "5", b"5", None, [5], np.array([5.0]), 5j, math.nan, math.inf, -math.inf,
    np.float32("nan"), object()])
def test_what_is_no_number(value: object) -> None:
    with pytest.raises(InvalidArgument, match="top_p must be a finite number from 0 to 1, got"):
        Real(0, 1).of("top_p", value)


@pytest.mark.parametrize(("kind", "value", "said"), [
    (Whole(1, hint="try 2"), 0, r"n must be at least 1, got 0 \(hint: try 2\)"),
    (Whole(0), 2**63, r"n must be at most 2147483647, got 9223372036854775808"),
    (Flag(), 1, "n must be True or False, got 1"), (Flag(), "false", "got 'false'"),
    (Choice("a", "b"), "c", "n must be 'a' or 'b', got 'c'"), (Choice("a"), None, "got None"),
    (Text(), b"x", r"bytes.decode\(\)"), (Text(), "\ud800", "n isn't Unicode"),
    (Text("a name", filled=True), "", "n must be a name, got ''"),
    (PathText(), b"x", "os.fsdecode"), (PathText(), "a\0b", "without NUL"), (PathText(), "", "n "),
    (PathText(), "\ud800", "n must be a path"), (PathText(), 5, "n must be a path"),
    (Pattern(), "(", "n must be a regular expression"), (Pattern(), "a{99999999999}", "n must be"),
    (Pattern(), "(" * 5000 + ")" * 5000, "n must be"),
    (Items(Text(), "a list of texts"), "abc", "n must be a list of texts, got 'abc'"),
    (Items(Text(), "a list of texts"), ["a", 5], r"n\[1\] must be text, got 5"),
    (Items(Text(), "a list of texts", filled=True), [], "at least one"),
    (Items(Text(), "a list of texts"), {"a": 1}, "n must be a list"),
    (Pairs(Whole(0), Real(), "a mapping"), [(1, 2)], "n must be a mapping"),
    (Pairs(Whole(0), Real(), "a mapping"), {"1": 2}, "a key of n must be a whole number"),
    (Pairs(Whole(0), Real(), "a mapping"), {1: "2"}, r"n\[1\] must be a finite number"),
    (Pair(Choice("a"), "a pair"), "aa", "n must be a pair"),
    (Pair(Choice("a"), "a pair"), ("a", "b"), r"n\[1\] must be 'a'"),
    (Either(Choice("auto"), Whole(-1)), -3, "n must be at least -1, got -3"),
    (Either(Choice("auto"), Whole(-1)), 1.5, "n must be 'auto' or a whole number from -1 on, got"),
    (OrNone(Whole(1)), 0, "n must be at least 1, got 0")])
def test_what_is_wrong_is_said(kind: Kind, value: object, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        kind.of("n", value)


def test_numbers_beyond_all_bounds() -> None:
    for kind, value, said in ((Whole(0), 10**5000, "at most 2147483647"),
                              (Whole(0, 3), -(10**5000), "at least 0"),
                              (Real(), 10**5000, "a finite number")):
        with pytest.raises(InvalidArgument, match=f"n must be {said}, got an object of class int"):
            kind.of("n", value)


def test_what_is_taken_is_plain() -> None:
    assert Choice("first", "last").of("n", "LAST") == "last"
    assert Items(Whole(0), "numbers").of("n", iter([np.int64(1), 2])) == [1, 2]
    assert Pairs(Whole(0), Real(), "a mapping").of("n", {np.int32(1): 2}) == {1: 2.0}
    assert PathText().of("n", Path("a") / "b") == str(Path("a") / "b")
    assert OrNone(Whole(0)).of("n", None) is None
    assert Flag().of("n", np.False_) is False
    assert Either(Choice("auto"), Whole(-1)).of("n", np.int8(-1)) == -1


@pytest.mark.parametrize("ids", [
    [1, 2, 3], (1, 2, 3), range(1, 4), np.array([1, 2, 3], np.uint16), array("i", [1, 2, 3]),
    [np.int64(1), 2, np.uint8(3)], iter([1, 2, 3]), {1: 0, 2: 0, 3: 0}.keys(),
    np.array([1, 2, 3], object)])
def test_token_ids(ids: Any) -> None:
    found = token_ids("prompt", ids)
    assert found == [1, 2, 3] and {type(i) for i in found} == {int}


@pytest.mark.parametrize(("ids", "said"), [
    (b"abc", r"bytes.decode\(\)"), (bytearray(b"abc"), "bytes.decode"), ("abc", "tokenize"),
    (None, "prompt must be"), (5, "prompt must be"), ([1.0], r"prompt\[0\]"), ([1, True],
    r"prompt\[1\]"), ([1, "2"], r"prompt\[1\]"), ([1, None], r"prompt\[1\]"), ([1, [2]],
    r"prompt\[1\]"), ([-1], r"prompt\[0\]"), ([2**31], r"prompt\[0\]"), ([2**70], r"prompt\[0\]"),
    (np.ones((2, 2), int), "in one dimension"), (np.ones(2), "prompt must be"),
    (np.ones(2, bool), "prompt must be"), (np.int64(3), "prompt must be"),
    (np.array(3), "prompt must be"), ({1: 2}, "prompt must be"),
    (np.array([2**63], np.uint64), r"prompt\[0\]"), (np.array([1, None]), r"prompt\[1\]")])
def test_what_are_no_token_ids(ids: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        token_ids("prompt", ids)


def test_what_has_no_end_comes_to_one() -> None:
    with pytest.raises(InvalidArgument, match="at most 4194304 items"):
        token_ids("prompt", itertools.count())
    with pytest.raises(InvalidArgument, match="at most 4194304 items"):
        Items(Whole(0), "numbers").of("n", itertools.repeat(0))


def test_what_an_iterator_raises_is_not_hidden() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise KeyError("of the caller")
    with pytest.raises(KeyError, match="of the caller"):
        token_ids("prompt", broken())


def test_anything_can_be_shown() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise OSError("no")
    assert "Broken" in shown(Broken())
    assert len(shown(10**5000)) < 100 and len(shown(["x" * 1000] * 1000)) <= 80
    assert len(shown("\n" * 1000)) <= 80
    assert shown(np.zeros((1000, 2), np.float32)) == "an array of float32 [1000, 2]"
