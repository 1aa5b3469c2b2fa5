"""The stories that the tiny model learns from."""

from __future__ import annotations

import re
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture
def texts(stories: ModuleType, rng: np.random.Generator) -> list[str]:
    return list(stories.compose(int(rng.integers(2**32)), 400))


def test_a_seed_gives_the_same_stories(stories: ModuleType, rng: np.random.Generator) -> None:
    seed = int(rng.integers(2**32))
    first = list(stories.compose(seed, 20))
    assert first == list(stories.compose(seed, 20))
    assert first != list(stories.compose(seed + 1, 20))


def test_introductions_repeat_the_name(stories: ModuleType, rng: np.random.Generator) -> None:
    for text in stories.introductions(int(rng.integers(2**32)), 50):
        names = re.findall(r"(?<=[a-z.,] )[A-Z][a-z]+\b", text)
        assert any(names.count(name) >= 3 for name in names), text


def test_stories_vary(texts: list[str]) -> None:
    assert len(set(texts)) == len(texts)
    # 218 of 400 stories begin differently, with a standard deviation of 11 between seeds: a third
    # of them is eight deviations away.
    assert len({" ".join(t.split()[:6]) for t in texts}) > len(texts) / 3
    assert len({word for t in texts for word in t.split()}) > 1500


def test_every_plot_can_be_told(stories: ModuleType, rng: np.random.Generator) -> None:
    for plot in stories.plots():
        random = stories.random.Random(int(rng.integers(2**32)))
        assert 120 <= len(stories.Story(random).tell(plot).split()) <= 330, plot.name


@pytest.mark.parametrize("wrong", [
    r"[][{}|@~\\]",
    r"\b[Aa] (?!uni)[aeiouAEIOU]|\b[Aa] honest",
    r"\b[Aa]n (?!honest)[^aeiouAEIOU]",
    r"[.!?] [a-z]|(^|\n)[^A-Z\"\n]",
    r"  | \n| [.,!?]|[.,]{2}|[.!?],",
    r"\b(\w+) \1\b",
    r"\b[Hh]e (are|were)\b|\b[Tt]hey (is|was)\b",
], ids=["unfilled", "a", "an", "capitals", "spacing", "doubled", "agreement"])
def test_no_story_has(wrong: str, texts: list[str]) -> None:
    for text in texts:
        found = re.search(wrong, text)
        assert found is None, text[max(0, found.start() - 40):found.end() + 40]


def test_quotes_are_paired(texts: list[str]) -> None:
    for text in texts:
        for paragraph in text.split("\n\n"):
            assert re.fullmatch(r'[^"]*(?:(?<![^ ])"[^"]+[.,!?]"(?![^ ])[^"]*)*', paragraph), text
