"""Renders messages with marker words through a template, to see what stands around them."""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Render = Callable[..., str]
"""Renders a template: ``render(messages, tools=None, add_generation_prompt=False)``. May raise
anything."""

USER, CONTENT, REASONING, NEXT = "Zquser", "Zqcontent", "Zqreasoning", "Zqnext"
"""What the user says, what the assistant answers and thinks, and what the user says then."""
NAMES = ("zqtoola", "zqtoolb")
IDS = ("zqidaaaaa", "zqidbbbbb")
"""Names and ids of calls; ids have the nine letters that some templates insist on."""
KEYS = ("zqka", "zqkb")
VALUES = ("zqva", "zqvb")
"""Names and values of arguments."""
MAX_SECONDS = 2.0
"""Seconds of a processor that all renderings of one template may take: usual ones take a tenth of a
second. A template that attacks costs no more than this and its last rendering."""
MAX_LENGTH = 200_000
"""Characters that a rendering may have: usual ones have a few thousand."""
TOKEN = re.compile(r"<[^<>\n]{1,80}>|\[/?[A-Z_ ]{2,40}\]")
"""What looks like a mark."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call in a probe."""

    arguments: Mapping[str, Any]
    name: str = NAMES[0]
    id: str = IDS[0]


@dataclass(frozen=True, slots=True)
class Style:
    """What a template wants of a message with calls: its content, and arguments as a text."""

    content: str | None = ""
    has_content: bool = True
    as_text: bool = False


STYLES = (Style(), Style(content=None), Style(as_text=True), Style(None, as_text=True),
          Style(has_content=False), Style(has_content=False, as_text=True),
          Style(CONTENT), Style(CONTENT, as_text=True))
"""Styles in the order in which they are tried."""


