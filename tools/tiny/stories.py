"""Composes the little stories that the tiny model learns English from. All text is our own.

``words.txt`` holds rules: a name and its alternatives. ``plots/`` holds plots: who and what they
are about (``let``), then what happens, a beat a line. A story is a plot with a cast: each
``{slot}`` becomes the one thing ``let`` chose, or else a fresh alternative of the rule with that
name, and ``[this|that]`` is a choice made on the spot. A beat that starts with ``?``, or the end
of a beat from ``?{``, is told every other time. The hero is ``h``, ``f`` a friend, ``e`` an elder
of the hero's, ``n`` a neighbor. Slots of a person have the forms ``{h.they} {h.them} {h.their}
{h.s} {h.kind} {h.home} {h.intro}`` (capitalized where the field is); things have ``{m.a}``, with
the article, and the ``@field`` texts of their alternative. Articles and the capitals at sentence
starts come last, from the finished text.

Run ``python tools/tiny/stories.py --seed 1 --count 3`` to read some.
"""

from __future__ import annotations

import argparse
import functools
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
SLOT = re.compile(r"\{([^{}]*)\}")
CHOICE = re.compile(r"\[([^\[\]]*)\]")
SENTENCE_START = re.compile(r'(^|\n|[.!?] |\." |(?:^|\s)")([a-z])')
ARTICLE = re.compile(r"\b([Aa])n? (?=(?i:((?!uni)[aeiou]|hour|honest))?)")
PRONOUNS = {"she": ("she", "her", "her"), "he": ("he", "him", "his")}

Fields = Mapping[str, str]


@dataclass(frozen=True)
class Plot:
    """A plot: its name, its ``let`` lines as (variables, rule), its beats by paragraph."""

    name: str
    lets: tuple[tuple[tuple[str, ...], str], ...]
    paragraphs: tuple[tuple[str, ...], ...]


def lines(path: Path) -> Iterator[str]:
    """Lines without comments; one that ends in a backslash goes on in the next."""
    text = re.sub(r"\\\n\s*", "", path.read_text(encoding="utf-8"))
    return (line.rstrip() for line in text.split("\n") if not line.startswith("#"))


@functools.cache
def rules() -> Mapping[str, tuple[str, ...]]:
    """Every rule of ``words.txt``: its name and its alternatives."""
    return read_rules(FOLDER / "words.txt")


def read_rules(path: Path) -> Mapping[str, tuple[str, ...]]:
    """Every rule of the file ``path``: its name and its alternatives."""
    pairs = (line.split(":", 1) for line in lines(path) if line)
    return {name: tuple(a.strip() for a in _alternatives(text)) for name, text in pairs}


def _alternatives(text: str) -> list[str]:
    """Split at the bars outside brackets."""
    return re.split(r"\|(?![^\[]*\])", text)


@functools.cache
def plots() -> tuple[Plot, ...]:
    """Every plot of the files in ``plots``."""
    files = sorted(FOLDER.glob("plots/*.txt"))
    text = "\n".join(line for path in files for line in lines(path))
    return tuple(_plot(part) for part in re.split(r"^== ", text, flags=re.M)[1:])


def _plot(text: str) -> Plot:
    name, _, body = text.partition("\n")
    lets = re.findall(r"^let (.*) = (.*)\n", body, flags=re.M)
    beats = re.sub(r"^let .*\n", "", body, flags=re.M).strip()
    return Plot(name, tuple((tuple(names.split(", ")), rule) for names, rule in lets),
                tuple(tuple(p.split("\n")) for p in re.split(r"\n\n+", beats)))


