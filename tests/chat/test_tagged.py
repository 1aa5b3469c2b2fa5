"""Arguments in tags under a constraint: what templates write passes, what passes is parsed back."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from chat.answers import Rendered, form_in, history, template_in
from chat.argued import accepts, check_what_passes, language, shown, tool_of, value_of
from chat.strange_templates import TEMPLATES as STRANGE
from conftest import SHARED
from sample.constrain.conftest import Fits
from unladen.api.guided import guide_of
from unladen.chat.form_of_answer import AnswerForm
from unladen.chat.learning import answer_form
from unladen.chat.parsing import parse_answer
from unladen.chat.reasoning import THINK
from unladen.chat.tools.deepseek_v3_2 import DeepSeekV32
from unladen.chat.tools.deepseek_v4 import DeepSeekV4
from unladen.gguf import open_gguf
from unladen.sample.constrain.guide import Guide
from unladen.tokenizer import Tokenizer

pytest.importorskip("llguidance")

TEMPLATES = ("Qwen3-Coder", "GLM-4.6", "MiniMax-M2", "ByteDance-Seed-OSS", "openbmb-MiniCPM5-1B",
             "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
REPRS = ("ByteDance-Seed-OSS", "openbmb-MiniCPM5-1B")
"""Templates that write objects and lists as Python's literals."""
ENDS = ("</think>", "</parameter>", "</arg_value>", "</param>", "]]></param>",
        "</｜DSML｜parameter>", '"', "}", "]", "0", "\n", "</function>")


@pytest.fixture
def fits() -> Fits:
    """Whether a whole text is of a language, byte by byte."""
    guide = Guide([bytes([i]) for i in range(256)] + [b"</s>"], [256], [256], list)
    return lambda made, text: accepts(guide, made, text)


@pytest.fixture(scope="module")
def guide(shared: Path, seed: int) -> Guide:
    name = random.Random(seed).choice(["qwen2", "llama-bpe", "llama-spm", "deepseek-coder"])
    print(f"vocabulary: {name}")
    return guide_of(Tokenizer.from_gguf(open_gguf(
        shared / f"vocabs/ggml-vocab-{name}.gguf").metadata))


def form_of(shared: Path, name: str) -> AnswerForm:
    own = {"deepseek_v3_2": DeepSeekV32, "deepseek_v4": DeepSeekV4}.get(name)
    return AnswerForm(own(), (THINK,)) if own else form_in(shared, name)


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_a_template_writes_passes(shared: Path, seed: int, guide: Guide, name: str) -> None:
    rng, form, template = random.Random(f"{seed} {name}"), form_in(shared, name), template_in(
        shared, name)
    n_written = 0
    for _ in range(8):
        tool = tool_of(rng)
        root = tool["function"]["parameters"]
        if name in REPRS and '"pattern"' in json.dumps(root):
            continue  # Python's literals aren't held to it, so only JSON passes
        made, _ = language(form, tool)
        for _ in range(3):
            values = value_of(rng, root, root)
            text = template.render(history([("do_it", values)]), [tool])
            text = text[text.rindex("Qq") + 2:]
            called = form.called([tool], "required")
            begin = (called.opening or called.calls[0].trigger)
            text = text[text.index(begin):]
            end = (called.closing or called.calls[0].after).strip()
            text = text[:text.rindex(end) + len(end)]
            read = parse_answer(text, form, [tool]).tool_calls
            if [json.loads(call.arguments) for call in read] != [values]:
                continue  # a text that is read as another type: the template can't tell them apart
            n_written += 1
            marks = form.open_reasoning(form.prompt_end)
            text = (marks.closing if marks else "") + text
            assert accepts(guide, made, text), shown(root, values, text)
    assert n_written >= 3


@pytest.mark.parametrize("name", [*TEMPLATES, "deepseek_v3_2", "deepseek_v4"])
def test_what_passes_is_parsed_back(shared: Path, seed: int, guide: Guide, name: str) -> None:
    check_what_passes(guide, form_of(shared, name), random.Random(f"{seed} {name}"), ENDS)


