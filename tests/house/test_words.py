"""Words that were retired stay away, and no sentence of a comment begins with a riddle.

A word has one meaning in the whole tree. A word that had several, or that no reader could guess, is
in the table RETIRED with the words that stand for it.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from house.tree import ROOT, Source, read

BINARY = {".gguf", ".npz", ".png"}
"""Suffixes of tracked files that aren't text."""


class Retired(NamedTuple):
    """A retired word: ``instead`` says what stands for it, ``example`` is a line that has it."""

    instead: str
    example: str


RETIRED: Mapping[str, Retired] = {
    r"\bmake_draft\b": Retired("blueprint_for(model)", "plan = make_draft(model)"),
    r"\bdrafted\(|(?<![.\w])draft\(\)": Retired(
        "make_blueprint(), blueprint_of(choice): a draft is a list of guessed tokens",
        "paper = drafted(choice)"),
    r"\b(class|import|->) Draft\b": Retired("Blueprint", "class Draft:"),
    r"\bmix_streams\b|\bMixStreams\b": Retired("hyper_mix, HyperMix", 'g.one("mix_streams", x)'),
    r"\bStreamWeights\b": Retired("HyperWeights", "class StreamWeights(Op):"),
    r"\bStreamsDecoder\b|_parts[./]streams\b": Retired(
        "HyperDecoder in _parts/hyper.py: a stream is text as it comes",
        "class Model(StreamsDecoder):"),
    r"\bSELDOM\b": Retired("CHECK_INTERVAL: a constant's name says what it is for", "SELDOM = 4"),
    r"\bstruct Further\b|\bFurther [&a-z]": Retired("PrefetchTarget", "struct Further {"),
    r"\bisa/linear_|\blinear_(few|low|across|wide|drive)": Retired(
        "the headers in isa/formats, isa/products, isa/screening and isa/activations",
        '#include "backends/cpu/csrc/isa/linear_few.h"'),
    r"two_avx2\b": Retired("nibble_pairs_avx2", '#include "linear_two_avx2.h"'),
    r"\bmake(s)? no sense\b": Retired(
        "an error that says what must hold: NAME must be at least 1, got 0",
        'raise InvalidArgument("n_draft=0 makes no sense")'),
    r"\bstruct Manner\b|\bManner [&a-z]": Retired("ReadHints", "struct Manner {"),
    r"\bPackedStrings\b": Retired("BufferedStrings: packed weights are a file's",
                                  "strings: PackedStrings"),
    r"\b(self|model)\.packed\(": Retired("stacked(): several matrices in one",
                                         "q, k, v = self.packed(g, x)"),
    r"\b(class|import) Options\b": Retired("BackendOptions, LoadOptions",
                                           "from unladen.backends.base import Options"),
    r"(?<!cache/)\bunladen[./](mapped|packed|setup|ladder|planner|contents|evaluation|benchmark"
    r"|pooling)\b": (
        Retired("the module in its room: storage, assembly, measure or engine",
                "from unladen.mapped import map_file")),
    r"\bschedule[./](plan|loading|carry|saved|weights|draft|auto|stream|narrow|probe|pretend)\b": (
        Retired("the module in runtime/, or in a folder of schedule/",
                "from unladen.schedule.plan import Plan")),
}
"""What is retired, as a regular expression, and what stands for it."""

RIDDLE = re.compile(
    r"(?:^|[.!?]\s+|\n\s*\n\s*)((?:Of(?! course\b)|Who|Whose|Whom|Whoever|So many)\b[^.!?]{0,60})")
"""A sentence that keeps its subject for later."""


@functools.cache
def texts() -> tuple[Source, ...]:
    """Every tracked text file, except those that list retired words."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout: git lists no files")
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    # What others wrote: the built page. Its sources in web/ are read.
    built = ROOT / "src" / "unladen" / "ui"
    told = {Path(__file__), ROOT / "CONTRIBUTING.md"}  # these two say what is retired
    return tuple(read(path) for path in paths
                 if path.is_file() and path.suffix not in BINARY and path not in told
                 and built not in path.parents)


def found(pattern: str, source: Source) -> Iterator[str]:
    """Where ``pattern`` is in ``source``, its path included."""
    if re.search(pattern, source.path):
        yield f"{source.path}: its name"
    for i, line in enumerate(source.lines, 1):
        if re.search(pattern, line):
            yield f"{source.path}:{i}: {line.strip()}"


@pytest.mark.parametrize("pattern", RETIRED)
def test_a_retired_word_stays_away(pattern: str) -> None:
    places = [place for source in texts() for place in found(pattern, source)]
    assert not places, f"write {RETIRED[pattern].instead}:\n" + "\n".join(places)


@pytest.mark.parametrize("pattern", RETIRED)
def test_a_retired_word_is_noticed(pattern: str) -> None:
    assert list(found(pattern, Source("src/unladen/new.py", RETIRED[pattern].example)))


def comments(source: Source) -> Iterator[tuple[int, str]]:
    """(first line, text) of every comment and docstring; lines of comments below one another are
    one text."""
    if source.path.endswith(".py"):
        yield from _docstrings(source)
        yield from _joined(_hashes(source))
    else:
        marked = ((i, re.match(r"(?:[^\"]*?)//+\s?(.*)", line))
                  for i, line in enumerate(source.lines, 1))
        yield from _joined((i, match[1]) for i, match in marked if match)


def _docstrings(source: Source) -> Iterator[tuple[int, str]]:
    for node in ast.walk(source.tree):
        if (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)):
            yield node.lineno, node.value.value


def _hashes(source: Source) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def _joined(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    first, last, text = 0, -1, ""
    for i, line in lines:
        if i == last + 1:
            text += f"\n{line}"
        else:
            if text:
                yield first, text
            first, text = i, line
        last = i
    if text:
        yield first, text


def riddles(source: Source) -> Iterator[str]:
    """Sentences of comments that begin with a riddle."""
    for line, text in comments(source):
        for match in RIDDLE.finditer(text):
            yield f"{source.path}:{line}: {' '.join(match[1].split())}"


def code() -> Iterator[Source]:
    """Every tracked file whose comments this can read."""
    return (s for s in texts() if s.path.endswith((".py", ".cc", ".h", ".inc", ".wgsl")))


def test_no_sentence_begins_with_a_riddle() -> None:
    places = [place for source in code() for place in riddles(source)]
    assert not places, "say who does what, in that order:\n" + "\n".join(places)


@pytest.mark.parametrize(("path", "text", "n"), [
    ("a.py", '"""Of a block only half is read."""', 1),
    ("a.py", 'N = 3\n"""So many names are shown. Whoever wants more asks."""', 2),
    ("a.py", "x = 1  # Whose turn it is", 1),
    ("a.py", '# Runs now. Who\n# waits is told.\n"""Of course it is."""', 1),
    ("a.h", "int n;  // Of so many columns", 1),
    ("a.wgsl", "// Rows go in.\n// Of each, one sum comes out.", 1),
    ("a.cc", 'f("http://a");\n// Most of the time is spent here: of these, the first counts.', 0),
    ("a.py", '"""The size of a file. Whole rows only, officially."""', 0)])
def test_a_riddle_is_noticed(path: str, text: str, n: int) -> None:
    assert len(list(riddles(Source(path, text)))) == n
