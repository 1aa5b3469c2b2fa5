"""Which word of a step says what: made from the fields of Batch, for Python and for kernel texts.

The header holds numbers of the step, then for each array of the batch the word where it begins, and
for an array of two dimensions the length of its rows, under its name with ``_cols``. Last come
tiles of attention and the first of the rotations' tables, whose places stand one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from unladen.graph.batch import Batch, arrays_of

NUMBERS = ("n_tokens", "n_outputs", "n_seqs", "n_splits")
"""How large a step is; see :class:`~unladen.backends._gpu.step.Size` for the last one."""


def words_of(batch: type[Batch]) -> Mapping[str, int]:
    """By name, the number of each word of a header for ``batch``."""
    arrays = arrays_of(batch)
    names = (*NUMBERS, *(a.name for a in arrays), *(f"{a.name}_cols" for a in arrays if a.cols),
             "tiles", "rope_tables")
    return MappingProxyType({name: i for i, name in enumerate(names)})


WORDS = words_of(Batch)
"""By name, the number of each word of the header."""
CONSTANTS = MappingProxyType({name.upper(): number for name, number in WORDS.items()})
"""The same as kernel texts call them."""
