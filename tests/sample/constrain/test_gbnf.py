"""GBNF grammars: the texts that they let pass, and errors that tell where they are malformed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from numpy.random import Generator

from sample.constrain.conftest import Fits
from sample.constrain.grammars import matches, random_grammar, random_text
from unladen.errors import InvalidArgument
from unladen.sample.constrain import gbnf, lexemes
from unladen.sample.constrain.gbnf import Gbnf
from unladen.sample.constrain.language import Lark


def test_shared_grammars(shared: Path, fits: Fits) -> None:
    grammars = json.loads((shared / "chat/grammars.json").read_text())["grammars"]
    assert len(grammars) >= 15
    for each in grammars:
        grammar = Gbnf(each["gbnf"])
        for text in each["accept"]:
            assert fits(grammar, text), (each["id"], text)
        for text in each["reject"]:
            assert not fits(grammar, text), (each["id"], text)


@pytest.mark.parametrize(("text", "yes", "no"), [
    ('root ::= "ab" "d" | "a" "bc"', ["abd", "abc"], ["ab", "a"]),
    ('root ::= word "for" | word\nword ::= [a-z]*', ["for", "xfor", "", "fo"], ["For"]),
    ('root ::= "ab"* "a"', ["a", "aba"], ["ab", "abab"]),
    ('root ::= ("a"? "b"?)* "c"', ["c", "bac"], ["b"]),
    ('root ::= ""', [""], ["a"]),
    ('root ::= | "a" # or nothing', ["", "a"], ["aa"]),
    ('root ::= [a-]+ [^\\]]', ["a-x", "--"], ["a]"]),
    ('root ::= ""* "a"', ["a"], [""]),
    ('root ::= x+\nx ::= "\\u00fc" | "\\U0001F600" | "\\x41"', ["ü😀A"], ["u", "😀x"]),
    ('root ::= "a"{0} "b"{1,} "c"{0,2}', ["b", "bbcc"], ["c", "bccc"]),
    ('root ::= (\n "a" |\n\n "b"\n)\n', ["a", "b"], ["ab"]),
    ('root ::= "a"+* "b"', ["b", "aaab"], ["a"]),
    ('root ::= "x" root | "y"', ["y", "xxy"], ["x"])])
def test_texts(fits: Fits, text: str, yes: list[str], no: list[str]) -> None:
    grammar = Gbnf(text)
    assert [each for each in yes if not fits(grammar, each)] == []
    assert [each for each in no if fits(grammar, each)] == []


@pytest.mark.parametrize(("text", "message"), [
    ('root ::= "a" | "b', "line 1, column 18: expected \""),
    ('root ::= "a"\n  b', "line 2, column 4: expected ::="),
    ("root ::= x", "line 1, column 10: there is no rule x"),
    ('x ::= "a"', "no rule root"), ('root ::= root "a" | "b"', "root begins with itself"),
    ('root ::= a\na ::= "x"? b\nb ::= a', "rule (a|b) begins with itself"),
    ("root ::= [z-a]", "ends before it begins"), ('root ::= "\\q"', "unknown escape"),
    ('root ::= "\\ud800"', r"no character U\+D800"), ('root ::= ("a"', r"expected \)"),
    ('root ::= "a"{3,1}', "from a smaller to a larger"), ('root ::= "a"{9999}', "up to 2000"),
    ("root ::= *", "unexpected"), ('root ::= "a"\nroot ::= "b"', "there twice"),
    ("root ::= []", "no character fits"), ("root ::= " + "(" * 500, "more than 100 brackets"),
    ('root ::= "a"' + "*" * 5000, "nested too deeply"),
    ('root ::= "a" )', "unexpected"), ("", "GBNF grammar")])
def test_malformed(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Gbnf(text)


@pytest.mark.parametrize("end", ['"a"?', '"a"', "r0"])
def test_many_rules(end: str) -> None:
    """Each rule begins with the next one: their number doesn't multiply the work."""
    n = 20_000
    text = "root ::= r0\n" + "".join(f"r{i} ::= r{i + 1}?\n" for i in range(n)) + f"r{n} ::= {end}"
    if end == "r0":
        with pytest.raises(InvalidArgument, match=r"rule r\d+ begins with itself"):
            Gbnf(text)
    else:
        assert Gbnf(text).written.count("\n") == n + 2


def test_lexemes_change_nothing(rng: Generator, fits: Fits) -> None:
    """Random grammars, also recursive ones, let the same texts pass as a matcher in Python."""
    n_yes = n_faster = 0
    for _ in range(60):
        text = random_grammar(rng)
        grammar = Gbnf(text)
        n_faster += by_characters(text).text != grammar.written
        for _ in range(40):
            sample = random_text(rng)
            expected = matches(grammar.rules, sample)
            n_yes += expected
            assert fits(grammar, sample) == expected, (text, sample, grammar.written)
    assert n_yes > 50 and n_faster > 30


def by_characters(text: str) -> Lark:
    """The grammar with a lexeme for each character."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexemes, "MAX_RULES", 0)
        return Lark(lexemes.lark_of(gbnf._Reader(text).rules()))


@pytest.mark.parametrize("text", [
    "root ::= " + " ".join(f"r{i}" for i in range(60)) + "\n" + "\n".join(
        f'r{i} ::= "ab"* [a-b]{{0,90}} "c"' for i in range(60)),
    'root ::= "(" root ")" | ' + " | ".join(f'[a-z]{{0,{n}}} "x" [a-z]*' for n in range(1, 60)),
    'root ::= ([ab]* "a" [ab]{150})+ root?', 'root ::= "' + "ab" * 5000 + '" root?'])
def test_large_grammars_take_little_time(text: str) -> None:
    start = time.process_time()
    Gbnf(text)
    assert time.process_time() - start < 5  # half a second; more by far only if work isn't bounded