def held(schema: Any, template: str = "Qwen3-Coder") -> tuple[Any, Any, tuple[str, ...], Any]:
    """(the form, the language, its notes, the tool) for a tool with these arguments."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", **schema}}}
    form = answer_form(Rendered(STRANGE[template])) if template in STRANGE else form_in(
        SHARED, template)
    return form, *language(form, tool), tool


def coder(*parts: tuple[str, str]) -> str:
    """A call of ``f`` as Qwen3-Coder writes it."""
    inner = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in parts)
    return f"<tool_call>\n<function=f>\n{inner}</function>\n</tool_call>"


STRING = {"type": "string"}


@pytest.mark.parametrize(("schema", "yes", "no"), [
    ({}, [()], [(("a", "x"),)]),
    ({"properties": {"a": STRING}}, [(), (("a", ""),), (("a", "x\n\n<b>\n"),)],
     [(("b", "x"),), (("a", "x"), ("a", "x")), (("ab", "x"),)]),
    ({"properties": {"a": STRING, "ab": STRING, "abc": STRING}, "required": ["ab"]},
     [(("ab", "1"),), (("a", "1"), ("ab", "2"), ("abc", "3"))],
     [(), (("a", "1"),), (("abc", "1"),), (("ab", "1"), ("a", "2"))]),
    ({"properties": {"a": {"enum": ["</parameter>", "x</parameter>y", "\n", "on", "one", 1, None]}},
      "required": ["a"]},
     [(("a", v),) for v in ("</parameter>", "x</parameter>y", "\n", "on", "one", "1", "null",
                            "None")],
     [(("a", v),) for v in ("", "x", "o", "ones", "2", "true")]),
    ({"properties": {"a": {"type": ["string", "integer", "null"]}}},
     [(("a", v),) for v in ("x", "5", "null", "[1]", "5.5")], []),
    ({"properties": {"a": {"anyOf": [STRING, {"type": "array", "items": {"type": "integer"}}]}}},
     [(("a", v),) for v in ("x", "[1, 2]", "[]", "a[", "{")], [(("a", v),) for v in (
         '["x"]', "[1, x]", " [x]")]),
    ({"properties": {"a": {"type": "boolean"}, "b": {"$ref": "#/properties/a"}}},
     [(("a", "True"), ("b", "false"))], [(("b", "x"),), (("a", "TRUE"),)]),
    ({"properties": {"a": {"type": "string", "minLength": 2, "maxLength": 3,
                           "pattern": "^[a-z]"}}},
     [(("a", "ab"),), (("a", "a\n"),)], [(("a", "a"),), (("a", "1ab"),), (("a", "abcd"),)]),
    ({"properties": {"a": STRING}, "additionalProperties": {"type": "integer"}},
     [(("a", "x"), ("b", "5")), (("ab", "5"), ("c", "6"))],
     [(("b", "x"),), (("b", "5"), ("a", "x"))]),
    ({"$defs": {"o": {"type": "object", "properties": {"a": {"$ref": "#/$defs/i"}},
                      "additionalProperties": False}, "i": {"type": "integer"}},
      "properties": {"o": {"$ref": "#/$defs/o"}}},
     [(("o", '{"a": 1}'),), (("o", "{}"),)], [(("o", '{"a": "x"}'),)])])
def test_what_fits(fits: Fits, shared: Path, schema: Any, yes: Any, no: Any) -> None:
    _, made, notes, _ = held(schema)
    assert not notes
    assert [parts for parts in yes if not fits(made, coder(*parts))] == []
    assert [parts for parts in no if fits(made, coder(*parts))] == []


@pytest.mark.parametrize(("schema", "says"), [
    ({"properties": {"a>b": STRING}}, "'a>b'.*never comes"),
    ({"properties": {"a<b": STRING}, "required": ["a<b"]}, "'a<b' can't be written in tags"),
    ({"anyOf": [{"required": []}]}, None), ({"patternProperties": {}}, "patternProperties"),
    ({"required": ["x"]}, "'x' is required and has no schema"),
    ({"properties": {"a": {"type": "string", "format": "date"}}}, "format can't be kept to"),
    ({"properties": {"a": {"type": "string", "pattern": "a(?=b)"}}}, "pattern: .*look-around"),
    ({"properties": {"a": {"allOf": [{"minLength": 1}, {"minLength": 2}]}}}, "two levels"),
    ({"properties": {"a": {"$ref": "#/none"}}}, "nothing is at"),
    ({"$defs": {"x": {"$ref": "#/$defs/x"}}, "properties": {"a": {"$ref": "#/$defs/x"}}},
     "nested too deeply"),
    ({"properties": {"a": {"enum": ["x</parameter>\n<parameter=b>\n"]}}}, "can't be written"),
    ({"properties": {"a": {"anyOf": [{"anyOf": [STRING] * 64}] * 64}}}, "alternatives"),
    ({"properties": {"a": {"type": "string", "minLength": "1}/ | /x"}}}, "whole number"),
    ({"properties": {"a": {"type": "string", "maxLength": 10**9}}}, "whole number"),
    ({"properties": ["a"]}, "aren't what a schema has")])
def test_what_is_not_held_to_is_said(fits: Fits, shared: Path, schema: Any, says: str | None
                                     ) -> None:
    """It stays free text, and such a call is still made and parsed."""
    form, made, notes, tool = held(schema)
    assert bool(notes) == (says is not None)
    assert says is None or re.search(says, " ".join(notes)), notes
    text = coder() if "'a'" not in " ".join(notes) else coder(("a", "anything"))
    if "enum" not in str(schema) and "look" not in str(says):
        assert fits(made, text), notes
        assert parse_answer(text, form, [tool]).tool_calls[0].is_complete


def test_quotes_in_names(fits: Fits) -> None:
    """Names stand in quotes here; one that has a quote in it can't be told from what follows."""
    form = AnswerForm(DeepSeekV32(), (THINK,))
    tool = {"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {'a"b': STRING, "a": STRING, "n": {"type": "integer"}}}}}
    made, notes = language(form, tool)
    assert len(notes) == 1 and 'a"b' in notes[0]
    for value, kind, is_right in (("x", "true", True), ("5", "false", False)):
        text = ('<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" '
                f'string="{kind}">{value}</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
                '</｜DSML｜function_calls>')
        assert fits(made, text) == is_right


def test_a_call_ends_in_time(shared: Path) -> None:
    """From inside a raw text there is a way to the end of the call."""
    guide = Guide([bytes([i]) for i in range(256)] + [b"</s>"], [256], [256], list)
    _, made, _, _ = held({"properties": {"a": STRING, "b": {"type": "array", "items": STRING},
                                         "c": {"type": "string", "minLength": 3}},
                          "required": ["a", "b", "c"]})
    text = coder(("a", "some text"), ("b", "[]"), ("c", "xyz"))
    constraint: Any = made.make(guide)()
    for token in guide.ids_of(text[:text.index("text")]):
        constraint.accept(token)
    way = constraint.way_out(400)
    assert way is not None and way[-1] == 256
    whole = text[:text.index("text")] + bytes(way[:-1]).decode()
    assert accepts(guide, made, whole), whole
