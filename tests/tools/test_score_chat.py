"""The scores of the chat model: what counts as right."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

CALL = '<tool_call>\n{"name": "time", "arguments": {"city": "Rome"}}\n</tool_call>'


class Knowing:
    """Answers the first ``n_known`` prompts as the composer does, and all others with "?"."""

    def __init__(self, pairs: list[tuple[str, str]], n_known: int) -> None:
        self.answers = dict(pairs[:n_known])

    def generate(self, prompts: list[str], **options: Any) -> list[SimpleNamespace]:
        return [SimpleNamespace(text=self.answers.get(prompt, "?")) for prompt in prompts]


@pytest.mark.parametrize("n_known", [0, 6, 8])
def test_the_share_counts_right_answers(score_chat: ModuleType, rng: np.random.Generator,
                                        n_known: int) -> None:
    for scored in score_chat.KINDS.values():
        seed = int(rng.integers(2**32))
        pairs = score_chat.asked(seed, scored, 8)
        known = Knowing(pairs, n_known)
        right = sum(known.answers.get(prompt) == answer for prompt, answer in pairs)
        assert score_chat.share_right(known, scored, seed, 8) == pytest.approx(right / 8)


@pytest.mark.parametrize(("answer", "is_right"), [
    (CALL, True), (CALL.replace(": ", ":"), True), (CALL.replace("Rome", "Oslo"), False),
    (CALL + "\n" + CALL, False), ("In Rome it is 8:00.", False), (CALL.replace("}}", "}"), False)])
def test_calls(score_chat: ModuleType, answer: str, is_right: bool) -> None:
    assert score_chat.same_call(answer, CALL) is is_right


@pytest.mark.parametrize(("answer", "is_right"), [
    ("Hmm.\n</think>\n\nYes.", True), ("Hmm.\n</think>\n\nNo.", False), ("Yes.", False),
    ("\n</think>\n\nYes.", False)])
def test_thoughts(score_chat: ModuleType, answer: str, is_right: bool) -> None:
    assert score_chat.thinks_first(answer, "I agree.\n</think>\n\nYes.") is is_right


def test_openings(score_chat: ModuleType) -> None:
    assert score_chat.same_opening("Ahoy! I am Ben.", "Ahoy! I am Ada.")
    assert not score_chat.same_opening("Hello! I am Ada.", "Ahoy! I am Ada.")
