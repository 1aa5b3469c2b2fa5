"""Reads importance matrices: how much an error in each column of a matrix matters.

An importance matrix holds mean squares of activations, which llama.cpp's llama-imatrix gathers. It
is a GGUF file with ``NAME.in_sum2`` and ``NAME.counts`` for each tensor, or a file of plain records
in an older format.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from unladen.errors import GGUFError, ModelNotFound
from unladen.gguf import GGUFFile, StringArray, TensorInfo, open_gguf
from unladen.paths import problem_of

_SUMS, _COUNTS = ".in_sum2", ".counts"
_MAGIC = b"GGUF"
"""The first bytes of an importance matrix in GGUF; the older format has none."""
_HINT = "make it again with llama-imatrix"
"""Hint for a malformed file."""


@dataclass(frozen=True, slots=True)
class Imatrix:
    """``entries`` maps a tensor's name to f32 [n_matrices * n_cols], all of them finite.

    ``path`` is the path as given. ``dataset`` names the text that the activations come from, and
    ``n_chunks`` is its length in chunks, where the file says so.
    """

    path: str
    entries: Mapping[str, npt.NDArray[np.float32]]
    dataset: str = ""
    n_chunks: int = 0


def read_imatrix(path: str | os.PathLike[str]) -> Imatrix:
    """Read either format; raises :class:`ModelNotFound` where there is no such file and
    :class:`GGUFError` where it is malformed."""
    name = os.fspath(path)
    if problem := problem_of(name):  # opening a pipe would wait for ever
        raise ModelNotFound(f"the importance matrix {name!r} {problem.what}",
                            hint=problem.hint or "check the path")
    try:
        with open(name, "rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise ModelNotFound(f"the importance matrix {name} can't be read: {error.strerror}",
                            hint="check the path") from None
    found = _read_gguf(name) if magic == _MAGIC else _read_records(name)
    if not found.entries:
        raise GGUFError("the importance matrix has no tensors", path=name, hint=_HINT)
    for tensor, values in found.entries.items():
        if not np.isfinite(values).all() or (values < 0).any():
            raise GGUFError(f"the importance of {tensor} holds NaN, infinity or negative numbers",
                            path=name, hint=_HINT)
    return found


def _read_gguf(path: str) -> Imatrix:
    with open_gguf(path) as file:
        entries = {}
        for name, sums in file.tensors.items():
            base = name.removesuffix(_SUMS)
            if base == name:
                continue
            counts = file.tensors.get(base + _COUNTS)
            if counts is None or sums.quant != "F32" or counts.quant != "F32":
                raise GGUFError(f"{base} needs sums and counts, both F32", path=path, hint=_HINT)
            entries[base] = _mean(path, base, sums, counts)
        datasets = file.metadata.get("imatrix.datasets")
        dataset = datasets[0] if isinstance(datasets, StringArray) and len(datasets) else ""
        return Imatrix(path, entries, dataset, _count(file))


def _count(file: GGUFFile) -> int:
    n_chunks = file.metadata.get("imatrix.chunk_count", 0)
    return n_chunks if type(n_chunks) is int and n_chunks >= 0 else 0


def _mean(path: str, name: str, sums: TensorInfo, counts: TensorInfo) -> npt.NDArray[np.float32]:
    """Each matrix's sums divided by its count. The columns of a matrix with count 0 are all equally
    important."""
    n_matrices = counts.n_elements
    if sums.n_elements % n_matrices:
        raise GGUFError(f"{name} has {sums.n_elements} sums for {n_matrices} counts", path=path,
                        hint=_HINT)
    count = np.rint(counts.data.view("<f4")).astype(np.float32)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = sums.data.view("<f4").reshape(n_matrices, -1) / count
    return np.where(count > 0, mean, np.float32(1)).astype(np.float32).reshape(-1)


def _read_records(path: str) -> Imatrix:
    """Read the older format: int32 n; then n times the length and bytes of a name, the number of
    calls, the number of values (int32) and the values (f32), which are sums over calls; then the
    number of chunks, and the length and bytes of the text's name. The last three may be missing.
    """
    data = Path(path).read_bytes()
    at = 0

    def take(n: int) -> bytes:
        nonlocal at
        if n < 0 or n > len(data) - at:
            raise GGUFError(f"{n} bytes should follow, {len(data) - at} do", path=path, offset=at,
                            hint=_HINT)
        at += n
        return data[at - n:at]

    def number() -> int:
        return int(struct.unpack("<i", take(4))[0])

    entries = {}
    for _ in range(number()):
        name = take(number()).decode(errors="replace")
        n_calls, n_values = number(), number()
        values = np.frombuffer(take(4 * n_values if n_values > 0 else -1), "<f4")
        entries[name] = (values / np.float32(n_calls) if n_calls > 0 else values).astype(np.float32)
    n_chunks, dataset = 0, ""
    if at < len(data):
        n_chunks = number()
        if at < len(data):
            dataset = take(number()).decode(errors="replace")
    return Imatrix(path, entries, dataset, max(n_chunks, 0))
