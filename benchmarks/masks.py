"""Measures how long masks of constraints take over a large vocabulary.

    python benchmarks/masks.py VOCABULARY.gguf FOLDER [--each]

FOLDER has ``grammars.json`` (GBNF grammars and regular expressions, each with texts that it
accepts) and ``schemas.json`` (JSON schemas, each with a valid instance). Before each token of these
texts the mask is made: in the first reading of a form's texts, and again in later answers of the
same form. Times are CPU times of the thread, which other programs disturb little. Exit code 1: the
first readings of one kind take more than 0.1 ms a mask on average.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from unladen.api.guided import guide_of
from unladen.errors import UnsupportedSchema
from unladen.gguf import open_gguf
from unladen.sample.constrain.base import Make, n_words
from unladen.sample.constrain.gbnf import Gbnf
from unladen.sample.constrain.guide import Guide
from unladen.sample.constrain.language import Language
from unladen.sample.constrain.regex import Regex
from unladen.sample.constrain.schema import JsonSchema
from unladen.tokenizer import Tokenizer

MOST_MS = 0.1
"""What a mask may take on average."""

Form = tuple[str, str, Callable[[], Language], Sequence[str]]
"""A kind of form, a name, what makes its language, and texts of that."""


def forms(folder: Path) -> Iterator[Form]:
    given = json.loads((folder / "grammars.json").read_text())
    for each in given["grammars"]:
        yield "GBNF", each["id"], lambda each=each: Gbnf(each["gbnf"]), each["accept"]
    for each in given["regexes"]:
        yield "regex", each["id"], lambda each=each: Regex(each["regex"]), each["accept"]
    for each in json.loads((folder / "schemas.json").read_text())["schemas"]:
        yield ("JSON schema", each["id"], lambda each=each: JsonSchema(each["schema"]),
               [json.dumps(each["valid"], ensure_ascii=False)])


def reading(make: Make, guide: Guide, texts: Sequence[str]) -> list[float]:
    """Milliseconds of each mask."""
    out = np.zeros(n_words(len(guide.tokens)), np.uint32)
    found = []
    for text in texts:
        constraint = make()
        for token in [*guide.ids_of(text), guide.ends[0]]:
            out[:] = 0
            start = time.thread_time()
            constraint.mask(out)
            found.append((time.thread_time() - start) * 1e3)
            if not int(out[token // 32]) >> token % 32 & 1:
                break  # another way to write the text: JSON has blanks that the form doesn't allow
            constraint.accept(token)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vocabulary")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--each", action="store_true", help="a line for each grammar and schema")
    args = parser.parse_args()
    guide = guide_of(Tokenizer.from_gguf(open_gguf(args.vocabulary).metadata))
    times: dict[str, tuple[list[float], list[float]]] = {}
    for kind, name, language, texts in forms(args.folder):
        try:
            make = language().make(guide)
        except UnsupportedSchema:
            continue
        first, again = (reading(make, guide, texts) for _ in range(2))
        all_first, all_again = times.setdefault(kind, ([], []))
        all_first += first
        all_again += again
        if args.each:
            print(f"{kind} {name}: {_told(first, again)}")
    print(f"{len(guide.tokens)} tokens; times in ms")
    for kind, (first, again) in times.items():
        print(f"{kind}: {_told(first, again)}")
    return int(any(statistics.mean(first) > MOST_MS for first, _ in times.values()))


def _told(first: Sequence[float], again: Sequence[float]) -> str:
    return "; ".join(f"{label} {statistics.mean(each):.4f} on average, "
                     f"{statistics.median(each):.4f} median, {max(each):.2f} at most"
                     for label, each in ((f"{len(first)} masks: first", first), ("again", again)))


if __name__ == "__main__":
    sys.exit(main())
