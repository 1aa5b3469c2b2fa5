"""Reads the talks: what a user and the model may say to each other, and with which words.

The files in ``talks`` have the form of ``plots`` (see ``stories.py``). ``== name weight`` starts a
talk. ``let a, b = rule`` chooses different alternatives of a rule. ``needs a`` and ``lacks a`` say
what earlier talks of the conversation must have chosen, or not. Then come the turns, one a line:
``system:``, ``user:``, ``think:``, ``assistant:``. A short story has paragraphs in place of turns,
and ``ask question = answer`` lines.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import stories

FOLDER = Path(__file__).parent / "talks"
ONSETS = ("b", "br", "c", "d", "dr", "f", "g", "gr", "h", "j", "k", "kl", "l", "m", "n", "p", "pr",
          "qu", "r", "s", "st", "t", "tr", "v", "w", "z")
VOWELS = ["a", "e", "i", "o", "u", "a", "e", "i", "o", "ai", "oo"]
CODAS = ["", "", "", "l", "n", "r", "s", "m", "th", "x", "nd"]
PEOPLE = ("girl", "boy", "she_animal", "he_animal")
"""The rules that hold known names."""


@dataclass(frozen=True)
class Talk:
    """A talk: its lines by what they are, ``body`` as (role, text)."""

    name: str
    weight: int
    lets: tuple[tuple[tuple[str, ...], str], ...]
    needs: tuple[str, ...]
    lacks: tuple[str, ...]
    asks: tuple[tuple[str, str], ...]
    body: tuple[tuple[str, str], ...]


@functools.cache
def rules() -> Mapping[str, tuple[str, ...]]:
    """The rules of the stories and of the talks."""
    return {**stories.rules(), **stories.read_rules(FOLDER / "words.txt"),
            **stories.read_rules(FOLDER / "tale_words.txt")}


@functools.cache
def talks(name: str) -> tuple[Talk, ...]:
    """The talks of the file ``name``."""
    text = "\n".join(stories.lines(FOLDER / f"{name}.txt"))
    return tuple(_talk(part) for part in re.split(r"^== ", text, flags=re.M)[1:])


@functools.cache
def known() -> tuple[tuple[str, str], ...]:
    """Questions and answers of ``known.txt``."""
    pairs = (line.split(" | ") for line in stories.lines(FOLDER / "known.txt") if line)
    return tuple((question, answer) for question, answer in pairs)


def _talk(text: str) -> Talk:
    head, _, body = text.partition("\n")
    name, _, weight = head.partition(" ")

    def found(pattern: str) -> list[tuple[str, str]]:
        return re.findall(pattern, body, flags=re.M)
    tale = re.sub(r"^(let|ask|needs|lacks) .*\n?", "", body, flags=re.M).strip()
    turns = found(r"^(system|user|think|assistant): (.*)$")
    return Talk(name, int(weight or 1),
                tuple((tuple(names.split(", ")), rule) for names, rule in found(
                    r"^let (.*) = (.*)$")),
                tuple(name for _, name in found(r"^(needs) (.*)$")),
                tuple(name for _, name in found(r"^(lacks) (.*)$")),
                tuple(found(r"^ask (.*) = (.*)$")),
                tuple(turns) or (("tale", tale.replace("\n", " ")),))


def new_name(rng: random.Random) -> str:
    """A name that is in no list."""
    def syllable() -> str:
        return rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS)
    return "".join(syllable() for _ in range(rng.choice((1, 2, 2)))).capitalize()


def any_name(rng: random.Random) -> str:
    """A name: about every other one is new."""
    if rng.random() < 0.45:
        return new_name(rng)
    return rng.choice(rules()[rng.choice(PEOPLE)])


def number(rng: random.Random) -> str:
    """A whole number from 2 on, more often a small one."""
    low, high = rng.choice(((2, 20), (2, 20), (2, 99), (21, 99), (100, 999), (1000, 9999)))
    return str(rng.randint(low, high))


def code(rng: random.Random) -> str:
    """Three to six digits."""
    return "".join(rng.choice("0123456789") for _ in range(rng.randint(3, 6)))


MADE: Mapping[str, Callable[[random.Random], str]] = {
    "name": any_name, "number": number, "code": code}
"""Rules without alternatives: each choice is made."""


class Teller(stories.Story):
    """Chooses the words of one conversation; ``cast`` keeps what its talks have chosen."""

    def tell_talk(self, talk: Talk) -> list[tuple[str, str]]:
        """The turns of ``talk`` as (role, text)."""
        for names, rule in talk.lets:
            self._choose_things(names, self.expand(rule))
        return [(role, self.text(text)) for role, text in talk.body]

    def text(self, text: str) -> str:
        """``text`` with every choice made and every slot filled."""
        return stories.polish(self.expand(text)).strip()

    def pick(self, rule: str) -> str:
        """A random alternative of ``rule``, not yet expanded, or something that is made."""
        return MADE[rule](self.rng) if rule in MADE else self.rng.choice(rules()[rule])

    def _choose_things(self, names: tuple[str, ...], rule: str) -> None:
        chosen: list[str] = []
        while len(chosen) < len(names):
            value = self.expand(self.pick(rule))
            if value not in chosen:
                chosen.append(value)
        for name, choice in zip(names, chosen, strict=True):
            value, *fields = (part.strip() for part in choice.split("@"))
            texts = dict(part.split(" ", 1) for part in fields)
            self.cast[name] = {"": value, "a": f"a {value}", **texts}
