"""What models write, parsed whole, as beginnings, and in random pieces."""

from __future__ import annotations

import json
import random
import re
import secrets
from pathlib import Path
from typing import Any

import pytest

from chat.answers import TOOLS, Rendered, calls_of, form_in, pieces, streamed
from chat.strange_templates import TEMPLATES
from unladen import chat
from unladen.chat.form_of_answer import AnswerForm
from unladen.chat.learning import answer_form
from unladen.chat.messages import Message
from unladen.chat.parsing import Parser, parse_answer
from unladen.errors import TemplateError

HERMES = "Qwen-Qwen2.5-7B-Instruct"


@pytest.fixture
def random_seed() -> random.Random:
    """A generator with a fresh seed, which is printed."""
    seed = secrets.randbits(32)
    print(f"seed: {seed}")
    return random.Random(seed)


@pytest.fixture(scope="session")
def data(shared: Path) -> dict[str, Any]:
    """``parsing.json``."""
    read: dict[str, Any] = json.loads((shared / "chat/parsing.json").read_text(encoding="utf-8"))
    return read


def _same(message: Message, expected: dict[str, Any], compare: str | None) -> bool:
    def bare(text: str) -> str:
        return re.sub(r"\s+", " ", text.strip()) if compare == "collapse" else text.strip()
    return (bare(message.content) == bare(expected["content"])
            and bare(message.reasoning) == bare(expected["reasoning"])
            and calls_of(message) == [(c["name"], c["arguments"])
                                      for c in expected["tool_calls"]])


def _begins(part: Message, whole: Message) -> bool:
    """Whether nothing in ``part`` is taken back in ``whole``."""
    calls = zip(part.tool_calls, whole.tool_calls, strict=False)
    return (whole.content.startswith(part.content)
            and whole.reasoning.startswith(part.reasoning)
            and len(part.tool_calls) <= len(whole.tool_calls)
            and all(a.name == b.name and b.arguments.startswith(a.arguments) for a, b in calls))


def test_cases(shared: Path, data: dict[str, Any]) -> None:
    wrong = []
    for case in data["cases"]:
        form, tools = form_in(shared, case["template"]), [data["tools"][t] for t in case["tools"]]
        message = parse_answer(case["text"], form, tools, case.get("partial", False),
                               data["prompts"][case["prompt"]])
        if case["kind"] == "exact":
            right = any(_same(message, e, case.get("compare"))
                        for e in (case["expect"], *case.get("accept", ())))
        elif case["kind"] == "malformed":
            right = (not message.tool_calls and case["keep"] in message.content
                     and bool(message.not_understood))
        else:
            expected = case["expect"]
            right = (message.reasoning.strip() == expected["reasoning"].strip()
                     and message.content.strip().startswith(expected["content"].strip())
                     and all(a.name == b["name"] and not a.is_complete for a, b in zip(
                         message.tool_calls, expected["tool_calls"], strict=False)))
        if not right:
            wrong.append((case["id"], message))
    assert not wrong


def test_every_beginning_of_a_case_is_kept(shared: Path, data: dict[str, Any]) -> None:
    wrong = []
    for case in data["cases"]:
        if case["kind"] == "malformed" or (case["kind"] == "truncated" and not case.get("partial")):
            continue
        form, tools = form_in(shared, case["template"]), [data["tools"][t] for t in case["tools"]]
        prompt, text = data["prompts"][case["prompt"]], case["text"]
        whole = parse_answer(text, form, tools, case.get("partial", False), prompt)
        wrong += [(case["id"], text[:n]) for n in range(len(text)) if not _begins(
            parse_answer(text[:n], form, tools, partial=True, prompt=prompt), whole)]
    assert not wrong