@dataclass
class Story:
    """A story while it is composed: its random source and everything chosen so far."""

    rng: random.Random
    cast: dict[str, Fields] = field(default_factory=dict)

    def tell(self, plot: Plot) -> str:
        """The finished text of ``plot`` with a new cast."""
        self._choose_people()
        for names, rule in plot.lets:
            self._choose_things(names, self.expand(rule))
        paragraphs = (" ".join(self._beats(p)) for p in plot.paragraphs)
        return polish("\n\n".join(self.expand(p) for p in paragraphs))

    def introduce(self) -> str:
        """One hero, in a few sentences that name it again and again."""
        self._choose_people()
        more = ["{about}", "{about}", "{felt_happy}", "{felt_sad}", "{thought}"]
        self.rng.shuffle(more)
        return polish(self.expand(" ".join(("{opening}", "{about}", *more))))

    def _beats(self, lines: tuple[str, ...]) -> Iterator[str]:
        for line in lines:
            for beat in re.split(r" (?=\?\{)", line):
                if not beat.startswith("?") or self.rng.random() < 0.5:
                    yield beat.removeprefix("?").strip()

    def _choose_people(self) -> None:
        """The hero, a friend of the other pronoun (so that "he" and "she" are clear), an elder."""
        she_first = self.rng.random() < 0.5
        hero, friend = ("she", "he") if she_first else ("he", "she")
        self.cast["h"] = self._person(hero)
        self.cast["f"] = self._person(friend)
        elder = self.rng.choice(("she", "he"))
        title = self.rng.choice(rules()["woman" if elder == "she" else "man"])
        self.cast["e"] = {"": title, **_pronouns(elder)}
        neighbor = self.rng.choice(("she", "he"))
        self.cast["n"] = {"": "woman" if neighbor == "she" else "man", **_pronouns(neighbor)}
        by_day = self.rng.random() < 0.3
        self.cast["opening"] = {"": "{open_day}" if by_day else "{open}"}
        if by_day:
            self.cast["day"] = {"": "{later}"}

    def _person(self, pronoun: str) -> Fields:
        names = "girl" if pronoun == "she" else "boy"
        if self.rng.random() < 0.55:
            kind = self.pick(f"{pronoun}_kind")
            home = "child_home" if kind == names else "royal_home"
        else:
            names, home, kind = f"{pronoun}_animal", "animal_home", self._fresh("animal")
        name = self._fresh(names)
        person = {"": name, "s": f"{name}'s", "kind": kind, "home": self.pick(home),
                  **_pronouns(pronoun)}
        intro = self.pick("intro").replace("{kind}", kind).replace("{name}", name)
        return person | {"intro": self.expand(intro)}

    def _fresh(self, rule: str) -> str:
        """An alternative that nobody in the cast has yet."""
        taken = {value for fields in self.cast.values() for value in fields.values()}
        return self.rng.choice([a for a in rules()[rule] if a not in taken])

    def _choose_things(self, names: tuple[str, ...], rule: str) -> None:
        kinds = {self.cast[who]["kind"] for who in "hf"}
        choices = [a for a in rules()[rule] if a not in kinds]
        for name, choice in zip(names, self.rng.sample(choices, len(names)), strict=True):
            value, *fields = (part.strip() for part in choice.split("@"))
            texts = dict(part.split(" ", 1) for part in fields)
            self.cast[name] = {"": value, "a": f"a {value}", **texts}

    def pick(self, rule: str) -> str:
        """A random alternative of ``rule``, not yet expanded."""
        return self.rng.choice(rules()[rule])

    def expand(self, text: str) -> str:
        """Make every choice and fill every slot, innermost first, until none is left."""
        while CHOICE.search(text) or SLOT.search(text):
            text = CHOICE.sub(lambda m: self.rng.choice(m[1].split("|")), text)
            text = SLOT.sub(lambda m: self._slot(m[1]), text)
        return text

    def _slot(self, name: str) -> str:
        name, _, form = name.partition(".")
        if name not in self.cast:
            return self.pick(name)
        value = self.cast[name][form.lower()]
        return value[0].upper() + value[1:] if form[:1].isupper() else value


def _pronouns(pronoun: str) -> dict[str, str]:
    return dict(zip(("they", "them", "their"), PRONOUNS[pronoun], strict=True))


def polish(text: str) -> str:
    """Choose the articles and capitalize the first letter of every sentence.

    "the a" becomes "the", and ``"~`` is the start of quoted words that go on with a sentence.
    """
    text = re.sub(r"\bthe an? ", "the ", text)
    text = ARTICLE.sub(lambda m: m[1] + ("n " if m[2] else " "), text)
    return SENTENCE_START.sub(lambda m: m[1] + m[2].upper(), text).replace("~", "")


def compose(seed: int, count: int) -> Iterator[str]:
    """``count`` stories of 150 to 310 words; the same ``seed`` gives the same stories."""
    rng = random.Random(seed)
    for _ in range(count):
        yield Story(rng).tell(rng.choice(plots()))


def introductions(seed: int, count: int) -> Iterator[str]:
    """``count`` short texts about one hero each: the easiest ones to learn names from."""
    rng = random.Random(seed)
    return (Story(rng).introduce() for _ in range(count))


def main() -> None:
    """Print some stories."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=3)
    options = parser.parse_args()
    print("\n\n* * *\n\n".join(compose(options.seed, options.count)))


if __name__ == "__main__":
    main()
