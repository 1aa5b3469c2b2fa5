"""Checks the rules that hold for every file in every language."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import pytest

from house.tree import ROOT, Source, native_sources, python_sources, read

Rule = Callable[[Source], Iterator[str]]
MAX_LINES, MAX_COLUMNS = 500, 100
# The patterns are put together from pieces, so that this file keeps its own rules.
MACHINE_PATH = re.compile("(?<![\\w.~])/(work|opt|home|root|Us" + "ers)/\\w")
LATER = re.compile(r"\b(TO" + "DO|FIX" + r"ME|XX" + r"X)\b(?!\(.+\): \w+)")
NAMED = re.compile(r"(^|[/_])(utils?|helpers?|common|managers?)[_.]")


def texts() -> tuple[Source, ...]:
    """All code, and the files that people read and run beside it."""
    others = [ROOT / name for name in ("Makefile", "CMakeLists.txt", "pyproject.toml", ".ci/run")]
    others += [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")]
    return (*python_sources(), *native_sources(), *map(read, others))


def too_long(source: Source) -> Iterator[str]:
    """Files have at most 500 lines of at most 100 columns."""
    if source.generator or source.path.endswith(".md"):
        return
    if len(source.lines) > MAX_LINES:
        yield f"{len(source.lines)} lines"
    yield from (f"line {i} has {len(line)} columns" for i, line in enumerate(source.lines, 1)
                if len(line) > MAX_COLUMNS)


def put_off(source: Source) -> Iterator[str]:
    """Nothing is left for later without a reason."""
    yield from (f"line {i}: {line.strip()}" for i, line in enumerate(source.lines, 1)
                if LATER.search(line))


def names_a_machine(source: Source) -> Iterator[str]:
    """No paths that only one machine has."""
    yield from (f"line {i}: {line.strip()}" for i, line in enumerate(source.lines, 1)
                if MACHINE_PATH.search(line))


def is_named_vaguely(source: Source) -> Iterator[str]:
    """No file is called utils, helpers, common or manager."""
    if NAMED.search(source.path):
        yield "say what is in it"


RULES: Mapping[Rule, str] = {
    too_long: "x" * 101,
    put_off: "# TO" + "DO: faster",
    names_a_machine: "path = '/ho" + "me/me/model.gguf'",
    is_named_vaguely: "",
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule_is_kept(rule: Rule) -> None:
    found = [f"{source.path}: {what}" for source in texts() for what in rule(source)]
    assert not found, f"{rule.__doc__}\n" + "\n".join(found)


@pytest.mark.parametrize(("rule", "bad"), RULES.items(), ids=[rule.__name__ for rule in RULES])
def test_rule_bites(rule: Rule, bad: str) -> None:
    assert list(rule(Source("src/unladen/str_utils.py", bad)))


def test_generated_files_name_a_tool_that_checks_them() -> None:
    generated = [s for s in (*python_sources(), *native_sources()) if s.generator]
    assert generated
    for source in generated:
        tool = ROOT / str(source.generator)
        assert tool.is_file(), f"{source.path}: there is no {source.generator}"
        assert "--check" in tool.read_text(encoding="utf-8"), f"{tool.name} can't check its output"
