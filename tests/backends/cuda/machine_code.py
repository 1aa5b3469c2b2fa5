"""Instructions of chips of 9.0 in a cubin: which one comes after which, by their numbers."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MULTIPLY, LOAD, COPY, TRIES_PHASE, EXIT = 0xdf0, 0x981, 0x3ba, 0x5a7, 0x94d
"""HGMMA, LDG, UBLKCP, SYNCS.PHASECHK and EXIT: the twelve lowest bits of an instruction's 128."""
WARPGROUP = 0x9c5
"""WARPGROUP.ARRIVE or, where bit 47 is set, WARPGROUP.DEPBAR.LE, with a number from bit 72 on."""
INSTRUCTION = struct.Struct("<QQ")


@dataclass(frozen=True)
class Instruction:
    """``left``: how many groups of products a wait leaves under way; -1: it is no wait."""

    number: int
    left: int


@dataclass(frozen=True)
class Turn:
    """What follows a group of products, up to the next wait for columns.

    * ``before``: instructions between the last product and the wait for products.
    * ``left``: how many groups this wait leaves under way.
    * ``after``: the instructions after it.
    """

    before: int
    left: int
    after: Sequence[Instruction]

    @property
    def loads(self) -> list[int]:
        """The places of loads among those after the wait."""
        return [i for i, each in enumerate(self.after) if each.number == LOAD]


def instructions(cubin: bytes) -> list[Instruction]:
    """Those of the one kernel of ``cubin``, an ELF file, in the order of their addresses."""
    (start,) = struct.unpack_from("<Q", cubin, 40)
    size, n, names = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQ", cubin, start + i * size) for i in range(n)]
    text = headers[names][4]
    found = [(at, n_bytes) for name, _, _, _, at, n_bytes in headers
             if cubin.startswith(b".text.", text + name)]
    ((at, n_bytes),) = found
    return [Instruction(low & 0xfff, high >> 8 & 0xff if _is_wait(low) else -1)
            for low, high in INSTRUCTION.iter_unpack(cubin[at:at + n_bytes])]


def _is_wait(low: int) -> bool:
    return low & 0xfff == WARPGROUP and bool(low >> 47 & 1)


def turns(code: Sequence[Instruction]) -> Iterator[Turn]:
    """The turns of ``code``."""
    for i, each in enumerate(code):
        if each.number != MULTIPLY:
            continue
        following = code[i + 1:]
        wait = next(k for k, other in enumerate(following)
                    if other.left >= 0 or other.number == MULTIPLY)
        if following[wait].left >= 0:
            end = next(k for k, other in enumerate(following)
                       if k > wait and (other.left >= 0 or other.number in (TRIES_PHASE, EXIT)))
            yield Turn(wait, following[wait].left, following[wait + 1:end])
