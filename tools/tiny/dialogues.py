"""Composes the dialogues that the chat model learns from. All text is our own.

A dialogue is a list of messages as chat clients send them, the tools that it offers, and whether
the model thinks before it answers. It is put together from talks (``talks/*.txt``), short stories
with questions about them (``talks/tales.txt``) and tasks for tools (``tasks.py``).

Run ``python tools/tiny/dialogues.py --seed 1 --count 3`` to read some.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tasks
from talks import Talk, Teller, known, new_name, rules, talks

TEMPLATE = (Path(__file__).parent / "chat.jinja").read_text(encoding="utf-8").strip()
"""The chat template, as the model's file holds it."""
NO_TOOL = "I don't know. I have no tool for that."
"""The answer to a task whose tool isn't offered."""
UNTOLD = (
    "What is the name of {h}'s mother?", "How old was {h}?", "What did {h} eat for breakfast?",
    "How tall was {h}?", "Who was the king?", "What color was {h}'s hat?")
"""Questions that no short story answers."""
CASUAL = frozenset((
    "What", "What's", "Who", "Where", "How", "The", "My", "Hello", "Hi", "Hey", "Thanks", "Bye",
    "Tell", "Can", "Is", "Thank", "Good", "Yes", "No", "Do", "Say", "Repeat"))
"""Words that some users don't capitalize at the start of what they write."""


