"""Markdown that comes in pieces: the screen ends up as if it had come at once."""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Sequence

import pyte
import pytest

from unladen.cli._talk.blocks import Block, Blocks, CodeLine, FenceClosed, FenceOpened
from unladen.cli._talk.live import LastRows
from unladen.cli._talk.markdown import MarkdownRows, MarkdownStream

TEXT = '''# A heading

Some *text* with **bold**, `code` and a [link](http://example.com/a).
Roses are red
Violets are blue, and this line is a lot longer than the terminal is wide, so it is wrapped.

## Numbers
1. one
2. two **bold**
   - nested a
   - nested b
3. three

- x

  with a paragraph

- z
```python
def f(x):
    """doc

    more"""
    return x * 2  # a comment that is so long that it doesn't fit into one row of the terminal


print(f(3))
```
After the fence <b>html</b> & 2 * 3 * 4 and snake_case_name, *args and **kwargs.

| a | b |
|---|--:|
| 1 | 22 |
| long cell | 3 |

> quote
> more quote

~~~~
~~~
no language
~~~~

A wide one: \u65e5\u672c\u8a9e, and an emoji \U0001f600.

```c
int unclosed;
'''


class Seen:
    """A terminal that notes which rows above the screen change: none may."""

    def __init__(self, columns: int, lines: int) -> None:
        self.screen = pyte.HistoryScreen(columns, lines, history=10_000, ratio=0.5)
        self._stream = pyte.Stream(self.screen)
        self.columns, self.lines = columns, lines
        self.sent: list[str] = []

    def write(self, text: str) -> None:
        self.sent.append(text)
        self._stream.feed(text.replace("\n", "\r\n"))

    def rows(self) -> list[str]:
        above = ["".join(row[x].data for x in range(self.columns)).rstrip()
                 for row in self.screen.history.top]
        return [*above, *(row.rstrip() for row in self.screen.display)]

    def text(self) -> str:
        return "\n".join(self.rows()).rstrip()


def shown(pieces: Sequence[str], columns: int = 70, lines: int = 24) -> Seen:
    """The terminal on which ``pieces`` were shown one after the other."""
    seen = Seen(columns, lines)
    stream = MarkdownStream(MarkdownRows("standard"),
                            LastRows(seen.write, lambda: (seen.columns, seen.lines)),
                            lambda: seen.columns)
    for piece in pieces:
        stream.feed(piece)
        stream.draw()
    stream.end()
    return seen


def cut(text: str, rng: random.Random) -> list[str]:
    pieces, at = [], 0
    while at < len(text):
        n = rng.choice([1, 2, 3, 8, 30])
        pieces.append(text[at:at + n])
        at += n
    return pieces


@pytest.mark.parametrize(("columns", "lines"), [(70, 24), (70, 5), (24, 10)])
def test_pieces_make_the_same_screen(columns: int, lines: int) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    whole = shown([TEXT], columns, lines).text()
    for _ in range(3):
        assert shown(cut(TEXT, rng), columns, lines).text() == whole


def test_nothing_is_lost() -> None:
    """Every word of the text is there, in order, whatever the markup."""
    text = shown([TEXT], 200).text()
    at = 0
    for word in ("A heading", "Some text", "bold", "code", "link (http://example.com/a)",
                 "Roses are red", "Violets", "one", "two", "nested a", "with a paragraph",
                 "def f(x)", "more", "print(f(3))", "<b>html</b> & 2 * 3 * 4", "snake_case_name",
                 "*args and **kwargs", "long cell", "quote", "~~~\nno language", "\u65e5",
                 "int unclosed;"):
        assert word in text[at:], word
        at = text.index(word, at)


def test_line_breaks_stay() -> None:
    assert "Roses are red\nViolets" in shown([TEXT]).text()


def test_code_is_as_it_was_written() -> None:
    """Lines of code have nothing before them, so they can be copied."""
    rows = shown([TEXT]).rows()
    at = rows.index("def f(x):")
    assert rows[at - 1:at + 5] == ["```python", "def f(x):", '    """doc', "", '    more"""',
                                   "    return x * 2  # a comment that is so long that it "
                                   "doesn't fit"]


def test_a_long_answer_is_written_once() -> None:
    """A block that is complete isn't written again, though the answer is longer than the screen."""
    items = [f"- item {i}\n" for i in range(100)]
    code = ["```\n", *(f"line {i}\n" for i in range(100)), "```\n"]
    seen = shown([*items, "\n", *code], lines=8)
    sent = "".join(seen.sent)
    for i in range(100):
        assert len(re.findall(rf"line {i}\b", sent)) == 1
        assert len(re.findall(rf"item {i}\b", sent)) <= 3  # shown, shown beside the next, kept
    text = seen.text()
    assert [f"line {i}" for i in range(100)] == [
        row for row in text.split("\n") if row.startswith("line")]
    assert text.count("item 42") == text.count("line 42") == 1


def test_a_paragraph_longer_than_the_screen() -> None:
    words = [f"word{i} " for i in range(300)]
    seen = shown(["Before.\n\n", *words, "\n\nAfter."], 40, 6)
    assert seen.text().split() == ["Before.", *(w.strip() for w in words), "After."]


def test_a_resize_takes_nothing_back() -> None:
    """After a change of the width no row above the cursor's is touched."""
    seen = Seen(60, 10)
    stream = MarkdownStream(MarkdownRows(None), LastRows(
        seen.write, lambda: (seen.columns, seen.lines)), lambda: seen.columns)
    stream.feed("First paragraph.\n\n" + "some words in the second one " * 5)
    stream.draw()
    seen.columns = 30
    seen.screen.resize(10, 30)
    stream.feed("and more.\n\nThe last one.")
    stream.draw()
    stream.end()
    text = seen.text()
    assert "First paragraph." in text and "The last one." in text
    assert "and more." in text
    assert all(len(row) <= 30 for row in text.split("\n"))


def test_blocks_are_final() -> None:
    """What was given out before the end is the beginning of what there is at the end."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    whole = Blocks()
    expected = [*whole.feed(TEXT), *whole.end()]
    blocks, found = Blocks(), []
    for piece in cut(TEXT, rng):
        found += blocks.feed(piece)
    assert found == expected[:len(found)]
    assert [*found, *blocks.end()] == expected


def test_a_fence_is_given_out_line_by_line() -> None:
    blocks = Blocks()
    assert blocks.feed("Text\n```py") == [Block("Text")]
    assert blocks.feed("\nx = 1\ny") == [FenceOpened("```py", "py", False), CodeLine("x = 1")]
    assert blocks.rest == CodeLine("y")
    assert blocks.feed(" = 2\n```\n") == [CodeLine("y = 2"), FenceClosed("```")]
    assert blocks.rest is None and blocks.end() == []


MARKS = ["\n", "\n\n", " ", "*", "_", "`", "#", "- ", "1. ", "> ", "a", "bc", "\t", "    ", "---",
         "<x>", "&lt;", "\\"]
HIDING = ["```", "~~~", "| ", "[bc]: x"]
"""Marks that hide text: what is behind a fence, cells that a table has no column for."""


@pytest.mark.parametrize("hides", [False, True])
def test_strange_text_is_only_text(hides: bool) -> None:
    """Random marks raise nothing, and words aren't lost."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(40):
        text = "".join(rng.choice([*MARKS, *(HIDING if hides else [])]) for _ in range(60))
        seen = shown(cut(text, rng), 300, 100)
        assert hides or seen.text().count("bc") == text.count("bc"), text
