"""The types that a model can be quantized to: one format, or a published mix of several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from unladen.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Mix:
    """A type to quantize to. ``file_type`` is the number for ``general.file_type`` (``llama_ftype``
    in llama.cpp's llama.h), ``base`` the format of every matrix that no rule names."""

    name: str
    file_type: int
    base: str


MIXES: Final = {mix.name: mix for mix in (
    Mix("F32", 0, "F32"), Mix("F16", 1, "F16"), Mix("BF16", 32, "BF16"),
    Mix("Q4_0", 2, "Q4_0"), Mix("Q4_1", 3, "Q4_1"), Mix("Q5_0", 8, "Q5_0"),
    Mix("Q5_1", 9, "Q5_1"), Mix("Q8_0", 7, "Q8_0"),
    Mix("Q2_K", 10, "Q2_K"), Mix("Q2_K_S", 21, "Q2_K"),
    Mix("Q3_K_S", 11, "Q3_K"), Mix("Q3_K_M", 12, "Q3_K"), Mix("Q3_K_L", 13, "Q3_K"),
    Mix("Q4_K_S", 14, "Q4_K"), Mix("Q4_K_M", 15, "Q4_K"),
    Mix("Q5_K_S", 16, "Q5_K"), Mix("Q5_K_M", 17, "Q5_K"), Mix("Q6_K", 18, "Q6_K"),
    Mix("IQ4_NL", 25, "IQ4_NL"), Mix("IQ4_XS", 30, "IQ4_XS"), Mix("MXFP4_MOE", 38, "MXFP4"),
)}
"""Every mix by its name."""

ALIASES: Final = {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M", "MXFP4": "MXFP4_MOE"}
"""Other names of mixes, which llama-quantize takes too."""

WRITABLE: Final = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K",
                   "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4")
"""Formats that tensors can be written in."""


def mix(name: str) -> Mix:
    """The mix called ``name``, or the one that the alias ``name`` stands for, in any case; raises
    :class:`InvalidArgument`."""
    upper = name.upper()
    found = MIXES.get(ALIASES.get(upper, upper))
    if found is None:
        raise InvalidArgument(f"a model can't be quantized to {name!r}",
                              hint="possible: " + ", ".join(MIXES))
    return found