class Limited:
    """A template's renderings, each made once, as long as they are quick and short. None stands for
    others, and for what the template can't render."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._made: dict[str, str | None] = {}
        self._spent = 0.0

    def __call__(self, messages: Sequence[Mapping[str, Any]], tools: Any, generates: bool
                 ) -> str | None:
        """The prompt of ``messages``, or None."""
        asked = json.dumps([messages, tools, generates])
        if asked not in self._made:
            self._made[asked] = self._rendered(messages, tools, generates)
        return self._made[asked]

    def _rendered(self, messages: Sequence[Mapping[str, Any]], tools: Any, generates: bool
                  ) -> str | None:
        if self._spent > MAX_SECONDS:
            return None
        start = time.thread_time()
        try:
            text = self._render([dict(m) for m in messages], tools=tools,
                                add_generation_prompt=generates)
        except Exception as error:  # noqa: BLE001 - a stranger's template fails in any way
            del error  # it can't render this probe, which is all that there is to know
            return None
        finally:
            self._spent += time.thread_time() - start
        return text if isinstance(text, str) and len(text) <= MAX_LENGTH else None


class Probe:
    """Renders probes through one template. What it raises means that it can't write that."""

    def __init__(self, render: Render | Limited, style: Style = STYLES[0]) -> None:
        self._text = render if isinstance(render, Limited) else Limited(render)
        self.style = style

    def styled(self, style: Style) -> Probe:
        """A probe of the same template in another style."""
        return Probe(self._text, style)

    @functools.cached_property
    def prompt_end(self) -> str:
        """What a prompt has behind the user's words; "" if that can't be rendered."""
        return self._behind_user(True)

    @functools.cached_property
    def header(self) -> str:
        """What a prompt has because an answer is asked for; "" if that can't be told."""
        closed = self._behind_user(False)
        return self.prompt_end[len(closed):] if self.prompt_end.startswith(closed) else ""

    def _behind_user(self, generates: bool) -> str:
        texts = (self._text([_user()], tools, generates) for tools in (None, probe_tools(), []))
        text = next((text for text in texts if text is not None and USER in text), "")
        return text[text.rfind(USER) + len(USER):] if text else ""

    def said(self, *after: Mapping[str, Any], with_tools: bool = False, **parts: Any
             ) -> str | None:
        """An answer without calls, behind the user's words; None if it can't be rendered.

        after: messages that follow. with_tools: tools were offered, as for calls. parts: what the
        answer has beside its content.
        """
        message = {"role": "assistant", "content": CONTENT, **parts}
        tools: tuple[Any, ...] = (probe_tools(), None) if with_tools else (None, [])
        return self._answer([_user(), message, *after], tools)

    def called(self, *calls: Call, **parts: Any) -> str | None:
        """An answer with ``calls``, behind the user's words; None if it can't be rendered."""
        message: dict[str, Any] = {"role": "assistant", **parts}
        if self.style.has_content:
            message["content"] = self.style.content
        message["tool_calls"] = [self._written(call) for call in calls]
        return self._answer([_user(), message], (probe_tools(), None))

    def thought(self) -> str | None:
        """An answer with reasoning, behind the user's words; None if it can't be rendered."""
        keys = ("reasoning_content", "thinking", "reasoning")
        thoughts: dict[str, Any] = dict.fromkeys(keys, REASONING)
        call = Call({KEYS[0]: VALUES[0]})
        texts = (self.said(**thoughts), self.said(reasoning_content=REASONING),
                 self.called(call, **thoughts), self.called(call, reasoning_content=REASONING))
        return next((text for text in texts if text is not None and REASONING in text), None)

    def _written(self, call: Call) -> dict[str, Any]:
        arguments: Any = dict(call.arguments)
        if self.style.as_text:
            arguments = json.dumps(arguments, ensure_ascii=False)
        return {"id": call.id, "type": "function",
                "function": {"name": call.name, "arguments": arguments}}

    def _answer(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> str | None:
        for offered in tools:
            text = self._text(messages, offered, False)
            if text is not None and USER in text:
                return self._without_prompt(text[text.rfind(USER) + len(USER):])
        return None

    def _without_prompt(self, text: str) -> str:
        """``text`` without what some templates always write at the end, to ask for an answer."""
        asked = same_end(text, self.prompt_end)
        mark = TOKEN.search(asked)
        if mark is None:
            return text
        kept = mark.end() if asked == self.prompt_end and mark.start() == 0 else 0
        return text[:len(text) - len(asked) + kept]


def _user() -> dict[str, str]:
    return {"role": "user", "content": USER}


def probe_tools() -> list[dict[str, Any]]:
    """The tools of the calls in probes; all arguments are strings."""
    properties = {key: {"type": "string", "description": "x"} for key in KEYS}
    return [{"type": "function", "function": {
        "name": name, "description": "x",
        "parameters": {"type": "object", "properties": properties, "required": [*KEYS]}}}
        for name in NAMES]


def styles(probe: Probe) -> Iterator[Probe]:
    """Probes in every style in which the template writes a call with its arguments."""
    for style in STYLES:
        styled = probe.styled(style)
        text = styled.called(Call({KEYS[0]: VALUES[0], KEYS[1]: VALUES[1]}))
        if text is not None and all(word in text for word in (NAMES[0], *KEYS, *VALUES)):
            yield styled


def same_start(a: str, b: str) -> str:
    """The longest text with which both begin."""
    n = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y),
             min(len(a), len(b)))
    return a[:n]


def same_end(a: str, b: str) -> str:
    """The longest text with which both end."""
    return same_start(a[::-1], b[::-1])[::-1]


def marks_at_end(text: str, end: str) -> str:
    """``end``, the end of ``text``, without the rest of a mark that it begins in."""
    start = len(text) - len(end)
    cut = next((m for m in TOKEN.finditer(text) if m.start() < start < m.end()), None)
    return text[cut.end():] if cut else end


def whole_marks_before(text: str, at: int) -> int:
    """``at``, or the start of the mark in ``text`` that it cuts in two."""
    return next((m.start() for m in TOKEN.finditer(text) if m.start() < at < m.end()), at)


def whole_marks_after(text: str, at: int) -> int:
    """``at``, or the end of the mark in ``text`` that it cuts in two."""
    return next((m.end() for m in TOKEN.finditer(text) if m.start() < at < m.end()), at)
