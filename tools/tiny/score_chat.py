"""Scores the chat model: how often it answers new dialogues as their composer does.

From the project's root::

    PYTHONPATH=src python tools/tiny/score_chat.py --count 100

prints a row per kind: its name, the share that is right, how many were asked. Answers are greedy.
``--wrong`` also prints every answer that is wrong.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dialogues import Composer, render
from talks import talks

from unladen import Model

MAX_TOKENS = 160
"""No answer of the composer's is longer, but for stories, which aren't scored."""


def same_text(answer: str, wanted: str) -> bool:
    """Both are the same."""
    return answer == wanted


def same_opening(answer: str, wanted: str) -> bool:
    """Both say the same up to the first sign, such as "Hello!" or "Ahoy!"."""
    return answer.partition("!")[:2] == wanted.partition("!")[:2]


def same_call(answer: str, wanted: str) -> bool:
    """Both call the same tools with the same arguments."""
    try:
        return calls_in(answer) == calls_in(wanted)
    except ValueError:
        return False


def calls_in(text: str) -> list[Any]:
    """The calls that an answer makes; ValueError where one isn't JSON."""
    return [json.loads(part.split("</tool_call>")[0]) for part in text.split("<tool_call>")[1:]]


def thinks_first(answer: str, wanted: str) -> bool:
    """Something thought, the mark, then the same answer."""
    thought, mark, said = answer.partition("\n</think>\n\n")
    return bool(thought and mark) and said == wanted.partition("\n</think>\n\n")[2]


@dataclass(frozen=True)
class Kind:
    """Turns of a kind: their names in :class:`dialogues.Dialogue`, and when an answer is right."""

    turns: frozenset[str]
    right: Callable[[str, str], bool] = same_text
    thinks: bool = False


def kind(*turns: str, right: Callable[[str, str], bool] = same_text, thinks: bool = False) -> Kind:
    """The kind of the ``turns``."""
    return Kind(frozenset(turns), right, thinks)


def just_said() -> frozenset[str]:
    """The talks that tell something and ask for it at once."""
    return frozenset(t.name for t in talks("facts") if not t.needs and not t.lacks)


def said_before() -> frozenset[str]:
    """The talks that ask for what earlier talks chose."""
    return frozenset(t.name for name in ("facts", "small") for t in talks(name) if t.needs)


KINDS: Mapping[str, Kind] = {
    "greetings": kind("hello", "hello_how", "how_are_you", "persona_hello", "named_hello",
                      right=same_opening),
    "its part in a system prompt": kind("persona_name", "persona_what", "persona_lives",
                                        "persona_likes", "named_name"),
    "what was just said": Kind(just_said()),
    "what was said earlier": Kind(said_before()),
    "facts of a story": kind("tale"),
    "sums": kind("sum", right=same_call),
    "sums in words": kind("words", right=same_call),
    "conversions": kind("units", right=same_call),
    "other tools": kind("weather", "time", "phone", right=same_call),
    "wording a result": kind("result"),
    "simple facts": kind("known"),
    "not knowing": Kind(frozenset(t.name for t in talks("unknown")) | {"no_tool"}),
    "thinking first": kind("tale", "sum", "units", "recall_name", "have_two", right=thinks_first,
                           thinks=True)}
"""What is scored, by the names that a reader sees."""


def asked(seed: int, scored: Kind, count: int) -> list[tuple[str, str]]:
    """Prompts and the composer's answers: ``count`` turns of a kind, one a dialogue."""
    composer = Composer(random.Random(seed))
    pairs: list[tuple[str, str]] = []
    while len(pairs) < count:
        dialogue = composer.compose(thinks=scored.thinks)
        for i, name in enumerate(dialogue.kinds):
            if name in scored.turns:
                prompt = render(dialogue, i, ask=True)
                answer = render(dialogue, i + 1)[len(prompt):].removesuffix("<|im_end|>\n")
                pairs.append((prompt, answer))
                break
    return pairs


def share_right(model: Model, scored: Kind, seed: int, count: int, show: bool = False) -> float:
    """The share of ``count`` turns that the model answers right. ``show`` prints the others."""
    pairs = asked(seed, scored, count)
    completions = model.generate([prompt for prompt, _ in pairs], max_tokens=MAX_TOKENS,
                                 temperature=0.0)
    wrong = [(prompt, completion.text, answer)
             for (prompt, answer), completion in zip(pairs, completions, strict=True)
             if not scored.right(completion.text, answer)]
    if show:
        for prompt, text, answer in wrong:
            print(f"{prompt[-300:]}>>>{text}\n    wanted {answer}\n")
    return 1 - len(wrong) / count


def main() -> None:
    """Print the share of each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="tiny-chat")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--wrong", action="store_true", help="print the answers that are wrong")
    options = parser.parse_args()
    with Model(options.model) as model:
        for name, scored in KINDS.items():
            share = share_right(model, scored, options.seed, options.count, options.wrong)
            print(f"| {name} | {share:.0%} | {options.count} |", flush=True)


if __name__ == "__main__":
    main()
