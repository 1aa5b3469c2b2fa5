"""Regular expressions mean what they mean in Python."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pytest
from numpy.random import Generator

from sample.constrain.conftest import Fits
from unladen.errors import InvalidArgument
from unladen.sample.constrain.regex import Regex


def test_shared_expressions(shared: Path, fits: Fits) -> None:
    regexes = json.loads((shared / "chat/grammars.json").read_text())["regexes"]
    assert len(regexes) >= 15
    for each in regexes:
        regex = Regex(each["regex"])
        for text in each["accept"]:
            assert fits(regex, text), (each["id"], text)
        for text in each["reject"]:
            assert not fits(regex, text), (each["id"], text)


@pytest.mark.parametrize("pattern", [
    r"a{,3}", r"[a&&b]", r"^a$", r"^(a|b)$", r"^a|b$", r"(?i)aB[c-e]", r"[^a]", r"\w+",
    r"a|b|", r"x{2,3}?y*", r"[[:alpha:]]+", r"a*?b", r".*", r"(?s:.)*", r"", r"(?x) a b # c",
    r"a/b", r"[]a]", r"[\d\s]", r"[^\W\d]", r"(?a:\w)", r"(?P<n>a)b", r"\Aa\Z", r"a{2000}",
    r"\x41\u00e9\N{BULLET}\.", r"(?-i:a)", r"|", r"()", r"(?i:[^k])", r"\D\S", r"a\\b", r"a\/b"])
def test_as_python_says(rng: Generator, fits: Fits, pattern: str) -> None:
    alphabet = "aAbBcdK\u212ak\u017fsS \n/0é٣[]:&$^x.•yl_\\-"
    texts = ["", "a", "b", "ab", "aaa", "xxy", "Aé•.", "a/b", "a\\b"] + [
        "".join(rng.choice(list(alphabet), rng.integers(1, 5))) for _ in range(60)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Python's own, about [a&&b]
        expected = [bool(re.fullmatch(pattern, text)) for text in texts]
    regex = Regex(pattern)
    wrong = [text for text, fit in zip(texts, expected, strict=True) if fits(regex, text) != fit]
    assert wrong == [], regex.written


@pytest.mark.parametrize(("pattern", "message"), [
    (r"a++", "possessive"), (r"(?>a)", "atomic"), (r"\bfoo", r"\\b"), (r"(?=a)a", "look-around"),
    (r"(?<!a)b", "look-around"), (r"(a)\1", "reference"), (r"(a)?(?(1)b|c)", "condition"),
    (r"a$b", "anchor"), (r"[", "isn't a regular expression"), ("a{99999999999}", "regular expr")])
def test_refused(pattern: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Regex(pattern)
