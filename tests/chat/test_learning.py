"""What templates write is parsed back: those of known families, and dialects nobody has seen."""

from __future__ import annotations

import json
import random
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chat.answers import (
    TOOLS,
    Rendered,
    calls_of,
    form_in,
    history,
    pieces,
    random_call,
    random_text,
    streamed,
    template_in,
)
from chat.strange_templates import AVOID, TEMPLATES
from unladen.chat import probing
from unladen.chat.form_of_answer import AnswerForm
from unladen.chat.learning import answer_form
from unladen.chat.marks import WHITE
from unladen.chat.messages import Message
from unladen.chat.parsing import Parser, parse_answer
from unladen.errors import TemplateError

KNOWN = {
    "Apertus-8B-Instruct": "apertus", "Bielik-11B-v3.0-Instruct": "hermes",
    "ByteDance-Seed-OSS": "seed_oss", "GLM-4.6": "glm", "GigaChat3-10B-A1.8B": "gigachat",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": "command_r7b",
    "HuggingFaceTB-SmolLM3-3B": "smollm3", "Kimi-K2-Instruct": "kimi_k2", "LFM2-8B-A1B": "lfm2",
    "LFM2.5-Instruct": "lfm2", "MiniMax-M2": "minimax_m2",
    "Mistral-Small-3.2-24B-Instruct-2506": "mistral_small",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "qwen3_coder",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "hermes", "Qwen-Qwen3-0.6B": "hermes",
    "Qwen3-Coder": "qwen3_coder", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "deepseek_r1",
    "deepseek-ai-DeepSeek-V3.1": "deepseek_v3_1", "google-gemma-4-31B-it": "gemma4",
    "fireworks-ai-llama-3-firefunction-v2": "firefunction", "google-gemma-2-2b-it": "plain",
    "ibm-granite-granite-3.3-2B-Instruct": "granite_3", "ibm-granite-granite-4.0": "hermes",
    "meetkai-functionary-medium-v3.1": "functionary_3_1",
    "meetkai-functionary-medium-v3.2": "functionary_3_2",
    "meta-llama-Llama-3.1-8B-Instruct": "llama3", "microsoft-Phi-4-mini-instruct": "phi4_mini",
    "mistralai-Mistral-Nemo-Instruct-2407": "mistral_nemo", "openai-gpt-oss-120b": "gpt_oss",
    "openbmb-MiniCPM5-1B": "minicpm5", "unsloth-Apriel-1.5": "apriel",
}
"""Template -> its dialect."""
WRITES_NO_CALLS = {
    "HuggingFaceTB-SmolLM3-3B", "LFM2-8B-A1B", "LFM2.5-Instruct",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "google-gemma-2-2b-it",
    "ibm-granite-granite-3.3-2B-Instruct", "microsoft-Phi-4-mini-instruct",
}
"""Templates that leave the calls of an earlier answer out of a prompt."""


@pytest.fixture
def random_seed() -> random.Random:
    """A generator with a fresh seed, which is printed."""
    seed = secrets.randbits(32)
    print(f"seed: {seed}")
    return random.Random(seed)


def _written(template: Rendered, calls: Sequence[tuple[str, Any]]) -> str | None:
    """What ``template`` writes for an answer with ``calls``, behind the user's words; None if it
    can't write them."""
    for content in ("", None, "Hm."):
        for tools in (TOOLS, None):
            try:
                text = template.render(history(calls, content), tools, add_generation_prompt=False)
            except TemplateError:
                continue  # it can't write these tools, or this content
            behind = text[text.rindex("Qq") + 2:]
            if all(name in behind for name, _ in calls):
                return behind
    return None


def _generated(text: str, form: AnswerForm) -> str:
    start = form.prompt_end if text.startswith(form.prompt_end) else form.header
    text = text[text.index(start) + len(start):].removesuffix(form.prompt_end.partition(">")[2])
    text = text.rstrip(WHITE)
    while stop := next((s for s in form.stops if text.endswith(s)), ""):
        text = text.removesuffix(stop).rstrip(WHITE)
    return text


