"""Says from a file's header what a list of models shows of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from unladen.errors import GGUFError, UnladenError
from unladen.gguf.file_types import FILE_TYPES
from unladen.gguf.reader import GGUFFile, open_gguf
from unladen.types import Glance

_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {"adapter": "adapter", "mmproj": "projector", "imatrix": "imatrix"})
"""What a file is by its ``general.type``; by default a model."""
_ENCODERS: Final[Mapping[str, str]] = MappingProxyType({"clip": "projector"})
"""What a file is by its ``general.architecture``, where its type doesn't say it."""


def glance(path: str | os.PathLike[str]) -> Glance:
    """What the file at ``path``, or the split model that begins there, is. Reads its header only.
    A file that can't be opened has a ``problem``; nothing is raised for it."""
    try:
        with open_gguf(Path(path)) as file:
            return Glance(_kind(file), _quant(file))
    except UnladenError as error:
        message = error.message
        if isinstance(error, GGUFError):
            message = message.removeprefix(f"{error.path}: ")
        return Glance("model", problem=message)


def _kind(file: GGUFFile) -> str:
    kind = file.metadata.get("general.type")
    if isinstance(kind, str) and kind in _TYPES:
        return _TYPES[kind]
    arch = file.metadata.get("general.architecture")
    return _ENCODERS.get(arch, "model") if isinstance(arch, str) else "model"


def _quant(file: GGUFFile) -> str:
    number = file.metadata.get("general.file_type")
    if isinstance(number, int) and number in FILE_TYPES:
        return FILE_TYPES[number]
    sizes: Counter[str] = Counter()
    for tensor in file.tensors.values():
        sizes[tensor.quant] += tensor.nbytes
    return sizes.most_common(1)[0][0] if sizes else ""
