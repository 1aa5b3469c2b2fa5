"""Makes one embedding of a text from the embeddings of its tokens."""

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
"""Functions by the name of the pooling: float32 [n_tokens, n_embd], a row for each token, to
[n_embd]; "none" keeps the rows. In the order of GGUF's numbers for ``pooling_type``."""


def pooled(rows: Rows, kind: str, *, normalize: bool) -> Rows:
    """The embedding float32 [n_embd] of a text whose tokens have ``rows`` float32 [n_tokens,
    n_embd]. With ``normalize`` its length is 1. The kind "none" returns ``rows`` unchanged."""
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
    """``wanted``, or where that is None the pooling with the ``number`` that the file has under
    ``pooling_type``. Raises :class:`InvalidArgument` for an unknown number, and for that of a
    reranker, which scores pairs of texts and makes no embedding."""
    if wanted is not None:
        return wanted
    if number >= len(POOLINGS):
        raise InvalidArgument(f"the file's pooling_type {number} gives no embedding",
                              hint=f"choose a pooling: {', '.join(POOLINGS)}")
    return list(POOLINGS)[number]
