"""The meaning of each word in a step's header, made from the fields of Batch.

The header holds the numbers of the step. Then it has, for each array of the batch, the word where
the array begins, and for an array of two dimensions also the length of its rows, as its name with
``_cols``. Last come the places of the tiles of attention and of RoPE's tables, one for each table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from unladen.graph.batch import Batch, arrays_of

NUMBERS = ("n_tokens", "n_outputs", "n_seqs", "n_splits")
"""The numbers at the header's begin; ``n_splits`` is that of
:class:`~unladen.backends._gpu.step.Size`."""


def words_of(batch: type[Batch]) -> Mapping[str, int]:
    """The number of each word, by name, of a header for ``batch``."""
    arrays = arrays_of(batch)
    names = (*NUMBERS, *(a.name for a in arrays), *(f"{a.name}_cols" for a in arrays if a.cols),
             "tiles", "rope_tables")
    return MappingProxyType({name: i for i, name in enumerate(names)})


WORDS = words_of(Batch)
"""The number of each word of the header, by name."""
CONSTANTS = MappingProxyType({name.upper(): number for name, number in WORDS.items()})
"""The same numbers under the names that kernel texts use."""
