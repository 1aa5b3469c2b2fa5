"""Bodies: their shape is bounded before they are parsed, and hostile ones are refused in time."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("starlette")

from unladen.server.bodies import check_shape, parsed
from unladen.server.faults import Fault
from unladen.server.settings import Settings

MARKS = '[]{}"\\,:a'


def shape_of(text: str) -> tuple[int, int]:
    """Levels, and values with their names, as a reader of single characters counts them."""
    depth = most = n = 0
    is_text = is_escaped = False
    for each in text:
        if is_text:
            is_text = is_escaped or each != '"'
            is_escaped = not is_escaped and each == "\\"
            continue
        is_text = each == '"'
        n += each in "[{,"
        depth += (each in "[{") - (each in "]}")
        most = max(most, depth)
    return most, n


def drawn(chance: random.Random, depth: int) -> Any:
    kind = chance.random()
    if depth and kind < 0.4:
        return [drawn(chance, depth - 1) for _ in range(chance.randrange(3))]
    if depth and kind < 0.8:
        return {"".join(chance.choices(MARKS, k=chance.randrange(4))): drawn(chance, depth - 1)
                for _ in range(chance.randrange(3))}
    return "".join(chance.choices(MARKS, k=chance.randrange(6)))


def is_taken(text: str, **limits: int) -> bool:
    try:
        check_shape(text.encode(), replace(Settings(), **limits))
    except Fault as fault:
        return fault.kind != "too_large"
    return True


def test_the_shape_is_what_a_reader_counts() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(400):
        text = json.dumps(drawn(chance, 9))
        depth, n_values = shape_of(text)
        for limit in (1, 3, 5, 8):
            assert is_taken(text, max_nesting=limit) == (depth <= limit), text
        assert is_taken(text, max_nesting=9, max_values=max(1, n_values)), text
        assert n_values < 2 or not is_taken(text, max_nesting=9, max_values=n_values - 1), text


@pytest.mark.parametrize(("text", "says"), [
    (b"\xff\xfe{\0}\0", "UTF-8"), (b'{"a": "\xff"}', "UTF-8"), (b'{"a": "\\ud800"}', "JSON"),
    (b'{"a": NaN}', "JSON"), (b'{"a": 1e999}', "number"), (b'{"a": [[-1e999]]}', "number"),
    (b'{"a": ' + b"1" * 5000 + b"}", "JSON"), (b"", "JSON"), (b"{", "JSON"), (b"{} {}", "JSON"),
    (b"[" * 10**5, "levels"), (b"]" * 10**6, "JSON"), (b'"' * 10**6, "JSON"),
    (b'{"a":' * 10**5, "levels"), (b"[" + b"[]," * 10**6 + b"1]", "values"),
    (b'["\\\\", ' + b'{"a":"b"},' * 10**6, "values")])
def test_hostile_texts(text: bytes, says: str) -> None:
    with pytest.raises(Fault) as caught:
        parsed(text, Settings())
    assert caught.value.kind in ("bad_request", "too_large")
    assert says in str(caught.value)


def test_ordinary_texts() -> None:
    data = {"a": [1, -2.5, None, True, "\u00e9\U0001f600[[{{\"\\"], "": {"b": []}}
    assert parsed(json.dumps(data).encode(), Settings()) == data
    assert parsed(b"\xef\xbb\xbf" + json.dumps(data, ensure_ascii=False).encode(),
                  Settings()) == data
    assert parsed(json.dumps({"text": "f(a)[1]{2}\n" * 10**5}).encode(), Settings())
    assert parsed(b"[" * 64 + b"]" * 64, Settings())