def test_cases_in_pieces(shared: Path, data: dict[str, Any], random_seed: random.Random) -> None:
    for case in data["cases"]:
        form, tools = form_in(shared, case["template"]), [data["tools"][t] for t in case["tools"]]
        prompt, text = data["prompts"][case["prompt"]], case["text"]
        whole = parse_answer(text, form, tools, prompt=prompt)
        for _ in range(4):
            message = streamed(Parser(form, tools, prompt), pieces(text, random_seed))
            if case["kind"] == "exact":
                assert calls_of(message) == calls_of(whole), case["id"]
                assert (message.content, message.reasoning) == (whole.content, whole.reasoning)
            elif case["kind"] == "malformed":
                assert case["keep"] in message.content, case["id"]
                assert not any(call.is_complete for call in message.tool_calls)


def test_whole_calls_are_shown_only_when_complete(
        shared: Path, data: dict[str, Any], random_seed: random.Random) -> None:
    """Then malformed calls are text in pieces, too."""
    for case in data["cases"]:
        form, tools = form_in(shared, case["template"]), [data["tools"][t] for t in case["tools"]]
        prompt = data["prompts"][case["prompt"]]
        message = streamed(Parser(form, tools, prompt, whole_calls=True),
                           pieces(case["text"], random_seed))
        assert all(call.is_complete for call in message.tool_calls), case["id"]
        if case["kind"] == "malformed":
            assert not message.tool_calls


def test_no_calls_where_none_are_allowed(shared: Path, data: dict[str, Any]) -> None:
    for case in data["cases"]:
        form, tools = form_in(shared, case["template"]), [data["tools"][t] for t in case["tools"]]
        parser = Parser(form, tools, data["prompts"][case["prompt"]], allows_calls=False)
        message = streamed(parser, [case["text"]])
        assert not message.tool_calls
        for call in (case["expect"] or {}).get("tool_calls", ()) if case["kind"] == "exact" else ():
            assert call["name"] in message.content + message.reasoning, case["id"]


@pytest.fixture
def hermes(shared: Path) -> AnswerForm:
    """The form of a template with JSON between tags."""
    return form_in(shared, HERMES)


CALL = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'


def test_argument_text_is_passed_on_as_it_is_written(hermes: AnswerForm) -> None:
    arguments = '{"a" :1.0,"b":  [1e5 , "\\u00e9\\/"]\n}'
    text = f'<tool_call>{{"name": "now", "arguments": {arguments}}}</tool_call>'
    assert parse_answer(text, hermes).tool_calls[0].arguments == arguments


def test_a_raw_line_break_in_a_string_becomes_valid_json(hermes: AnswerForm) -> None:
    text = '<tool_call>{"name": "now", "arguments": {"a": "b\nc"}}</tool_call>'
    assert calls_of(parse_answer(text, hermes)) == [("now", {"a": "b\nc"})]


def test_arguments_arrive_while_they_are_written(hermes: AnswerForm) -> None:
    parser = Parser(hermes)
    parser.feed('<tool_call>\n{"name": "now", "arguments": {"city": "Os')
    call, = parser.message().tool_calls
    assert (call.arguments, call.is_complete) == ('{"city": "Os', False)


def test_what_is_cut_off_is_reported_as_far_as_it_came(hermes: AnswerForm) -> None:
    text = '<tool_call>\n{"name": "now", "arguments": {"city": "Os'
    message = streamed(Parser(hermes), [text], is_cut=True)
    assert [(c.arguments, c.is_complete) for c in message.tool_calls] == [('{"city": "Os', False)]
    assert streamed(Parser(hermes), [text]).content == text


def test_a_call_that_is_cut_off_leaves_no_text(hermes: AnswerForm, random_seed: random.Random
                                               ) -> None:
    """Wherever it breaks off, also in a number, a word or an escape."""
    arguments = '{"a": -12.5e-7, "b": [true, null], "c": "\\u00e9\\n\\"x\\""}'
    text = f'<tool_call>\n{{"name": "now", "arguments": {arguments}}}\n</tool_call>'
    begin = text.index(arguments)
    for n in range(begin + 1, text.index("</tool_call>")):
        for given in ([text[:n]], pieces(text[:n], random_seed)):
            message = streamed(Parser(hermes), given, is_cut=True)
            call, = message.tool_calls
            assert (call.arguments, message.content) == (arguments[:n - begin], ""), n


