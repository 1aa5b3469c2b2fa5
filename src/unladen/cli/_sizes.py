"""Writes numbers of bytes for people."""

from __future__ import annotations


def size_text(n_bytes: int) -> str:
    """``n_bytes`` in the largest unit, up to GiB, of which there is at least one."""
    power = min(3, max(0, n_bytes.bit_length() - 1) // 10)
    return f"{n_bytes / 1024 ** power:,.{2 if power else 0}f} {('B', 'KiB', 'MiB', 'GiB')[power]}"