@dataclass
class Dialogue:
    """A conversation; ``kinds`` names, for each message, what it is an example of ("" for none)."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    thinks: bool = False

    def add(self, role: str, content: str, kind: str = "", **more: Any) -> None:
        """Add a message."""
        self.messages.append({"role": role, "content": content, **more})
        self.kinds.append(kind)


class Composer:
    """Composes one dialogue after another from a random source."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.teller = Teller(rng)
        self.dialogue = Dialogue()
        self.used: set[str] = set()
        self.files: tuple[str, ...] = ()

    def compose(self, kind: str = "", thinks: bool | None = None) -> Dialogue:
        """A new dialogue: "talk", "facts", "tale" or "tools", by default any."""
        self.teller = Teller(self.rng)
        self.dialogue = Dialogue(thinks=self.rng.random() < 0.3 if thinks is None else thinks)
        self.used = set()
        kind = kind or self.rng.choices(("talk", "facts", "tale", "tools"), (3, 4, 3, 4))[0]
        if kind == "tools":
            self._tools()
            return self.dialogue
        self._system(0.5 if kind == "talk" else 0.15)
        if self.rng.random() < 0.15:
            self._greeting()
        if kind == "tale":
            self._tale()
            return self.dialogue
        n = self.rng.choice((1, 2, 3, 4, 5))
        for _ in range(n):
            if self.rng.random() < (0.35 if kind == "talk" else 0.85):
                self._talk(("facts",))
            else:
                self._anything()
        self._recall()
        return self.dialogue

    def _system(self, share: float) -> None:
        """A system prompt or none: the part that the model plays, or a general one."""
        self.files = ("self",)
        if self.rng.random() < share:
            self.files = (self.rng.choice(("persona", "persona", "named")),)
            self._system_turn(talks(self.files[0])[0])
        elif self.rng.random() < 0.3:
            self._system_turn(next(t for t in talks("self") if t.name == "helpful"))

    def _system_turn(self, talk: Talk) -> None:
        self.dialogue.add("system", self.teller.tell_talk(talk)[0][1])

    def _anything(self) -> None:
        own, toolless = 2 if self.files == ("self",) else 8, 0 if self.dialogue.tools else 1
        chosen = self.rng.choices(("small", "own", "facts", "known", "unknown", "toolless"),
                                  (4, own, 3, 2, 2, toolless))[0]
        if chosen == "known":
            self._known()
        elif chosen == "toolless":
            self._toolless(tasks.any_task(self.teller))
        else:
            self._talk(self.files if chosen == "own" else (chosen,))

    def _greeting(self) -> None:
        """The user says hello, and the model does as itself or in its part."""
        self._tell(self.rng.choice([t for name in ("small", *self.files) for t in talks(name)
                                    if "hello" in t.name and self._fits(t)]))

    def _fits(self, talk: Talk) -> bool:
        """Whether ``talk`` is new, asks only for what was said, and suits the system prompt."""
        return (talk.name not in self.used and talk.body[0][0] != "system"
                and all(n in self.teller.cast for n in talk.needs)
                and all(n not in self.teller.cast for n in talk.lacks)
                and not (talk.name.startswith("hello") and self.files != ("self",)))

    def _talk(self, files: tuple[str, ...]) -> None:
        """A talk of ``files`` that fits: none twice, none that asks for what wasn't said."""
        fitting = [t for name in files for t in talks(name) if self._fits(t)]
        if fitting:
            self._tell(self.rng.choices(fitting, [t.weight for t in fitting])[0])
        else:
            self._known()

    def _tell(self, talk: Talk) -> None:
        self.used.add(talk.name)
        said = dict(self.teller.tell_talk(talk))
        self._user(said["user"])
        self._assistant(said["assistant"], said["think"], talk.name)

    def _recall(self) -> None:
        """Questions about what was said before, each with a chance."""
        for talk in (*talks("facts"), *talks("small")):
            if talk.needs and self._fits(talk) and self.rng.random() < 0.8:
                self._tell(talk)

    def _known(self) -> None:
        question, answer = self.rng.choice(known())
        self._user(question + ("?" if question.startswith(("Wh", "How")) else "."))
        self._assistant(answer, "I know that.", "known")

    def _user(self, text: str, before: str = "") -> None:
        """A user's turn. Users don't always write as one should."""
        text = text.strip()
        if self.rng.random() < 0.15 and text.split()[0].strip(".,!?") in CASUAL:
            text = text[0].lower() + text[1:]
        if self.rng.random() < 0.15:
            text = text.rstrip(".?!")
        self.dialogue.add("user", before + text)

    def _assistant(self, text: str, think: str, kind: str, **more: Any) -> None:
        if self.dialogue.thinks:
            more["reasoning_content"] = think
        self.dialogue.add("assistant", text.strip(), kind, **more)

    def _tools(self) -> None:
        self._system(0.1)
        n = self.rng.choice((1, 1, 2, 3))
        chosen = [tasks.any_task(self.teller) for _ in range(n)]
        offered = {task.tool for task in chosen if self.rng.random() < 0.93}
        offers = tasks.offered(self.rng, offered)
        self.dialogue.tools = [offer.definition for offer in offers.values()]
        for task in chosen:
            if self.rng.random() < 0.3:
                self._anything()
            if task.tool in offers:
                self._task(task, offers)
            else:
                self._toolless(task)
        if self.rng.random() < 0.15:
            self._anything()
        self._recall()

    def _toolless(self, task: tasks.Task) -> None:
        """A task whose tool isn't offered."""
        self._user(task.question)
        self._assistant(NO_TOOL, "There is no tool for that.", "no_tool")

    def _task(self, task: tasks.Task, offers: Mapping[str, tasks.Offer]) -> None:
        """A task with its call; now and then two calls at once."""
        both = [task]
        if task.kind in ("weather", "time") and self.rng.random() < 0.2:
            other = dict(zip(("weather", "time"), (tasks.weather, tasks.time), strict=True))[
                task.kind](self.teller)
            both.append(other)
            city, second = task.arguments["city"], other.arguments["city"]
            self._user(f"What is the {task.kind} in {city} and in {second}?")
        else:
            self._user(task.question)
        offer = offers[task.tool]
        values = ", ".join(str(value) for value in task.arguments.values())
        self._assistant("", f"I call {offer.name} with {values}.", task.kind,
                        tool_calls=[offer.call(t) for t in both])
        if self.rng.random() < 0.03:
            self.dialogue.add("tool", "error: not available")
            self._assistant(f"I am sorry, the tool {offer.name} does not work.",
                            "The tool failed.", "failed")
            return
        for t in both:
            self.dialogue.add("tool", tasks.result_text(t, self.rng))
        self._assistant(" ".join(t.answer for t in both), f"The result is {task.result}.",
                        "result")

    def _cast_tale(self) -> None:
        """The hero and a friend, with names that may be new, and a home."""
        rng, teller = self.rng, self.teller
        for role in "hf":
            rule = rng.choice(("girl", "boy", "she_animal", "he_animal"))
            kind = rule if rule in ("girl", "boy") else teller.pick("animal")
            if rng.random() < 0.15:
                kind = teller.pick("job")
            name = rng.choice(rules()[rule])
            while rng.random() < 0.4 or any(name == c[""] for c in teller.cast.values()):
                name = new_name(rng)
            trait = rng.choice(("", teller.pick("trait"), teller.pick("size")))
            full = teller.text(f"a {trait} {kind}".replace("  ", " "))
            teller.cast[role] = {"": name, "kind": kind, "a": full[0].lower() + full[1:]}
        teller.cast["v"] = {"": teller.expand(rng.choice(("{village}", "{child_home}", "{town}")))}

    def _tale(self) -> None:
        """A short story, told by the user or by the model, and questions about it."""
        rng, teller = self.rng, self.teller
        self._cast_tale()
        plot = rng.choice(talks("tales"))
        story = teller.tell_talk(plot)[0][1]
        asks = [(teller.text(q), teller.text(a)) for q, a in plot.asks] + self._general()
        rng.shuffle(asks)
        asks = asks[:rng.randint(1, 4)]
        hero = teller.cast["h"]
        if rng.random() < 0.55:
            before = f"{teller.text('{read_this}')} {story}".strip()
            if rng.random() < 0.7:
                (question, answer), *asks = asks
                glue = rng.choice((" ", "\n", "\n\n"))
                self._user(question, before + glue)
                self._assistant(answer, f"I look at the story. {answer}", "tale")
            else:
                self._user(before)
                self._assistant(f"What a nice story about {hero['']}!",
                                f"The user tells a story about {hero['']}.", "heard")
        else:
            about = rng.choice(("", "", f" about {hero['']}", f" about a {hero['kind']}",
                                f" about {hero['']} and {teller.cast['f']['']}",
                                f" about a {hero['kind']} named {hero['']}",
                                f" about {hero['']}, a {hero['kind']}"))
            self._user(teller.text("{tell}" + about) + rng.choice((".", "", "!")))
            self._assistant(story, f"I tell a story about {hero['']}.", "story")
        for question, answer in asks:
            if rng.random() < 0.15:
                self._anything()
            self._user(question)
            self._assistant(answer, f"I look at the story. {answer}", "tale")
        self._recall()

    def _general(self) -> list[tuple[str, str]]:
        """Questions that fit every short story."""
        teller = self.teller
        asks = [("[Who is the story about|Who was the story about|What is the story about|Who is "
                 "the hero]?", "The story is about {h}, {h.a}."),
                ("[Who is {h}|Who was {h}|What is {h}]?", "{h} is {h.a}."),
                ("Where did {h} live?", "{h} lived in {v}."),
                ("[Who is the friend of {h}|What is the name of {h}'s friend|Who is {h}'s friend]?",
                 "The friend of {h} is {f}."),
                (self.rng.choice(UNTOLD), "I don't know. The story does not say.")]
        return [(teller.text(q), teller.text(a)) for q, a in asks]


def compose(seed: int, count: int, kind: str = "") -> Iterator[Dialogue]:
    """``count`` dialogues; the same ``seed`` gives the same ones."""
    composer = Composer(random.Random(seed))
    return (composer.compose(kind) for _ in range(count))


@functools.cache
def template() -> Any:
    """The compiled chat template. Needs jinja2."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(TEMPLATE)


def render(dialogue: Dialogue, n_messages: int | None = None, ask: bool = False) -> str:
    """The text of the first ``n_messages`` of a dialogue; ``ask`` opens the model's turn."""
    text: str = template().render(
        messages=dialogue.messages[:n_messages], tools=dialogue.tools or None,
        add_generation_prompt=ask, enable_thinking=dialogue.thinks)
    return text


def main() -> None:
    """Print some dialogues."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--kind", default="")
    options = parser.parse_args()
    print("\n* * *\n".join(map(render, compose(options.seed, options.count, options.kind))))


if __name__ == "__main__":
    main()