@pytest.mark.parametrize("arguments", [
    '{"city": "Os', '{"city": "Oslo}}\n</tool_call>', "{", '{"city"', '{"city": 1, "b": [', "Oslo"])
def test_no_call_is_made_of_one_that_breaks_off(hermes: AnswerForm, arguments: str) -> None:
    text = f'<tool_call>\n{{"name": "now", "arguments": {arguments}'
    message = parse_answer(text, hermes, TOOLS)
    assert (message.content, message.tool_calls) == (text, ())
    assert message.not_understood


def test_several_calls_between_one_pair_of_marks(hermes: AnswerForm) -> None:
    text = '<tool_call>{"name": "now"}\n{"name": "do_it", "arguments": {"text": "a"}}</tool_call>'
    message = parse_answer(text, hermes, TOOLS)
    assert (calls_of(message), message.content) == ([("now", {}), ("do_it", {"text": "a"})], "")


def test_a_missing_end_mark_is_no_matter(shared: Path) -> None:
    form = form_in(shared, "Qwen3-Coder")
    call = "<tool_call>\n<function=do_it>\n<parameter=text>\na\n</parameter>\n"
    for end in ("</function>\n</tool_call>", "</tool_call>", "</function>"):
        message = parse_answer(call + end, form, TOOLS)
        assert (calls_of(message), message.content) == ([("do_it", {"text": "a"})], "")


def test_a_call_that_was_shown_stays_and_isnt_complete(hermes: AnswerForm) -> None:
    message = streamed(Parser(hermes), ['<tool_call>{"name": "now", "arguments": {"a": ', "Os}}"])
    call, = message.tool_calls
    assert not call.is_complete
    assert "Os}}" in message.content
    assert "'Os'" in message.not_understood[0]


def test_text_after_a_call_is_content(hermes: AnswerForm) -> None:
    message = parse_answer(f"First.\n{CALL}\nLast.", hermes)
    assert message.content.split() == ["First.", "Last."]


@pytest.mark.parametrize("text", [
    "a < b, c <tool b", "<tool_call>", "<tool_call> is a tag", "{}", "[1, 2]", "`<think>`",
    '{"name": "now"}', "use </tool_call> here", "a\n\n  b\t"])
def test_text_is_no_call(hermes: AnswerForm, text: str, random_seed: random.Random) -> None:
    message = streamed(Parser(hermes, TOOLS), pieces(text, random_seed))
    assert (message.content, message.tool_calls) == (text, ())


def test_a_mark_may_wait(hermes: AnswerForm) -> None:
    parser = Parser(hermes)
    parser.feed("so <tool")
    assert parser.message().content == "so"
    parser.feed("s>")
    assert parser.message().content == "so <tools>"


def test_reasoning_is_open_where_the_prompt_says_so(shared: Path) -> None:
    form = form_in(shared, "Qwen-Qwen3-0.6B")
    start = "<|im_start|>user\nSay <think><|im_end|>\n<|im_start|>assistant\n"
    assert form.open_reasoning(start) is None
    assert form.open_reasoning(start + "<think>\n")
    assert form.open_reasoning(start + "<think>\nLet me")
    assert form.open_reasoning(start + "<think>\n\n</think>\n\n") is None
    text = "<think>\nA repeated mark.\n</think>\n\nFour."
    for prompt in (start, start + "<think>\n"):
        message = parse_answer(text, form, prompt=prompt)
        assert (message.reasoning, message.content) == ("A repeated mark.", "Four.")


