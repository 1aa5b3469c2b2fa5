"""Templates that attack end in an error, within bounds of time and memory."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unladen.chat import render
from unladen.errors import TemplateError

pytest.importorskip("jinja2")

MESSAGES = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hello. What is on your mind?"}]
SECONDS = 1.0
"""Processor time of a rendering, its compilation included: other processes don't count."""
BYTES = 256 << 20


def peak() -> int:
    """The most bytes that this process has had in memory; 0 where no module tells."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def outcome(template: str) -> str | TemplateError:
    """What comes of ``template``. Fails where it takes too much, three times."""
    before = peak()
    for _ in range(3):  # beside others a processor may be several times slower
        began = time.thread_time()
        try:
            result: str | TemplateError = render(template, MESSAGES)
        except TemplateError as error:
            result = error
        took, gained = time.thread_time() - began, peak() - before
        if took < SECONDS:
            break
    assert gained < BYTES, f"{gained} bytes"
    assert took < SECONDS, f"{took} s"
    return result


def cases() -> list[Any]:
    path = Path(__file__).resolve().parents[4] / "shared/chat/hostile.json"
    found = json.loads(path.read_text(encoding="utf-8"))["cases"] if path.exists() else []
    return [pytest.param(case, id=case["id"]) for case in found]


@pytest.mark.parametrize("case", cases())
def test_known_attacks(case: dict[str, Any]) -> None:
    result = outcome(case["template"])
    if isinstance(result, TemplateError):
        assert result.hint
    else:
        assert case.get("may_render") or result == case.get("or")


DAG = "{% set ns = namespace(d=[1]) %}{% for i in range(60) %}{% set ns.d = MADE %}{% endfor %}"
BUILDING = ["[ns.d, ns.d]", "(ns.d, ns.d)", "{'a': ns.d, 'b': ns.d}", "dict(a=ns.d, b=ns.d)",
            "ns.d + [ns.d]", "[ns.d] * 2", "[ns.d]|batch(2, ns.d)|list", "ns.d ~ ns.d",
            "namespace(a=ns.d, b=ns.d)", "[ns.d, ns.d]|map('default', 1)|list"]
USING = ["{{ ns.d }}", "{{ ns.d|tojson }}", "{{ ns.d == [ns.d] }}", "{{ {(ns.d,): 1} }}",
         "{{ '%s' % ns.d }}", "{{ '{}'.format(ns.d) }}", "{{ ns.d|string|length }}",
         "{{ [ns.d]|join }}", "{{ [ns.d]|unique|list }}", "{{ [ns.d, ns.d]|sort }}",
         "{{ ns.d|upper }}", "{{ ns.d in [ns.d] }}"]


@pytest.mark.parametrize("use", USING)
@pytest.mark.parametrize("made", BUILDING)
def test_lists_in_lists(made: str, use: str) -> None:
    """A small list whose text would have 2 ** 60 characters, by every way to make and use it."""
    result = outcome(DAG.replace("MADE", made) + use)
    assert isinstance(result, TemplateError) or len(result) < 10_000


HUGE = ["'a' * N", "'a'.ljust(N)", "'a'.zfill(N)", "'a'|center(N)", "'%Nd' % 1", "'%.Nf' % 1.5",
        "'%*d' % (N, 1)", "'%.*f' % (N, 1.5)", "'%Nd'|format(1)", "'{:Nd}'.format(1)",
        "'{:{w}}'.format(1, w=N)", "'{:.Nf}'.format(1.5)", "'a'|indent(N, true)",
        "[1]|batch(N, 1)|list", "[1]|slice(N, 1)|list", "'\\t'.expandtabs(N)",
        "'a'.expandtabs(tabsize=N) * N", "[1]|tojson(indent=N)", "[1, 2] * N", "range(N)|list",
        "2 ** N", "1|round(-N)", "1.5|round(N, 'floor')", "('a' * 9999)|replace('', 'a' * 99999)",
        "('a' * 9999).replace('a', 'a' * 99999)", "('a' * 9999)|join('b' * 99999)",
        "('b' * 99999).join('a' * 9999)", "'aaaa'.translate({97: 'b' * 90000000})",
        "('a ' * 9999)|wordwrap(1, wrapstring='b' * 99999)", "lipsum(n=N)", "cycler(*range(N))",
        "dict(range(N)|batch(2))", "('%s' * 9999) % ('a' * 99999)",
        "('{0}' * 9999).format('a' * 99999)", "[1]|tojson(separators=('a' * 99999999, ''))"]


@pytest.mark.parametrize("expression", HUGE)
def test_balloons(expression: str) -> None:
    """Each way to make a large value of a large number, which stays below none."""
    for n in (10 ** 8, 10 ** 12):
        written = expression.replace("N", str(n))
        result = outcome("{{ (" + written + ")|string|length }}")
        assert isinstance(result, TemplateError), written


SLOW = ["('a' * 1000000).rfind('b' ~ 'a' * 500000)", "('a' * 1000000).rsplit('b' ~ 'a' * 500000)",
        "('a' * 1000000).strip('b' * 500000 ~ 'a')", "('a' * 1000000)|trim('b' * 500000 ~ 'a')",
        "('a' * 1000000)|wordwrap(1)", "range(99999)|map('tojson')|list",
        "range(99999)|select('in', range(99999)|map('string')|list)|list",
        "range(99999)|map('string')|sum(start='')", "([[1]] * 9999)|sum(start=[])"]


@pytest.mark.parametrize("expression", SLOW)
def test_slow_operations(expression: str) -> None:
    loop = "{% for i in range(9) %}{{ (" + expression + ")|length }}{% endfor %}"
    assert isinstance(outcome(loop), TemplateError)


LOOPS = ["{% for a in range(99999) %}{% for b in range(99999) %}BODY{% endfor %}{% endfor %}",
         "{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}",
         "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}BODY{% endmacro %}"
         "{{ f(60) }}",
         "{% macro f() %}BODY{{ f() }}{% endmacro %}{{ f() }}",
         "{% macro f() %}{{ caller() }}{{ caller() }}{% endmacro %}" + "{% call f() %}" * 30
         + "BODY" + "{% endcall %}" * 30,
         "{% for a in [1, 2] recursive %}BODY{{ loop([1, 2]) }}{% endfor %}",
         "{% block a %}BODY{{ self.a() }}{% endblock %}",
         "{% for a in range(99999)|map('string')|select|map('upper') %}{% for b in range(9999) %}"
         "BODY{% endfor %}{% endfor %}"]


@pytest.mark.parametrize("body", ["", "x" * 1000, "{% set x %}y{% endset %}", "{{ messages }}",
                                  "{% if true %}{% set x = 1 + 1 %}{% endif %}"])
@pytest.mark.parametrize("loop", LOOPS)
def test_endless_loops(loop: str, body: str) -> None:
    assert isinstance(outcome(loop.replace("BODY", body)), TemplateError)


@pytest.mark.parametrize("start", ["'<'", "'<'|e", "'ab'", "'ß'|upper"])
@pytest.mark.parametrize("step", [
    "{% set ns.s = ns.s ~ ns.s %}", "{% set ns.s = ns.s + ns.s %}", "{% set ns.s = ns.s * 2 %}",
    "{% set t %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = t %}",
    "{% set ns.s = [ns.s, ns.s]|join %}", "{% set ns.s = ''.join([ns.s, ns.s]) %}",
    "{% set ns.s = '%s%s' % (ns.s, ns.s) %}", "{% set ns.s = '{0}{0}'.format(ns.s) %}",
    "{% set ns.s = ns.s|replace('', ns.s) %}", "{% set ns.s = (ns.s ~ '<')|forceescape ~ ns.s %}",
    "{% set ns.s = [ns.s, ns.s]|tojson %}", "{% set ns.s = (ns.s, ns.s)|string %}",
    "{% autoescape true %}{% set t %}{{ ns.s|string }}{{ ns.s|string }}{% endset %}"
    "{% set ns.s = t %}{% endautoescape %}"])
def test_doubling(start: str, step: str) -> None:
    result = outcome("{% set ns = namespace(s=" + start + ") %}{% for i in range(70) %}" + step
                     + "{% endfor %}{{ ns.s|length }}")
    assert isinstance(result, TemplateError)


@pytest.mark.parametrize("attack", [
    "{{ messages.append(1) }}", "{{ messages.pop() }}", "{{ messages[0].pop('role') }}",
    "{{ [messages][0].append(1) }}", "{% set l = [] %}{% set x = [l] %}{{ l.append(x) }}",
    "{% set l = [] %}{{ l.append(l) }}", "{% set l = [] %}{{ l.append([l]) }}",
    "{% set l = [] %}{% set d = {'l': l} %}{{ l.append(1) }}",
    "{% set l = [] %}{% for i in range(99999) %}{% set x = l.append('a' * 1000) %}{% endfor %}",
    "{% set l = [1] + [] %}{{ l.append(1) }}",
    "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set m = [] %}"
    "{% set _ = m.append(ns.l) %}{% set _ = m.append(ns.l) %}{% set ns.l = m %}{% endfor %}"])
def test_lists_that_may_not_grow(attack: str) -> None:
    messages = [dict(message) for message in MESSAGES]
    with pytest.raises(TemplateError):
        render(attack, messages)
    assert messages == MESSAGES


def test_a_list_of_the_template_grows() -> None:
    """As the template of Kimi K2 has it, which transformers refuses."""
    template = ("{% set ns = namespace(ids=[]) %}{% for m in messages %}"
                "{% set _ = ns.ids.append(m.role) %}{% endfor %}"
                "{{ ns.ids.pop(0) }},{{ ns.ids|length }}{{ ns.ids }}")
    assert render(template, MESSAGES) == "system,2['user', 'assistant']"


@pytest.mark.parametrize("step", [
    "{% set x = {ns.k: 1} %}", "{% set x = {}[ns.k] %}", "{% set x = {}.get(ns.k) %}",
    "{% set x = ns.k == ns.l %}", "{% set x = ns.k in [ns.l] %}",
    "{% set x = loop.changed(ns.k) %}", "{% set x = [ns.k, ns.l]|unique|list %}",
    "{% set x = ns.k < ns.l %}"])
def test_long_keys(step: str) -> None:
    """Python's own operations on a long tuple, again and again, between two looks at the clock."""
    make = "(" + "1, " * 2000 + ")"
    template = ("{% set ns = namespace(k=" + make + ", l=" + make + ") %}{% for i in range(4) %}"
                "{% set ns.k = ns.k + ns.k %}{% set ns.l = ns.l + ns.l %}{% endfor %}"
                "{% for i in range(99999) %}{% for j in range(9) %}" + step
                + "{% endfor %}{% endfor %}")
    assert isinstance(outcome(template), TemplateError)


