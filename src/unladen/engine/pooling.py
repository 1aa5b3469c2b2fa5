"""One embedding of a text from those of its tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import Choice, OrNone

Rows = npt.NDArray[np.float32]

POOLINGS: Mapping[str, Callable[[Rows], Rows]] = MappingProxyType({
    "none": lambda rows: rows,
    "mean": lambda rows: rows.mean(axis=0, dtype=np.float64).astype(np.float32),
    "cls": lambda rows: rows[0],
    "last": lambda rows: rows[-1]})
"""By name, in the order of GGUF's numbers under ``pooling_type``: float32 [n_tokens, n_embd] to
[n_embd], or as it is."""


def pooled(rows: Rows, kind: str, *, normalize: bool) -> Rows:
    """``rows`` float32 [n_tokens, n_embd] made one [n_embd], of length 1 with ``normalize``; with
    "none" as they are."""
    y = POOLINGS[kind](rows)
    if kind == "none" or not normalize:
        return y
    length = float(np.linalg.norm(y.astype(np.float64)))
    return (y / length).astype(np.float32) if length else y


def checked_pooling(wanted: object) -> str | None:
    """``wanted``, one of ``POOLINGS`` or None; raises :class:`InvalidArgument`."""
    found: str | None = OrNone(Choice(*POOLINGS)).of("pooling", wanted)
    return found


def chosen(wanted: str | None, number: int) -> str:
    """``wanted``, or the pooling of this ``number``, a file's ``pooling_type``. Raises
    :class:`InvalidArgument` for the number of a reranker, which scores pairs and embeds nothing, or
    an unknown one."""
    if wanted is not None:
        return wanted
    if number >= len(POOLINGS):
        raise InvalidArgument(f"the file's pooling_type {number} gives no embedding",
                              hint=f"choose a pooling: {', '.join(POOLINGS)}")
    return list(POOLINGS)[number]
