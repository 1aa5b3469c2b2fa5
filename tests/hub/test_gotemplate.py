"""Go templates: shared renderings, the language's rules, and hostile templates."""

from __future__ import annotations

import datetime
import json
import random
import secrets
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from unladen.errors import InvalidArgument, TemplateError, UnladenError
from unladen.hub.gotemplate import GoTemplate, render

USER = [{"role": "user", "content": "hi"}]
SOON = 20
"""Seconds in which even a busy machine ends a hostile template."""


def of_today(text: str) -> str:
    now = datetime.datetime.now()
    before = now - datetime.timedelta(days=1)
    return text.replace("<<currentDate>>", f"{now:%Y-%m-%d}").replace(
        "<<yesterdayDate>>", f"{before:%Y-%m-%d}")


def test_shared_renderings(shared: Path) -> None:
    data = json.loads((shared / "stores" / "gotemplates.json").read_text(encoding="utf-8"))
    n_checked = 0
    for name, template in data["templates"].items():
        for conversation, expected in template["expected"].items():
            given = data["conversations"][conversation]
            if isinstance(expected, str):
                found = render(template["template"], **given)
                assert found == of_today(expected), (name, conversation)
            else:
                with pytest.raises(UnladenError):
                    render(template["template"], **given)
            n_checked += 1
    assert n_checked >= 345
    for case in data["refused"]:
        with pytest.raises(TemplateError) as caught:
            render(case["template"], messages=USER)
        assert caught.value.line == 1 and caught.value.hint, case


@pytest.mark.parametrize(("action", "expected"), [
    ('{{ "\\u00e9\\x41\\101\\n" }}', "\u00e9AA\n"), ("{{ `a\\n` }}", "a\\n"), ("{{ 'x' }}", "120"),
    ("{{ 0x1F }}{{ 1_000 }}{{ 017 }}{{ -3 }}{{ .5 }}{{ 1e3 }}", "31100015-30.51000"),
    ("{{ 1e20 }} {{ 1000000.0 }} {{ 0.00001 }}", "1e+20 1e+06 1e-05"),
    ("{{ true }}{{ not true }}", "truefalse"), ("{{ .Nope }}", "<no value>"),
    ("{{ if .Nope }}a{{ else if 1 }}b{{ else }}c{{ end }}", "b"),
    ("{{ with .Nope }}a{{ else with 7 }}{{ . }}{{ end }}", "7"),
    ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $x := 3 }}{{ end }}{{ $x }}", "2"),
    ("{{ range $i, $m := .Messages }}{{ $i }}{{ $m.Role }}{{ end }}", "0user"),
    ("{{ range .Nope }}a{{ else }}none{{ end }}", "none"),
    ('{{ "a" | printf "%s-%s" "b" }}', "b-a"), ('{{ (index .Messages 0).Role }}', "user"),
    ("{{ $.System }}|{{ $.Nope }}", "|<no value>"), ("a {{- /* b */ -}} c", "ac"),
    ("{{/* tight */}}x", "x"), ("{{\n1\n}}", "1"),
    ('{{ len "\u00e9" }}{{ len .Messages }}', "21"), ('{{ slice "abcd" 1 3 }}', "bc"),
    ('{{ index "abc" 1 }}', "98"), ("{{ or 0 \"\" 5 (index .Messages 9) }}", "5"),
    ("{{ and 1 0 (index .Messages 9) }}", "0"), ("{{ eq 1 2 3 1 }}{{ eq .Nope nil }}", "truetrue"),
    ('{{ eq .Nope "a" }}{{ lt "a" "b" }}{{ ge 2 2 }}{{ le 1.5 2.5 }}', "falsetruetruetrue"),
    ('{{ define "t" }}{{ $ }}{{ . }}{{ end }}{{ template "t" 5 }}', "55"),
    ('{{ template "t" }}{{ define "t" }}[{{ . }}]{{ end }}', "[<no value>]"),
    ('{{ println 1 "a" }}{{ print }}', "1 a\n"),
    ('{{ printf "%5d|%-5d|%05d|%x|%c|%U" 42 42 42 255 65 65 }}', "   42|42   |00042|ff|A|U+0041"),
    ('{{ printf "%q %v %t %.2f %8.3s| %%" "a\\"b" true false 2.5 "abcdef" }}',
     '"a\\"b" true false 2.50      abc| %'),
    ('{{ printf "%d %s" "a" }}', "%!d(string=a) %!s(MISSING)"),
    ('{{ printf "x" 1 }}', "x%!(EXTRA int=1)"),
    ('{{ json "<\\u2028>" }}', '"\\u003c\\u2028\\u003e"'),
    ("{{ json .Nope }}{{ json .Messages }}", 'null[{"role":"user","content":"hi"}]'),
    ("{{ toTypeScriptType .Messages }}", "any"), ("{{ $x := 5 | }}{{ $x }}", "5"),
    ("{{ (.Nope).Role }}{{ $x := .Nope }}{{ $x.Y }}", "<no value><no value>"),
    ('{{ printf "%06.1f" "a" }}{{ printf "%6.2f|" 0 }}', "%!f(string=00000a)%!f(int=    00)|"),
    ("{{ print (index .Messages 0) }}{{ index .Messages 0 }}",
     "&{user hi  [] []  }{user hi  [] []  }"),
    ("{{ ne .Messages .Nope }}{{ eq .Tools nil }}", "truetrue"), ("{{ .Tools }}", "null"),
    ("{{ if 0 }}{{ $y = 1 }}{{ end }}{{ range $m := .Nope }}{{ else }}{{ $m }}{{ end }}",
     "<no value>"),
    ('{{ printf "%+q%+q" "\u00e9" 233 }}', "\"\\u00e9\"'\\u00e9'"),
    ("{{ range .Messages }}{{ json .ToolCalls }}{{ end }}{{ json .Tools }}", "nullnull")])