LARGE: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: "{{ " + "[" * n + "]" * n + " }}",
    "parentheses": lambda n: "{{ " + "(" * n + "1" + ")" * n + " }}",
    "sums": lambda n: "{{ " + "1 + " * n + "1 }}",
    "signs": lambda n: "{{ " + "- " * n + "1 }}",
    "nots": lambda n: "{{ " + "not " * n + "1 }}",
    "attributes": lambda n: "{{ a" + ".b" * n + " }}",
    "filters": lambda n: "{{ a" + "|e" * n + " }}",
    "calls": lambda n: "{{ a" + "()" * n + " }}",
    "powers": lambda n: "{{ " + "9 ** " * n + "9 }}",
    "conditions": lambda n: "{{ " + "1 if 1 else " * n + "1 }}",
    "ifs": lambda n: "{% if a %}" * n + "{% endif %}" * n,
    "fors": lambda n: "{% for a in b %}" * n + "{% endfor %}" * n,
    "elifs": lambda n: "{% if 0 %}" + "{% elif 1 %}x" * n + "{% endif %}",
    "macros": lambda n: "".join(f"{{% macro m{i}(x) %}}{{{{ x }}}}{{% endmacro %}}"
                                for i in range(n)),
    "names": lambda n: "".join(f"{{% set a{i} = 1 %}}{{% if a{i} %}}x{{% endif %}}"
                               for i in range(n)),
    "loops": lambda n: "{% for a in b %}" * 15 + "{{ a }}" * n + "{% endfor %}" * 15,
    "outputs": lambda n: "{{ 'a' ~ b }}" * n,
    "digits": lambda n: "{{ " + "9" * n + " }}",
    "comments": lambda n: "{#" * n,
    "text": lambda n: "x" * 100 * n,
    "blocks": lambda n: "".join(f"{{% block b{i} %}}" for i in range(n)) + "{% endblock %}" * n}


