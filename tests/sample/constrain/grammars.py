"""Random GBNF grammars, and a matcher of them that knows nothing of llguidance."""

from __future__ import annotations

from collections.abc import Mapping

from numpy.random import Generator

from unladen.sample.constrain.expressions import (
    Alternatives,
    Chars,
    Expression,
    Name,
    Repeat,
    Sequence_,
)


def random_grammar(rng: Generator) -> str:
    """Rules over few letters, the first of which calls itself."""
    return "\n".join([
        f"root ::= {random_expression(rng, ['x', 'y'], 2)} | \"(\" root \")\"",
        f"x ::= {random_expression(rng, ['y'], 1)}",
        f"y ::= {random_expression(rng, ['z'], 1)}", 'z ::= [ab] " "*'])


def random_expression(rng: Generator, names: list[str], depth: int) -> str:
    """A part of a rule over few letters, so that parts begin and go on alike."""
    kind = int(rng.integers(0, 8 if depth else 3))
    if kind == 0:
        return '"' + "".join(rng.choice(list("ab "), int(rng.integers(1, 4)))) + '"'
    if kind == 1:
        return str(rng.choice(["[ab]", "[a ]", "[^a]", "[b-c]"]))
    if kind == 2:
        return str(rng.choice(names))
    parts = [random_expression(rng, names, depth - 1) for _ in range(int(rng.integers(1, 4)))]
    if kind < 5:
        return " ".join(parts)
    if kind == 5:
        return "(" + " | ".join(parts) + ")"
    return f"({' '.join(parts)}){rng.choice(['*', '+', '?', '{1,2}'])}"


def random_text(rng: Generator) -> str:
    """A text that may be one of :func:`random_grammar`."""
    text = "".join(rng.choice(list("ab c"), int(rng.integers(0, 7))))
    return f"({text})" if rng.random() < 0.3 else text


def matches(rules: Mapping[str, Expression], text: str) -> bool:
    """Whether the whole ``text`` is one of the rule root."""
    return len(text) in _Matcher(rules, text).ends(rules["root"], 0)


class _Matcher:
    """Where texts of an expression end that begin at one place of ``text``."""

    def __init__(self, rules: Mapping[str, Expression], text: str) -> None:
        self.rules, self.text = rules, text

    def ends(self, expression: Expression, begin: int) -> set[int]:
        match expression:
            case Chars(ranges):
                code = ord(self.text[begin]) if begin < len(self.text) else -1
                return {begin + 1} if any(a <= code <= b for a, b in ranges) else set()
            case Name(name):
                return self.ends(self.rules[name], begin)
            case Alternatives(parts):
                return {end for part in parts for end in self.ends(part, begin)}
            case Sequence_(parts):
                found = {begin}
                for part in parts:
                    found = self._all(part, found)
                return found
            case Repeat(part, low, high):
                found = {begin}
                for _ in range(low):
                    found = self._all(part, found)
                latest = found
                for _ in range(len(self.text) + 1 if high is None else high - low):
                    latest = self._all(part, latest)
                    found = found | latest
                return found
        raise TypeError(expression)

    def _all(self, part: Expression, begins: set[int]) -> set[int]:
        return {end for begin in begins for end in self.ends(part, begin)}
