"""Arguments in notations other than JSON under a constraint: what templates write passes, and what
passes is parsed back."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from chat.answers import form_in, history, template_in
from chat.argued import accepts, check_what_passes, language, shown, tool_of, value_of
from unladen.api.guided import guide_of
from unladen.gguf import open_gguf
from unladen.sample.constrain.guide import Guide
from unladen.tokenizer import Tokenizer

pytest.importorskip("llguidance")

LFM2, GEMMA = "LFM2.5-Instruct", "google-gemma-4-31B-it"
ENDS = ("</think>", "<channel|>", '"', "'", '<|"|>', "}", "]", ")", "0",
        ")]<|tool_call_end|>", "}<tool_call|>")


@pytest.fixture(scope="module")
def guide(shared: Path, seed: int) -> Guide:
    name = random.Random(seed).choice(["qwen2", "llama-bpe", "gemma-4"])
    print(f"vocabulary: {name}")
    return guide_of(Tokenizer.from_gguf(open_gguf(
        shared / f"vocabs/ggml-vocab-{name}.gguf").metadata))


def test_what_a_template_writes_passes(shared: Path, seed: int, guide: Guide) -> None:
    rng, form, template = random.Random(seed), form_in(shared, GEMMA), template_in(shared, GEMMA)
    n_written = 0
    for _ in range(15):
        tool = tool_of(rng)
        root = tool["function"]["parameters"]
        made, notes = language(form, tool)
        if any("can't be written" in note for note in notes):
            continue
        for _ in range(3):
            values = value_of(rng, root, root)
            text = template.render(history([("do_it", values)]), [tool])
            text = text[text.index("<|tool_call>call"):]
            text = text[:text.rindex("<tool_call|>")] + "<tool_call|>"
            assert accepts(guide, made, text), shown(root, values, text)
            n_written += 1
    assert n_written > 10


def test_python_as_it_is_written_passes(shared: Path, seed: int, guide: Guide) -> None:
    """LFM2's templates write no calls: a call is what its makers show."""
    rng, form = random.Random(seed), form_in(shared, LFM2)
    for _ in range(15):
        tool = tool_of(rng)
        root = tool["function"]["parameters"]
        made, notes = language(form, tool)
        values = value_of(rng, root, root)
        if not all(key.isidentifier() for key in values) or notes:
            continue
        written = ", ".join(f"{key}={value!r}" for key, value in values.items())
        text = f"<|tool_call_start|>[do_it({written})]<|tool_call_end|>"
        assert accepts(guide, made, text), shown(root, values, text)


@pytest.mark.parametrize("name", [LFM2, GEMMA])
def test_what_passes_is_parsed_back(shared: Path, seed: int, guide: Guide, name: str) -> None:
    check_what_passes(guide, form_in(shared, name), random.Random(f"{seed} {name}"), ENDS)


STRING = {"type": "string"}


@pytest.mark.parametrize(("name", "schema", "says", "yes", "no"), [
    (GEMMA, {"properties": {"b": STRING, "A": {"enum": ["<b>", "a\"'"]}}, "required": ["A"]}, "",
     ['A:<|"|><b><|"|>', 'A:<|"|>a"\'<|"|>,b:<|"|>}],<|"|>'], ['b:<|"|>x<|"|>', 'A:<|"|>c<|"|>']),
    (GEMMA, {"properties": {"a:b": STRING}}, "a:b", [""], ['a:b:<|"|>x<|"|>']),
    (GEMMA, {"properties": {"a": {"enum": ['<|"|>']}}}, "can't be written", ["a:5"], []),
    (LFM2, {"properties": {"a": {"enum": ["'", 'x"', "\\", None]}}}, "",
     ["a='\\''", 'a="\'"', "a='x\"'", 'a="\\\\"', "a=None", "a=null", ""], ["a=''", "a=True"]),
    (LFM2, {"properties": {"a": {"type": "array", "minItems": 1, "maxItems": 2, "items": {
        "type": "integer", "maximum": 5}}, "ab": {"type": "boolean"}}}, "",
     ["a=[1], ab=True", "a=[1, 2]", "ab=false"], ["a=[]", "a=[1, 2, 3]", "a=[9]", "ab=1, a=[1]"]),
    (LFM2, {"properties": {"a b": STRING}}, "a b", [""], []),
    (LFM2, {"properties": {"o": {"type": "object", "properties": {"k": {"$ref": "#"}}}}}, "",
     ["o={'k': {'o': {}}}", 'o={"k": {}}'], ["o={'k': 1}", "k=1"]),
    (LFM2, {"properties": {"a": {"type": "array", "uniqueItems": True}}}, "uniqueItems",
     ["a=[1, 1]"], ["a=1"])])
def test_what_fits(shared: Path, name: str, schema: Any, says: str, yes: list[str], no: list[str]
                   ) -> None:
    guide = Guide([bytes([i]) for i in range(256)] + [b"</s>", b'<|"|>'], [256, 257], [256], list)
    tool = {"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "additionalProperties": False, **schema}}}
    made, notes = language(form_in(shared, name), tool)
    assert bool(notes) == bool(says) and says in " ".join(notes)
    before, after = (("<|tool_call>call:f{", "}<tool_call|>") if name == GEMMA else
                     ("<|tool_call_start|>[f(", ")]<|tool_call_end|>"))
    assert [each for each in yes if not accepts(guide, made, before + each + after)] == []
    assert [each for each in no if accepts(guide, made, before + each + after)] == []
