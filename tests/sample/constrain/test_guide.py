"""Constraints that llguidance computes: masks, tokens that are forced, and taking tokens back."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from sample.constrain.conftest import END, MARK, allowed
from unladen.errors import ConstraintFailed, InvalidArgument, UnladenError
from unladen.sample.constrain.base import n_words
from unladen.sample.constrain.guide import KEPT, Guide
from unladen.sample.constrain.language import (
    After,
    Anything,
    Exactly,
    Joined,
    Language,
    Lark,
    OneOf,
)
from unladen.sample.constrain.regex import Regex
from unladen.sample.constrain.schema import JsonSchema
from unladen.tokenizer import Tokenizer

PERSON = JsonSchema({"type": "object", "properties": {
    "name": {"type": "string"}, "kind": {"enum": ["person", "place"]}, "n": {"type": "integer"}},
    "required": ["name", "kind", "n"], "additionalProperties": False})


def test_taking_back_is_as_if_it_never_came(rng: Generator, of_tiny: Guide) -> None:
    """Random walks, a part of which is taken back again, end as walks without that part."""
    make = PERSON.make(of_tiny)
    for _ in range(20):
        walked, straight, path = make(), make(), list[int]()
        for _ in range(60):
            n_ahead = int(rng.integers(0, 6))
            for n in range(n_ahead + 1):
                tokens = allowed(walked, len(of_tiny.tokens))
                if not tokens:
                    n_ahead = n - 1
                    break
                walked.accept(int(rng.choice(tokens)))
            if n_ahead + 1:
                walked.rollback(n_ahead + 1)
            tokens = allowed(walked, len(of_tiny.tokens))
            assert tokens == allowed(straight, len(of_tiny.tokens))
            assert walked.forced() == straight.forced()  # type: ignore[attr-defined]
            token = int(rng.choice(tokens))
            path.append(token)
            walked.accept(token)
            straight.accept(token)
            if token in of_tiny.ends:
                break


def test_forced_tokens_are_the_only_ones(rng: Generator, of_tiny: Guide, tokenizer: Tokenizer
                                         ) -> None:
    """What is forced is the beginning of the only text that can follow, cut as the tokenizer cuts
    it; the end is forced where nothing else can come."""
    make = PERSON.make(of_tiny)
    begin: Any = make()
    assert tokenizer.decode(begin.forced(), at_start=False).startswith('{"name": ')
    assert begin.forced() == tokenizer.encode('{"name": "', add_special=False, continues=True,
                                              special=False)[:len(begin.forced())]
    text = '{"name": "x", "kind": "person", "n": 5'
    constraint: Any = make()
    for token in tokenizer.encode(text, add_special=False, continues=True, special=False):
        assert token in allowed(constraint, len(of_tiny.tokens))
        forced = constraint.forced()
        assert constraint.n_valid(forced) == len(forced)
        assert not forced or forced[0] in allowed(constraint, len(of_tiny.tokens))
        constraint.accept(token)
    assert constraint.forced() == []
    constraint.accept(tokenizer.encode("}", add_special=False, continues=True)[0])
    assert constraint.forced() == [of_tiny.ends[0]] == allowed(constraint, len(of_tiny.tokens))
    constraint.accept(of_tiny.ends[0])
    assert constraint.forced() == [] and constraint.n_valid([5]) == 0
    constraint.rollback(2)
    assert constraint.forced() == []


@pytest.mark.parametrize(("language", "n_most"), [
    (PERSON, 60), (JsonSchema({"type": "array", "items": {"type": "string"}}), 10),
    (JsonSchema({"type": "string", "format": "email"}), 20), (Regex("[a-c]{3}(x|yz)[.]"), 12),
    (JsonSchema({"$defs": {"t": {"type": "object", "properties": {
        "k": {"type": "array", "items": {"$ref": "#/$defs/t"}}, "n": {"type": "number"}},
        "required": ["k", "n"]}}, "$ref": "#/$defs/t"}), 60)])
def test_a_way_out(rng: Generator, of_tiny: Guide, language: Language, n_most: int) -> None:
    """From wherever a random walk comes to, tokens that are allowed lead to the end."""
    make = language.make(of_tiny)
    n_ways = 0
    for _ in range(6):
        constraint: Any = make()
        for _ in range(25):
            tokens = allowed(constraint, len(of_tiny.tokens))
            way = constraint.way_out(n_most)
            assert way == constraint.way_out(n_most), "nothing is changed by it"
            assert way is None or len(way) <= n_most
            for n, token in enumerate(way or ()):
                assert token in allowed(constraint, len(of_tiny.tokens))
                constraint.accept(token)
                assert (token in of_tiny.ends) == (n == len(way) - 1)
            if way:
                n_ways += 1
                constraint.rollback(len(way))
            token = int(rng.choice(tokens))
            after = constraint.way_out(n_most, token)
            constraint.accept(token)
            assert after == constraint.way_out(n_most) or token in of_tiny.ends
            if token in of_tiny.ends:
                break
    assert n_ways > 0


def test_masks_of_other_sizes(of_bytes: Guide) -> None:
    """A model may have fewer rows of logits than the vocabulary has tokens, or more."""
    constraint = Regex("[a-c]").make(of_bytes)()
    for n_words_out in (2, 4, n_words(MARK + 1), 40):
        out = np.zeros(n_words_out, np.uint32)
        constraint.mask(out)
        bits = np.flatnonzero(np.unpackbits(out.view(np.uint8), bitorder="little")).tolist()
        assert bits == [t for t in (97, 98, 99) if t < 32 * n_words_out]


def test_a_wrong_token_is_an_error(of_bytes: Guide) -> None:
    constraint = Regex("[a-c]").make(of_bytes)()
    with pytest.raises(ConstraintFailed, match="constraint failed"):
        constraint.accept(ord("x"))
    with pytest.raises(ConstraintFailed):
        constraint.mask(np.zeros(n_words(MARK + 1), np.uint32))


def test_a_vocabulary_without_an_end(of_bytes: Guide) -> None:
    """A token beyond it stands for the end, where nothing else can follow."""
    guide = Guide([bytes([i]) for i in range(256)], [], [], list)
    constraint: Any = Exactly("a").make(guide)()
    constraint.accept(97)
    assert constraint.forced() == [256] and guide.ends == (256,)
    assert allowed(constraint, 256) == []


@pytest.mark.parametrize(("language", "yes", "no"), [
    (Exactly("a<mark>b"), ["a<mark>b"], ["ab", "a"]), (Exactly(""), [""], ["a"]),
    (Joined([Exactly("ab"), Regex("[0-9]+")]), ["ab12"], ["ab", "12"]),
    (OneOf([Exactly("ab"), Regex("[0-9]+")]), ["ab", "12"], ["ab12", ""]),
    (After("</think>", JsonSchema({"type": "integer"})), ["</think>5", "x</th</think>12"],
     ["5", "a</think>", "a</think>b</think>5"]),
    (After("<mark>", JsonSchema({"type": "integer"})), ["<mark>5", "x</th<mark>12"],
     ["5", "a<mark>", "a<mark>b<mark>5"]),
    (Lark('start: "a" NUMBER\nNUMBER: /[0-9]+/'), ["a1"], ["a"]), (Anything(), ["", "a\nü"], []),
    (Joined([Exactly("x"), Exactly("")]), ["x"], ["xx"])])
def test_languages(fits: Any, language: Language, yes: list[str], no: list[str]) -> None:
    assert [each for each in yes if not fits(language, each)] == []
    assert [each for each in no if fits(language, each)] == []


def test_special_tokens_are_not_text(of_bytes: Guide) -> None:
    """The text of a special token is never written as that token by text, or the other way."""
    constraint = Anything().make(of_bytes)()
    assert MARK not in allowed(constraint, MARK + 1) and END in allowed(constraint, MARK + 1)
    assert of_bytes.ids_of("a<mark>b") == [97, MARK, 98]
    assert allowed(Exactly("<mark>").make(of_bytes)(), MARK + 1) == [MARK]


def test_what_cannot_be_compiled(of_bytes: Guide) -> None:
    with pytest.raises(InvalidArgument, match="Lark grammar can't be compiled"):
        Lark("start: nothing").make(of_bytes)
    with pytest.raises(InvalidArgument, match="Lark grammar can't be compiled"):
        Joined([Exactly("a"), Lark("start: nothing")]).make(of_bytes)
    with pytest.raises(InvalidArgument, match="not at #"):
        Joined([Exactly("a"), JsonSchema({"not": {}})]).make(of_bytes)


def test_grammars_are_compiled_once(of_bytes: Guide, monkeypatch: pytest.MonkeyPatch) -> None:
    n_made = 0
    made = Guide._made

    def counted(self: Guide, text: str) -> Any:
        nonlocal n_made
        n_made += 1
        return made(self, text)
    monkeypatch.setattr(Guide, "_made", counted)
    for _ in range(3):
        Exactly("once only").make(of_bytes)
    assert n_made == 1
    for i in range(KEPT + 8):
        Exactly(f"number {i}").make(of_bytes)
        if i % 8 == 0:
            Exactly("now and then").make(of_bytes)
    assert len(of_bytes._compiled) <= KEPT
    assert n_made == 1 + KEPT + 8 + 1, "what is used now and then is kept"
    Exactly("once only").make(of_bytes)
    assert n_made == 1 + KEPT + 8 + 1 + 1


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(UnladenError, match="needs llguidance"):
        Guide([b"a"], [], [], list)
