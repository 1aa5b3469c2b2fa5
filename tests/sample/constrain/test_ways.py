"""Ways to the end of a text: short ones, and texts that come to their end with few tokens left."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from chat.argued import object_of, tool_of
from unladen.sample.constrain.base import foresees
from unladen.sample.constrain.budget import Budgeted
from unladen.sample.constrain.guide import Guide
from unladen.sample.constrain.language import After, Language
from unladen.sample.constrain.running import RunningConstraint
from unladen.sample.constrain.schema import JsonSchema
from unladen.sample.constrain.ways import Ways
from unladen.tokenizer import Tokenizer

jsonschema = pytest.importorskip("jsonschema")
N_SCHEMAS = 12


def whole_schema(rng: random.Random) -> dict[str, Any]:
    """A schema of which answers may be long in several ways: rows, a chain, many fields."""
    schema = tool_of(rng)["function"]["parameters"]
    row = object_of(rng, depth=1)
    more = {"rows": {"type": "array", "items": row, "minItems": rng.randrange(3)},
            "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
            "size": {"type": "number"}, "share": {"type": "number", "exclusiveMinimum": 0},
            **{f"field_{i}": {"type": "integer"} for i in range(rng.randrange(12))}}
    chosen = {name: more[name] for name in more if rng.random() < 0.6}
    return {**schema, "properties": {**schema["properties"], **chosen},
            "required": [*schema["required"], *chosen]}


def least_of(guide: Guide, language: Language) -> int:
    """How many tokens the shortest text takes that is found."""
    way = foresees(language.make(guide)()).way_in(0)  # type: ignore[union-attr]
    assert way is not None
    assert way[-1] in guide.ends and not set(way[:-1]) & set(guide.ends)
    return len(way) - 1


def written(guide: Guide, language: Language, n_most: int, rng: Generator, *,
            ends: float = 0.0) -> tuple[bytes, bool]:
    """(a text of at most ``n_most`` tokens, each drawn from those that are allowed; whether it was
    hurried). ``ends``: how often a token that ends the text is chosen where one is allowed."""
    running = RunningConstraint(language.make(guide)(), 0)
    running.is_forcible = True
    assert running.begin(n_most) is None
    tokens: list[int] = []
    for n_left in range(n_most, 0, -1):
        token = running.forced()
        if token is None:
            mask = running.ask(len(guide.tokens))
            allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
            ending = [int(t) for t in allowed if t in guide.ends]
            drawn = ending[0] if ending and rng.random() < ends else int(rng.choice(allowed))
            token = running.chosen(drawn)
        running.accept(token)
        running.hurry(n_left - 1)
        if token in guide.ends:
            break
        tokens.append(token)
    return b"".join(guide.tokens[t] for t in tokens), running.is_cut


def test_texts_come_to_their_end(rng: Generator, of_tiny: Guide) -> None:
    """Random tokens of random schemas, with as many tokens as the shortest answer takes or more:
    every answer is valid."""
    drawing = random.Random(int(rng.integers(2**32)))
    n_hurried = 0
    for _ in range(N_SCHEMAS):
        schema = whole_schema(drawing)
        validator = jsonschema.Draft202012Validator(schema)
        language = JsonSchema(schema)
        least = least_of(of_tiny, language)
        for more in (0, 1, 2, 5, 12, 40, 150):
            text, is_cut = written(of_tiny, language, least + more, rng)
            validator.validate(json.loads(text))
            n_hurried += is_cut
    assert n_hurried > N_SCHEMAS


def test_fewer_tokens_than_the_shortest(rng: Generator, of_tiny: Guide) -> None:
    """It is said how many it takes; nothing is said of texts that may break off."""
    drawing = random.Random(int(rng.integers(2**32)))
    for _ in range(N_SCHEMAS):
        language = JsonSchema(whole_schema(drawing))
        least = least_of(of_tiny, language)
        running = RunningConstraint(language.make(of_tiny)(), 0)
        assert running.begin(int(rng.integers(1, least))) == least


def instances(schema: dict[str, Any]) -> Iterator[Any]:
    """All instances of a schema of a few choices."""
    if "enum" in schema:
        yield from schema["enum"]
    elif "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from instances(each)
    elif schema["type"] == "array":
        for n in range(schema["minItems"], schema["maxItems"] + 1):
            yield from map(list, itertools.product(*[[*instances(schema["items"])]] * n))
    else:
        names = schema["properties"]
        fields = [[*([] if name in schema["required"] else [None]),
                   *((name, value) for value in instances(names[name]))] for name in names]
        for chosen in itertools.product(*fields):
            yield dict(pair for pair in chosen if pair is not None)


def small_schema(rng: random.Random, depth: int = 2) -> dict[str, Any]:
    """A schema of a few choices."""
    words = ["a", "once upon a time", "the dog", "xyzzy", "}", ",,", 7, 120, -5, True, None]
    match rng.randrange(4) if depth else 0:
        case 0:
            return {"enum": rng.sample(words, rng.randint(1, 3))}
        case 1:
            return {"anyOf": [small_schema(rng, depth - 1), small_schema(rng, 0)]}
        case 2:
            return {"type": "array", "items": small_schema(rng, 0), "minItems": rng.randrange(3),
                    "maxItems": 2}
        case _:
            names = rng.sample(["name", "id", "why", "long name", "x1"], rng.randint(1, 3))
            return {"type": "object", "properties": {n: small_schema(rng, depth - 1)
                                                     for n in names},
                    "required": [n for n in names if rng.random() < 0.6],
                    "additionalProperties": False}


def test_no_text_is_shorter(rng: Generator, of_tiny: Guide, tokenizer: Tokenizer) -> None:
    """Among all texts of schemas of a few choices, cut as the tokenizer cuts them."""
    drawing = random.Random(int(rng.integers(2**32)))
    for _ in range(30):
        schema = small_schema(drawing)
        texts = {json.dumps(value) for value in itertools.islice(instances(schema), 3000)}
        fewest = min(len(tokenizer.encode(text, add_special=False, special=False, continues=True))
                     for text in texts)
        assert least_of(of_tiny, JsonSchema(schema)) <= fewest, schema


def test_a_long_way_is_kept_where_its_beginning_changes(
        monkeypatch: pytest.MonkeyPatch, of_tiny: Guide, tokenizer: Tokenizer) -> None:
    """A few tokens lead back to it: to look for another one takes as long as it is long."""
    form = {"type": "array", "minItems": 40, "items": {
        "type": "object", "properties": {"size": {"type": "number"}, "when": {"type": "string",
                                                                             "format": "date"}},
        "required": ["size", "when"], "additionalProperties": False}}
    constraint = foresees(JsonSchema(form).make(of_tiny)())
    assert constraint is not None
    way = constraint.way_out(5000)
    monkeypatch.setattr(Ways, "out_of", lambda *_: pytest.fail("the whole way is looked for"))
    for text in '[{"size": -1.5e-7, "when": "2024-02-2':
        first, = tokenizer.encode(text, add_special=False, continues=True)
        way = constraint.way_out(5000, first, way or ())
        assert way is not None and constraint.n_valid([first, *way]) == 1 + len(way)
        constraint.accept(first)


def test_banned_tokens_are_not_on_the_way(rng: Generator, of_tiny: Guide) -> None:
    """Another way has other tokens where the text is free."""
    schema = JsonSchema({"type": "array", "items": {"type": "integer"}, "minItems": 1})
    digits = [i for i, token in enumerate(of_tiny.tokens) if len(token) == 1 and token.isdigit()]
    for _ in range(10):
        constraint: Any = schema.make(of_tiny)()
        banned = frozenset(int(t) for t in rng.choice(digits, rng.integers(1, len(digits))))
        way = constraint.way_out(100, banned=banned)
        assert way is not None and not banned & set(way)
        assert len(json.loads(b"".join(of_tiny.tokens[t] for t in way[:-1]))) == 1
    assert constraint.way_out(100, banned=frozenset(digits)) is None


@pytest.mark.parametrize("more", [0, 1, 3, 30])
@pytest.mark.parametrize("n_tokens", [None, 4, 1000])
@pytest.mark.parametrize("ends", [0.0, 0.3])
def test_reasoning_leaves_room_for_the_answer(
        rng: Generator, of_tiny: Guide, more: int, n_tokens: int | None, ends: float) -> None:
    """The reasoning ends where its budget is spent, where the model ends it, or where the answer
    has just room enough."""
    answer = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4}
    language = Budgeted("</t>", n_tokens, whole=After("</t>", JsonSchema(answer)))
    least = least_of(of_tiny, language)
    for _ in range(4):
        text, _ = written(of_tiny, language, least + more, rng, ends=ends)
        jsonschema.validate(json.loads(text.partition(b"</t>")[2]), answer)