def test_reasoning_without_an_end_is_reasoning(shared: Path) -> None:
    form = form_in(shared, "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
    message = parse_answer("Still at it", form)
    assert (message.reasoning, message.content) == ("Still at it", "")


def test_a_call_may_come_inside_open_reasoning(shared: Path) -> None:
    form = form_in(shared, "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
    text = "I look.\n<tool_call>\n<function=now>\n</function>\n</tool_call>"
    message = parse_answer(text, form, TOOLS)
    assert (message.reasoning, calls_of(message)) == ("I look.", [("now", {})])


def test_a_continued_answer_keeps_its_space(hermes: AnswerForm) -> None:
    prompt = f"{hermes.header}\nThe answer is"
    assert hermes.is_begun(prompt)
    assert parse_answer(" 42.", hermes, prompt=prompt).content == " 42."


def test_ids_are_the_models(shared: Path) -> None:
    nemo = form_in(shared, "mistralai-Mistral-Nemo-Instruct-2407")
    written = '[TOOL_CALLS][{"name": "now", "arguments": {}, "id": "Ab3dE6gH1"}, {"name": "now"}]'
    first, second = streamed(Parser(nemo, TOOLS), [*written]).tool_calls
    assert first.id == "Ab3dE6gH1"
    assert re.fullmatch("[a-zA-Z0-9]{9}", second.id)
    kimi = form_in(shared, "Kimi-K2-Instruct")
    message = parse_answer("<|tool_calls_section_begin|><|tool_call_begin|>functions.now:7"
                           "<|tool_call_argument_begin|>{}<|tool_call_end|>", kimi)
    assert [(c.name, c.id) for c in message.tool_calls] == [("now", "functions.now:7")]


def test_made_ids_are_as_clients_know_them(hermes: AnswerForm) -> None:
    calls = parse_answer(CALL * 9, hermes).tool_calls
    assert len({c.id for c in calls}) == 9
    assert all(re.fullmatch("call_[a-zA-Z0-9]{24}", c.id) for c in calls)


def test_an_object_counts_as_a_call_only_for_an_offered_tool(shared: Path) -> None:
    form = form_in(shared, "meta-llama-Llama-3.1-8B-Instruct")
    text = '{"name": "now", "parameters": {}}'
    assert calls_of(parse_answer(text, form, TOOLS)) == [("now", {})]
    for other in (text.replace("now", "then"), '{"name": "now", "age": 3}', f"It is {text}"):
        message = parse_answer(other, form, TOOLS)
        assert (message.content, message.tool_calls) == (other, ())
    assert parse_answer(text, form).content == text


def _marks(form: AnswerForm) -> list[str]:
    return [*(m for f in form.dialect.forms for m in (*f.marks, f.end, f.section_end)),
            *(m for f in form.reasoning for m in (f.open, f.close)), "do_it", '{"name": "do_it", ',
            '"arguments": {', '"a": 1', "}", "]", "\n", " x ", "<", "<|", '"', "\\", "[", ",",
            "=", "(", ")", ">", "text", "<|channel|>", "<|message|>", ">>>", "all\n", "\ud83d"]


def test_no_text_makes_it_fail(shared: Path, random_seed: random.Random) -> None:
    """Any text of marks in any order is parsed, nothing shown is taken back, and without calls
    nothing of it is lost but marks."""
    names = sorted(p.stem for p in (shared / "chat/templates").glob("*.jinja"))
    forms = [form_in(shared, name) for name in names]
    forms += [answer_form(Rendered(source)) for source in TEMPLATES.values()]
    for form in forms:
        marks = _marks(form)
        for _ in range(12):
            text = "".join(random_seed.choice(marks) for _ in range(random_seed.randrange(1, 24)))
            tools = random_seed.choice([None, TOOLS])
            message = streamed(Parser(form, tools), pieces(text, random_seed),
                               is_cut=random_seed.random() < 0.5)
            assert all(json.loads(c.arguments) is not None for c in message.tool_calls
                       if c.is_complete), text


def test_the_public_function(shared: Path, data: dict[str, Any]) -> None:
    """It takes the template's text alone: no tokens, no variables."""
    wrong = []
    for case in data["cases"]:
        if case["kind"] == "exact":
            template = shared / "chat/templates" / f"{case['template']}.jinja"
            message = chat.parse(case["text"], template.read_text(encoding="utf-8"),
                                 [data["tools"][t] for t in case["tools"]],
                                 prompt=data["prompts"][case["prompt"]])
            if not any(_same(message, e, case.get("compare"))
                       for e in (case["expect"], *case.get("accept", ()))):
                wrong.append((case["id"], message))
    assert not wrong


def test_a_malformed_template_is_an_error() -> None:
    with pytest.raises(TemplateError):
        chat.parse("", "{% if %}")
