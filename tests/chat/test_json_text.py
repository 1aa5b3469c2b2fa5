"""Values that arrive in pieces: JSON is passed on, Python literals become JSON."""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Sequence
from typing import Any

import pytest

from chat.answers import pieces, random_text
from unladen.chat.json_text import JSON, MAX_DEPTH, PYTHON, Syntax, ValueScanner, as_json
from unladen.chat.marks import NotACall


@pytest.fixture
def random_seed() -> random.Random:
    """A generator with a fresh seed, which is printed."""
    seed = secrets.randbits(32)
    print(f"seed: {seed}")
    return random.Random(seed)


def _value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(8 if depth < 4 else 5)
    if kind < 2:
        return random_text(rng)
    if kind < 5:
        return (rng.choice((True, False, None)), rng.randrange(-10**9, 10**9),
                rng.uniform(-1, 1) * 10.0 ** rng.randrange(-20, 20))[kind - 2]
    inner = [_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return inner if kind == 5 else {random_text(rng): value for value in inner}


def _scanned(texts: Sequence[str], syntax: Syntax) -> tuple[str, str]:
    """(JSON text, what comes after the value), fed piece by piece. Text that isn't understood yet
    is shown again with the next piece."""
    scanner, rest, out = ValueScanner(syntax), "", ""
    for text in texts:
        rest += text
        rest = rest[scanner.scan(rest, 0, ended=False):]
        out += scanner.drain()
        assert scanner.done or len(rest) <= 64
    rest = rest[scanner.scan(rest, 0, ended=True):]
    return out + scanner.drain(), rest


def test_json_is_passed_on(random_seed: random.Random) -> None:
    for _ in range(300):
        value = [_value(random_seed)]
        text = json.dumps(value, ensure_ascii=random_seed.random() < 0.5,
                          indent=random_seed.choice((None, 1)))
        assert _scanned(pieces(text + ", rest", random_seed), JSON) == (text, ", rest")


def test_python_becomes_json(random_seed: random.Random) -> None:
    for _ in range(300):
        value = [_value(random_seed)]
        out, rest = _scanned(pieces(repr(value) + ")", random_seed), PYTHON)
        assert (json.loads(out), rest) == (value, ")")


@pytest.mark.parametrize(("text", "value"), [
    ("(1, 2,)", [1, 2]), ("{'a': (),}", {"a": []}), ("[]", []), ("{1: 2}", {"1": 2}),
    (r"'\x41\u00e9\'\n'", "Aé'\n"), ("[+1, .5, 1.]", [1, 0.5, 1.0]), ("None", None),
    ("[true, null]", [True, None])])
def test_python_literals(text: str, value: Any) -> None:
    assert json.loads(as_json(text, PYTHON) or "") == value


@pytest.mark.parametrize("text", [
    "", "{", '{"a"}', "{a: 1}", "[1,]", "[1 2]", "01", "1.", "[007]", "NaN", "True", "'a'",
    '"\\x"', '"a', '{"a": 1,}', "[1]]", "{]", "1" * 500, '{"a" 1}', "-", '"\\u12"'])
def test_what_is_no_json(text: str) -> None:
    assert as_json(text) is None


def test_control_characters_are_escaped() -> None:
    assert json.loads(as_json('"a\nb\x01"') or "") == "a\nb\x01"


def test_nesting_is_bounded() -> None:
    assert as_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(NotACall, match="levels deep"):
        ValueScanner().scan("[" * 10**6, 0, False)
