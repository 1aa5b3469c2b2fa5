"""The generator behind every draw: xoshiro256**, seeded through splitmix64.

D. Blackman, S. Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 47 (2021);
G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
``csrc/state.cc`` is the same generator in C++.
"""

from __future__ import annotations

_MASK = 2**64 - 1
"""Cuts numbers off to 64 bits."""


def _rotl(x: int, k: int) -> int:
    return ((x << k) | (x >> (64 - k))) & _MASK


class Xoshiro256:
    """xoshiro256** with its four state words filled by splitmix64 from a 64-bit ``seed``."""

    def __init__(self, seed: int) -> None:
        self._s: list[int] = []
        for _ in range(4):
            seed = (seed + 0x9E3779B97F4A7C15) & _MASK
            z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
            self._s.append(z ^ (z >> 31))

    def next(self) -> int:
        """The next 64 random bits as an unsigned number."""
        s0, s1, s2, s3 = self._s
        result = (_rotl((s1 * 5) & _MASK, 7) * 9) & _MASK
        s2 ^= s0
        s3 ^= s1
        self._s = [s0 ^ s3, s1 ^ s2, s2 ^ (s1 << 17) & _MASK, _rotl(s3, 45)]
        return result
