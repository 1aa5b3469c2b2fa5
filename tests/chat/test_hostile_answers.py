"""Answers that attack a parser: its work is linear in their length, and little of them waits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from chat.answers import TOOLS, Rendered, form_in
from chat.strange_templates import TEMPLATES
from unladen.chat.form_of_answer import AnswerForm
from unladen.chat.learning import answer_form
from unladen.chat.parsing import Parser

NAMES = ("Qwen-Qwen2.5-7B-Instruct", "Qwen3-Coder", "meta-llama-Llama-3.1-8B-Instruct",
         "openai-gpt-oss-120b", "LFM2-8B-A1B", "google-gemma-4-31B-it", "MiniMax-M2",
         "meetkai-functionary-medium-v3.2", "mistralai-Mistral-Nemo-Instruct-2407")
MAX_WAITING = 2048
"""Characters that may wait: more than any mark, name, number and white space together."""


def _attacks(form: AnswerForm, n: int) -> Iterator[str]:
    begins = ["", *(mark for f in form.dialect.forms for mark in f.marks[:2]), "<|channel|>"]
    for begin in begins:
        for again in ("<", "{", "[", " ", "\n", "a", '"', "\\", "(", "</", ">>>", begin or "<|"):
            yield begin + again * (n // len(again))
        for start in ('{"name": "do_it", "arguments": {"text": ', "do_it\n<parameter=text>\n",
                      "do_it(text=", "call:do_it{text:"):
            for again in ("[", '"', '"\\n', "1,", "[1,", " ", "</parameter>\n", "'\\"):
                yield begin + start + again * (n // len(again))


def _n_calls(form: AnswerForm, text: str) -> int:
    """Calls of functions, those of Python's own included, that parsing ``text`` takes."""
    parser, count = Parser(form, TOOLS), 0

    def count_calls(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")
    sys.setprofile(count_calls)
    try:
        parser.feed(text)
        parser.finish()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", [*NAMES, *sorted(TEMPLATES)])
def test_work_is_linear(name: str, request: pytest.FixtureRequest) -> None:
    form = (answer_form(Rendered(TEMPLATES[name])) if name in TEMPLATES
            else form_in(request.getfixturevalue("shared"), name))
    slow = []
    for short, long in zip(_attacks(form, 150), _attacks(form, 600), strict=True):
        if (n := _n_calls(form, long)) > 5 * _n_calls(form, short) + 2000:
            slow.append((n, short))
    assert not slow


def test_little_waits(shared: Path) -> None:
    """Text arrives in small pieces, and what waits is looked at again with each: it stays short.
    Only a name in quotes may be as long as it likes."""
    for name in NAMES:
        form = form_in(shared, name)
        for text in _attacks(form, 5000):
            parser, most = Parser(form, TOOLS), 0
            for at in range(0, len(text), 97):
                parser.feed(text[at:at + 97])
                most = max(most, parser.n_waiting)
            assert most <= MAX_WAITING, (name, text[:80])
