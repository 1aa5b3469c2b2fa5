"""Gaps between the arrays of a step, so that no array ends where the next one begins."""

from __future__ import annotations

import numpy as np

from unladen.backends._gpu.step import Step, Words
from unladen.backends._gpu.target import Bytes
from unladen.graph.batch import arrays_of

GAP = 64
"""Words between two arrays."""
NOTHING = -0x5a5a5a5b
"""What the words of gaps hold."""


def with_gaps(step: Step, words: Words) -> tuple[Words, Bytes]:
    """The words of the step with a gap before each array, and for each of them whether it is part
    of the header or of an array. Arrays that the batch doesn't have begin beyond the end."""
    batch, header = step.batch, step.header
    arrays = arrays_of(type(batch))
    first_table = header["rope_tables"]
    places = [header[a.name] for a in arrays if a.whole(batch).size]
    places += [header["tiles"], *range(first_table, first_table + len(step.tables))]
    starts = sorted({int(words[place]) for place in places})
    spread = np.full(len(words) + GAP * len(starts), NOTHING, np.int32)
    there = np.zeros(len(spread), np.uint8)
    moved = {}
    for i, (start, end) in enumerate(zip([0, *starts], [*starts, len(words)], strict=True)):
        at = start + GAP * i
        moved[start] = at
        spread[at:at + end - start] = words[start:end]
        there[at:at + end - start] = 1
    for a in arrays:
        spread[header[a.name]] = len(spread)
    for place in places:
        spread[place] = moved[int(words[place])]
    return spread, there