def _round_trip(template: Rendered, form: AnswerForm, rng: random.Random, **limits: Any) -> int:
    n_read = 0
    for n in [1] * 12 + [2] * 6 + [3] * 3:
        calls = [random_call(rng, **limits) for _ in range(n)]
        text = _written(template, calls)
        if text is None:
            continue
        text = _generated(text, form)
        n_kept = n if text.count("do_it") + text.count("now") >= n else 1
        message = streamed(Parser(form, TOOLS), pieces(text, rng))
        assert calls_of(message) == calls[:n_kept], (text, message)
        assert message.content.strip() in ("", "Hm."), (text, message)
        assert all(call.id == f"Ab3dE6gH{i}" for i, call in enumerate(message.tool_calls)
                   if f"Ab3dE6gH{i}" in text)
        for end in rng.sample(range(len(text)), min(8, len(text))):
            _check_beginning(parse_answer(text[:end], form, TOOLS, partial=True), message)
        n_read += 1
    return n_read


def _check_beginning(part: Message, whole: Message) -> None:
    """Nothing in ``part`` is taken back in ``whole``."""
    assert whole.content.startswith(part.content)
    assert len(part.tool_calls) <= len(whole.tool_calls)
    for a, b in zip(part.tool_calls, whole.tool_calls, strict=False):
        assert a.name == b.name
        assert b.arguments.startswith(a.arguments)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_a_strange_dialect_is_learned(name: str, random_seed: random.Random) -> None:
    template = Rendered(TEMPLATES[name])
    form = answer_form(template)
    assert form.dialect.name == "learned"
    assert _round_trip(template, form, random_seed, avoid=AVOID.get(name, ())) == 21


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_text_in_a_strange_dialect_stays_text(name: str, random_seed: random.Random) -> None:
    form = answer_form(Rendered(TEMPLATES[name]))
    for _ in range(20):
        text = random_text(random_seed)
        message = streamed(Parser(form, TOOLS), pieces(text, random_seed))
        assert (message.content, message.tool_calls) == (text, ())


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_the_answer_in_a_strange_dialect(name: str) -> None:
    """Marks around the answer aren't part of it, and a turn ends in a stop."""
    template = Rendered(TEMPLATES[name])
    form = answer_form(template)
    said = [{"role": "user", "content": "Qq"}, {"role": "assistant", "content": "Well."}]
    text = template.render(said, add_generation_prompt=False)
    text = text[text.rindex("Qq") + 2:].rstrip()
    assert any(text.endswith(stop) for stop in form.stops)
    assert parse_answer(_generated(text, form), form, TOOLS).content == "Well."


def test_marks_of_reasoning_are_learned() -> None:
    form = answer_form(Rendered(TEMPLATES["elements"]))
    message = parse_answer("<ponder>So.</ponder>Well.", form)
    assert (message.reasoning, message.content) == ("So.", "Well.")
    assert form.reasoning[0].close == "</ponder>"


@pytest.mark.parametrize(("name", "dialect"), KNOWN.items())
def test_the_dialect_of_a_known_template(name: str, dialect: str, shared: Path) -> None:
    form = form_in(shared, name)
    assert form.dialect.name == dialect


@pytest.mark.parametrize("name", KNOWN)
def test_what_a_known_template_writes_is_read(name: str, shared: Path,
                                              random_seed: random.Random) -> None:
    template, form = template_in(shared, name), form_in(shared, name)
    if name in WRITES_NO_CALLS:
        assert _written(template, [("now", {})]) is None
        return
    avoid = ("</", "<![") if name == "openbmb-MiniCPM5-1B" else ()
    n = _round_trip(template, form, random_seed, avoid=avoid)
    assert n >= 12


def test_a_known_mark_around_other_things_is_learned() -> None:
    """The signs of a family are there, and calls are written otherwise: what it writes counts."""
    source = TEMPLATES["recipient"].replace("<|to|>", "<tool_call>").replace(
        "<|over|>", "</tool_call>")
    form = answer_form(Rendered(source))
    text = '<tool_call>now<|says|>{"a": 1}</tool_call>'
    assert calls_of(parse_answer(text, form, TOOLS)) == [("now", {"a": 1})]


