"""Reading arriving text: what may begin a mark waits, and nothing long is looked at again."""

from __future__ import annotations

import random
import secrets

import pytest

from chat.answers import pieces
from unladen.chat.marks import Marks, Steps, Tape


@pytest.fixture
def random_seed() -> random.Random:
    """A generator with a fresh seed, which is printed."""
    seed = secrets.randbits(32)
    print(f"seed: {seed}")
    return random.Random(seed)


def _read(tape: Tape, marks: Marks, out: list[str]) -> Steps[None]:
    while mark := (yield from tape.until(marks, out.append)):
        out.append(f"({tape.take(len(mark))})")


def test_marks_are_found_however_text_is_cut(random_seed: random.Random) -> None:
    marks = Marks(["<a>", "<a>b", "ab", "<<", "b"])
    for _ in range(300):
        text = "".join(random_seed.choice("<a>b") for _ in range(20))
        results = []
        for cut in ([text], pieces(text, random_seed), [*text]):
            tape, out = Tape(), []
            steps = _read(tape, marks, out)
            for piece in cut:
                tape.feed(piece)
                next(steps)
            tape.ended = True
            assert next(steps, "done") == "done"
            results.append("".join(out))
        assert results[0] == results[1] == results[2]


def test_a_tail_waits_only_while_it_may_begin_a_mark() -> None:
    marks = Marks(["</think>", "<tool>"])
    assert marks.find("so </th", 0, False) == (3, "")
    assert marks.find("so </thx", 0, False) == (8, "")
    assert marks.find("so </th", 0, True) == (7, "")
    assert marks.find("so <<tool>", 0, False) == (4, "<tool>")