def test_language(action: str, expected: str) -> None:
    assert render(f"{action}{{{{ if .Messages }}}}{{{{ end }}}}", messages=USER) == expected


@pytest.mark.parametrize("action", [
    "{{ if }}{{ end }}", "{{", "{{ }}", "{{ 1 2 }}", "{{ nil }}", "{{ . | 3 }}", "{{ .A.B }}",
    "{{ nosuch }}", "{{ $x }}", "{{ $x = 1 }}", "{{ break }}", "{{ 1 | 2 }}", "{{ 'ab' }}",
    '{{ "a }}', '{{ "\\z" }}', "{{ 0x }}", "{{ (1 }}", "{{ 1) }}", "{{ eq 1 }}", '{{ eq 1 "a" }}',
    "{{ eq .Messages .Messages }}", "{{ index .Nope }}",
    "{{ lt true false }}", "{{ index .Messages -1 }}",
    "{{ slice .Messages 2 1 }}", "{{ range 3 }}{{ end }}", "{{ range \"abc\" }}{{ end }}",
    "{{ else }}", "{{ if 1 }}{{ else }}{{ else }}{{ end }}", "{{ len nil }}", "{{ template 1 }}",
    '{{ define "a" }}x{{ end }}{{ define "a" }}y{{ end }}', "{{ if 1 }}{{ define \"a\" }}{{ end }}",
    "{{/* open", "{{ /* spaced */ }}", "{{ printf 1 }}", "{{ call .A }}", "{{ (len \"a\").B }}",
    "{{ $a, $b := 1 }}", "{{ range $a, $b, $c := .Messages }}{{ end }}", "{{ print\"a\" }}",
    "{{ range .Messages }}{{ .__class__ }}{{ end }}", "{{ .Messages.append }}", "{{ and }}",
    "{{ len 1 2 }}", "{{ 99999999999999999999 }}", "{{ if 1 }}{{ else if 1 }}", "{{ @ }}"])
def test_refused(action: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(f"a\n{action}{{{{ if .Messages }}}}{{{{ end }}}}", messages=USER)
    assert caught.value.line == 2 and caught.value.hint


def test_turns() -> None:
    template = "<{{ .System }}|{{ .Prompt }}|{{ .Response }}>{{ .Nope }}"
    talk = [{"role": r, "content": c} for r, c in (
        ("system", "s"), ("user", "u1"), ("assistant", "a1"), ("tool", "t"), ("user", "u2"))]
    assert render(template, messages=talk) == "<s|u1|a1><no value><|u2|"
    in_branch = "{{ if .Prompt }}[{{ .Prompt }}|{{ .Response }}]x{{ else }}y{{ end }}z"
    assert render(in_branch, prompt="p") == "[p|"
    assert render(in_branch, system="s") == ""
    assert render("{{ .Prompt }}-{{ .Suffix }}", prompt="a", suffix="b") == "a-b"
    think = "{{ if .IsThinkSet }}{{ .Think }}{{ .ThinkLevel }}{{ end }}{{ .Response }}"
    assert [render(think, prompt="p", think=t) for t in (None, True, False, "low")] == [
        "", "true", "false", "truelow"]


def test_tools() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"b": {"type": ["string", "null"]}, "a": {
            "anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "boolean"}],
            "enum": [1, 2.5, 1e21, 9007199254740993]}}}}}]
    ask = "{{ .Messages }}{{ range .Tools }}{{ range $n, $p := .Function.Parameters.Properties }}" \
          "{{ $n }}:{{ $p.Type }}:{{ toTypeScriptType $p }} {{ end }}{{ . }}{{ end }}"
    assert render(ask, tools=tools) == (
        "[]a::any[] | boolean b:[string null]:string | null "
        '{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":'
        '{"a":{"anyOf":[{"type":"array","items":{"type":"number"}},{"type":"boolean"}],'
        '"enum":[1,2.5,1e+21,9007199254740993]},"b":{"type":["string","null"]}}}}}')
    call = {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "function": {"name": "f", "arguments": '{"b": 1, "a": [true, null]}'}}]}
    assert render("{{ range .Messages }}{{ range .ToolCalls }}{{ .ID }}{{ .Function.Name }}"
                  "{{ .Function.Arguments }}{{ range $k, $v := .Function.Arguments }}"
                  "{{ $k }}={{ $v }};{{ end }}{{ end }}{{ end }}", messages=[call]) == (
        'c1f{"a":[true,null],"b":1}a=[true <nil>];b=1;')


