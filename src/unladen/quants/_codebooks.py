"""The codebooks as read-only arrays, each unpacked when it is first used."""

from __future__ import annotations

import binascii
import functools

import numpy as np
import numpy.typing as npt

from unladen.quants import tables

Table = npt.NDArray[np.int8]


@functools.cache
def grid(name: str) -> Table:
    """The grid called ``name`` ("iq2xxs"): int8 [n_entries, 4 or 8]."""
    values: tuple[int, ...] = getattr(tables, f"{name.upper()}_GRID_VALUES")
    raw = binascii.a2b_base64(getattr(tables, f"{name.upper()}_GRID_CODES"))
    n_bits = (len(values) - 1).bit_length()
    bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")
    codes = bits.reshape(-1, n_bits) @ (1 << np.arange(n_bits))
    return _frozen(np.array(values, np.int8)[codes].reshape(-1, 4 if n_bits == 3 else 8))


@functools.cache
def sign_rows() -> Table:
    """int8 [256, 8]: row b holds the signs that the bits of byte b mean, lowest bit first."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return _frozen(1 - 2 * bits.astype(np.int8))


@functools.cache
def even_signs() -> npt.NDArray[np.uint8]:
    """uint8 [128]: a code of seven sign bits, with an eighth that makes the number of minus signs
    even."""
    table = np.array([i | (i.bit_count() & 1) << 7 for i in range(128)], np.uint8)
    table.flags.writeable = False
    return table


@functools.cache
def levels(name: str) -> Table:
    """The 16 values of the 4-bit codebook called ``name`` ("iq4nl", "mxfp4"): int8 [16]."""
    return _frozen(np.array(getattr(tables, f"KVALUES_{name.upper()}"), np.int8))


def entries(name: str, index: npt.NDArray[np.integer], signs: npt.NDArray[np.uint8]) -> Table:
    """Grid entries ``index`` [n, n_entries], their values signed by the bits of ``signs`` [n, 32].

    Returns int8 [n, 256].
    """
    n = len(index)
    values: Table = grid(name)[index].reshape(n, 256)
    values *= sign_rows()[signs].reshape(n, 256)
    return values


def _frozen(table: Table) -> Table:
    table.flags.writeable = False
    return table