@pytest.mark.parametrize("source", [
    "", "{{ messages[7].content }}", "{{ raise_exception('no') }}",
    "{% for m in messages %}{{ m.content }}{% endfor %}",
    "{% for m in messages %}{{ m }}{% endfor %}",
    "{% for m in messages %}{{ m | tojson }}{% endfor %}"])
def test_a_template_that_says_nothing_is_no_error(source: str) -> None:
    form = answer_form(Rendered(source))
    message = parse_answer('Well: {"name": "now", "arguments": {}}', form, TOOLS)
    assert (message.content, message.tool_calls) == (
        'Well: {"name": "now", "arguments": {}}', ())


def test_stops(shared: Path) -> None:
    assert set(form_in(shared, "GLM-4.6").stops) == {
        "<|endoftext|>", "<|user|>", "<|observation|>"}
    assert set(form_in(shared, "meetkai-functionary-medium-v3.1").stops) == {
        "<|eot_id|>", "<|eom_id|>"}
    assert "<|call|>" in form_in(shared, "openai-gpt-oss-120b").stops
    assert "<|end|>" not in form_in(shared, "openai-gpt-oss-120b").stops


def test_arguments_of_known_templates_are_json(shared: Path) -> None:
    form = form_in(shared, "LFM2-8B-A1B")
    text = ("<|tool_call_start|>[do_it(text='it\\'s', flag=True, list=('a', \"b\",), "
            "map={'k': None, 'n': -1.5, }), now()]<|tool_call_end|>")
    message = parse_answer(text, form, TOOLS)
    assert json.loads(message.tool_calls[0].arguments) == {
        "text": "it's", "flag": True, "list": ["a", "b"], "map": {"k": None, "n": -1.5}}


def test_hostile_templates(shared: Path) -> None:
    """A template that attacks is learned as one that says nothing."""
    cases = json.loads((shared / "chat/hostile.json").read_text(encoding="utf-8"))["cases"]
    sources = [case["template"] for case in cases]
    assert len(sources) > 40
    for source in sources:
        try:
            form = answer_form(Rendered(source))
        except TemplateError:
            continue  # it is malformed
        assert parse_answer("Well {}.", form).content == "Well {}."


@pytest.mark.parametrize("mess", [
    "[" * 9000, '{"a":' * 9000, "9" * 5000, "<" * 9000, "<a>" * 5000, "\x01\x05" * 99, "]}" * 9000,
    "\\n" * 5000, "zqtoola" * 99, "zqka zqva" * 99, "Zquser", "Zqcontent Zqreasoning"])
def test_a_mess_around_calls_is_no_error(mess: str) -> None:
    source = _turns_with(mess)
    form = answer_form(Rendered(source))
    assert parse_answer("Well.", form, TOOLS).content == "Well."
    call = form.called(TOOLS)
    assert call is None or len(call.opening) < 1000


def _turns_with(mess: str) -> str:
    """A template that writes ``mess`` around all parts of an answer."""
    piece = "{{ " + json.dumps(mess) + " }}"
    return ("{% for m in messages %}<t>{{ m.content }}{% if m.role == 'assistant' %}" + piece
            + "{{ m.reasoning_content }}" + piece + "{% for t in m.tool_calls or [] %}" + piece
            + "{{ t.function.name }}" + piece + "{{ t.function.arguments | tojson }}" + piece
            + "{% endfor %}{% endif %}</t>{% endfor %}")


def test_a_slow_template_is_rendered_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Rendered):
        n_rendered = 0

        def render(self, *_: Any, **__: Any) -> str:
            self.n_rendered += 1
            until = time.thread_time() + 0.02
            while time.thread_time() < until:
                pass
            return "Zquser"

    monkeypatch.setattr(probing, "MAX_SECONDS", 0.05)
    template = Slow("{{ messages }}")
    answer_form(template)
    assert template.n_rendered <= 4