@pytest.mark.parametrize("n", [90, 1500, 60_000])
@pytest.mark.parametrize("kind", LARGE)
def test_large_templates(kind: str, n: int) -> None:
    """Templates that programs make to be slow to compile: they render, or end in an error."""
    outcome(LARGE[kind](n))


def test_deep_stacks_do_not_matter() -> None:
    """A caller with little of Python's stack left, or with a larger one, gets an error as well."""
    attack = "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}"

    def deeper(n: int) -> str | TemplateError:
        return deeper(n - 1) if n else outcome(attack)

    assert isinstance(deeper(sys.getrecursionlimit() - 300), TemplateError)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10 ** 6)
    try:
        for template in (attack, *(make(5000) for make in LARGE.values())):
            outcome(template)
    finally:
        sys.setrecursionlimit(before)


def test_attacks_in_threads() -> None:
    """An attack in one thread leaves renderings in others alone."""
    attack = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    results: list[str | TemplateError] = []

    def run(template: str) -> None:
        try:
            results.append(render(template, MESSAGES))
        except TemplateError as error:
            results.append(error)

    threads = [threading.Thread(target=run, args=(template,))
               for template in [attack, "{{ messages|length }}"] * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r for r in results if isinstance(r, str)] == ["3"] * 3
    assert len(results) == 6


def test_limits_leave_honest_templates_alone() -> None:
    """A conversation of 2,000 messages and one message of a million characters render."""
    seed = random.randrange(1 << 32)
    print(f"seed: {seed}")
    rng = random.Random(seed)
    template = ("{% set ns = namespace(seen=[]) %}{% for m in messages %}"
                "{% set ns.seen = ns.seen + [m.role] %}<{{ m.role }}>"
                "{{ m.content|trim|replace('x', 'yy') }}{% endfor %}")
    many = [{"role": "user", "content": "".join(rng.choices("xyz ßł🌉", k=20))}
            for _ in range(2000)]
    expected = "".join(f"<user>{m['content'].strip().replace('x', 'yy')}" for m in many)
    assert render(template, many) == expected
    long = [{"role": "user", "content": "".join(rng.choices("xyz ß", k=1_000_000)).strip()}]
    assert render(template, long) == "<user>" + long[0]["content"].replace("x", "yy")