@pytest.mark.parametrize("given", [
    {"messages": "hi"}, {"messages": [3]}, {"messages": [{"role": 3}]}, {"tools": "x"},
    {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
    {"tools": [{"function": 3}]},
    {"messages": [{"role": "a", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]},
    {"messages": [{"role": "a", "tool_calls": [{"function": {"arguments": {"a": 1 << 5000}}}]}]},
    {"messages": [{"role": "a", "tool_calls": [{"function": {"arguments": {"a": {3}}}}]}]}])
def test_what_is_no_conversation(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        render("{{ .Messages }}", **given)
    assert caught.value.hint
    with pytest.raises(InvalidArgument):
        GoTemplate(3)  # type: ignore[arg-type]


RECURSION = '{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}'
TREE = "".join(f'{{{{ define "t{i}" }}}}{{{{ template "t{i + 1}" }}}}{{{{ template "t{i + 1}" }}}}'
               "{{ end }}" for i in range(60)) + '{{ define "t60" }}x{{ end }}{{ template "t0" }}'
LOOP = "{{ range .Messages }}"
DOUBLING = '{{ $x := "aaaaaaaa" }}' + LOOP + "{{ $x = print $x $x }}" + "{{ end }}"
HOSTILE = {
    "recursion": RECURSION, "tree": TREE, "loops": LOOP * 6 + "{{ end }}" * 6,
    "doubling": DOUBLING, "quoting": DOUBLING.replace("print $x $x", 'printf "%q%q" $x $x'),
    "json": DOUBLING.replace("print $x $x", "json (print $x $x)"),
    "output": LOOP * 3 + "x" * 1000 + "{{ end }}" * 3, "width": '{{ printf "%999999999d" 1 }}',
    "precision": '{{ printf "%.99999d" 1 }}', "star": '{{ printf "%*d" 9 1 }}',
    "widths": LOOP * 2 + '{{ printf "%9999d" 1 }}' + "{{ end }}" * 2,
    "parentheses": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "open parentheses": "{{ " + "(" * 50_000, "blocks": "{{ if 1 }}" * 20_000,
    "variables": "".join(f"{{{{ $v{i} := 1 }}}}" for i in range(20_000)),
    "long": "{{ 1 }}" * 200_000, "ends": "{{ end }}" * 10_000,
    "number": "{{ 1" + "0" * 100_000 + " }}",
    "text": '{{ "' + "\\" * 100_000, "braces": "{{" * 100_000,
    "else": "{{ if 0 }}" + "{{ else if 0 }}" * 20_000}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_templates_end_soon(name: str) -> None:
    started = time.thread_time()
    with pytest.raises(TemplateError) as caught:
        render(HOSTILE[name] + "{{ .Messages }}",
               messages=[{"role": f"r{i}", "content": "c"} for i in range(400)])
    assert time.thread_time() - started < SOON
    assert caught.value.hint and len(str(caught.value)) < 500


def test_little_room_for_calls() -> None:
    """A caller that is deep in calls gets a typed error, too."""
    def deep(n: int) -> None:
        if n:
            return deep(n - 1)
        with pytest.raises(TemplateError, match="nest"):
            render(RECURSION, messages=USER)
        with pytest.raises(TemplateError, match="nest"):
            render("{{ if 1 }}" * 90 + "{{ end }}" * 90, messages=USER)
        return None

    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    deep(sys.getrecursionlimit() - depth - 150)


def test_long_conversations_are_rendered() -> None:
    talk = [{"role": ("user", "assistant")[i % 2], "content": "word " * 50} for i in range(1500)]
    template = ("{{ range $i, $_ := .Messages }}{{ $last := eq (len (slice $.Messages $i)) 1 }}"
                "{{ if eq .Role \"user\" }}U{{ .Content }}{{ else }}A{{ .Content }}{{ end }}"
                "{{ if $last }}!{{ end }}{{ end }}")
    assert len(render(template, messages=talk)) == 1500 * 251 + 1


def test_anything_ends_in_a_text_or_a_typed_error() -> None:
    seed = secrets.randbits(32)
    print(f"seed: {seed}")
    draw = random.Random(seed)
    pieces = ["{{", "}}", "{{-", "-}}", " ", ".", "if", "else", "end", "range", "with", "$x", ":=",
              "=", "|", "(", ")", '"a"', "1", ".Messages", ".Role", "eq", "len", "index", "printf",
              "define", "template", "break", "/*", "*/", "\n", "\0", "\ud800", ",", "nil", "`"]
    n_rendered = 0
    for _ in range(2000):
        template = "".join(f"{draw.choice(pieces)}{draw.choice(['', ' '])}"
                           for _ in range(draw.randrange(12)))
        try:
            n_rendered += isinstance(render(template, messages=USER), str)
        except TemplateError:
            n_rendered += 0
    assert n_rendered
