"""Writes GGUF files, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from unladen.errors import InvalidArgument
from unladen.gguf.byteswap import swapped
from unladen.gguf.encode import encode_value
from unladen.gguf.header import TensorEntry, encode_header
from unladen.gguf.layout import DEFAULT_ALIGNMENT, VERSIONS, ByteOrder, order_char
from unladen.quants import get

_PLAIN: Final = {"f4": "F32", "f2": "F16", "f8": "F64", "i1": "I8", "i2": "I16", "i4": "I32",
                 "i8": "I64"}


class _Tensor(NamedTuple):
    entry: TensorEntry
    array: npt.NDArray[Any]


class GGUFWriter:
    """Collects metadata and tensors, then writes ``path``.

    ``arch`` becomes ``general.architecture``. ``alignment`` (bytes, a power of two) becomes
    ``general.alignment`` unless it is 32, the default. A model of more than ``split_max_tensors``
    tensors is split into parts, named ``path`` with ``-00001-of-00003`` before its suffix; 0 never
    splits. Arrays are kept by reference until :meth:`write`. Values that can't be written raise
    :class:`InvalidArgument`.
    """

    def __init__(self, path: str | os.PathLike[str], arch: str | None = None, *,
                 byteorder: ByteOrder = "little", version: int = 3,
                 alignment: int = DEFAULT_ALIGNMENT, split_max_tensors: int = 0) -> None:
        if version not in VERSIONS:
            raise InvalidArgument(f"version must be one of {VERSIONS}, got {version}")
        if alignment < 1 or alignment.bit_count() != 1:
            raise InvalidArgument(f"alignment must be a power of two, got {alignment}")
        if split_max_tensors < 0:
            raise InvalidArgument(f"split_max_tensors must be at least 0, got {split_max_tensors}",
                                  hint="0 never splits")
        self.path = Path(path)
        self._byteorder = byteorder
        self._order = order_char(byteorder)
        self._version = version
        self._alignment = alignment
        self._split_max_tensors = split_max_tensors
        self._metadata: dict[str, bytes] = {}
        self._tensors: dict[str, _Tensor] = {}
        if arch is not None:
            self.set("general.architecture", arch)
        if alignment != DEFAULT_ALIGNMENT:
            self.set("general.alignment", alignment, "UINT32")

    def set(self, key: str, value: Any, type: str | None = None) -> None:  # noqa: A002
        """Set metadata, once per key.

        ``value`` is a string (or bytes), boolean, number, or an array of one of them: a sequence,
        a NumPy array, or a value that a reader returned. ``type`` names the type of the value or of
        the array's items, such as ``"UINT8"``; ``Metadata.type_of`` returns such names. By default
        integers become UINT32, INT32, UINT64 or INT64, whichever first holds them all, and other
        numbers FLOAT32. The writer sets the keys ``split.*`` itself, its constructor
        ``general.alignment``.
        """
        if key.startswith("split.") or (key == "general.alignment" and value != self._alignment):
            raise InvalidArgument(f"{key} can't be set: the writer sets it",
                                  hint="use GGUFWriter's alignment and split_max_tensors")
        if key in self._metadata:
            raise InvalidArgument(f"the metadata key {key!r} is already set")
        self._metadata[key] = encode_value(key, value, type, self._order)

    def add_tensor(self, name: str, array: npt.NDArray[Any], *, quant: str | None = None,
                   shape: Sequence[int] | None = None) -> None:
        """Add a tensor, given as numbers or as raw bytes.

        Without ``quant``, ``array`` is float16/32/64 or int8/16/32/64 and has the tensor's shape.
        With ``quant``, ``array`` is uint8 of any shape: the little-endian blocks of a tensor of
        ``shape`` (slowest dimension first).
        """
        if name in self._tensors:
            raise InvalidArgument(f"the tensor {name!r} was added already")
        if quant is None:
            plain = _PLAIN.get(array.dtype.str[1:])
            if plain is None or shape is not None:
                raise InvalidArgument(f"{name}: {array.dtype} with shape={shape} needs a quant",
                                      hint="pass quant= and shape= with uint8 blocks")
            tensor = _Tensor(TensorEntry(name, array.shape, plain), array)
        else:
            if shape is None or array.dtype != np.uint8:
                raise InvalidArgument(f"{name}: quant={quant} takes uint8 blocks and a shape, "
                                      f"not {array.dtype} and {shape}")
            tensor = _Tensor(TensorEntry(name, tuple(shape), get(quant).name), array)
        _check(tensor)
        self._tensors[name] = tensor

    def write(self) -> list[Path]:
        """Write the file, or all parts; returns their paths.

        Each is written beside its place and renamed once all are complete, so an error leaves no
        half-written file. A file that is there already is replaced.
        """
        import secrets
        parts = self._parts()
        written: list[tuple[Path, Path]] = []
        try:
            for path, metadata, tensors in parts:
                temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
                written.append((temporary, path))
                with open(temporary, "xb") as file:
                    self._write_part(file, metadata, tensors)
            for temporary, path in written:
                temporary.replace(path)
        finally:
            for temporary, _ in written:
                temporary.unlink(missing_ok=True)
        return [path for _, path in written]

    def _parts(self) -> list[tuple[Path, dict[str, bytes], list[_Tensor]]]:
        tensors = list(self._tensors.values())
        limit = self._split_max_tensors
        if not limit or len(tensors) <= limit:
            return [(self.path, self._metadata, tensors)]
        n_parts = -(-len(tensors) // limit)
        parts = []
        for index in range(n_parts):
            metadata = dict(self._metadata) if index == 0 else {
                k: v for k, v in self._metadata.items() if k == "general.alignment"}
            for key, value, type_name in (("split.no", index, "UINT16"),
                                          ("split.count", n_parts, "UINT16"),
                                          ("split.tensors.count", len(tensors), "INT32")):
                metadata[key] = encode_value(key, value, type_name, self._order)
            path = self.path.with_name(
                f"{self.path.stem}-{index + 1:05d}-of-{n_parts:05d}{self.path.suffix}")
            parts.append((path, metadata, tensors[index * limit:(index + 1) * limit]))
        return parts

    def _write_part(self, file: BinaryIO, metadata: dict[str, bytes], tensors: list[_Tensor]
                    ) -> None:
        header = encode_header(metadata, [t.entry for t in tensors], byteorder=self._byteorder,
                               version=self._version, alignment=self._alignment)
        file.write(header.encoded)
        for t, offset in zip(tensors, header.offsets, strict=True):
            file.write(bytes(offset - file.tell()))
            file.write(self._data(t))
        file.write(bytes(header.nbytes - file.tell()))

    def _data(self, t: _Tensor) -> memoryview:
        array = t.array.astype(t.array.dtype.newbyteorder("<"), order="C", copy=False)
        raw = array.reshape(-1).view(np.uint8)
        return (raw if self._byteorder == "little" else swapped(raw, get(t.entry.quant))).data


def _check(t: _Tensor) -> None:
    t.entry.check()
    if t.array.nbytes != t.entry.nbytes:
        raise InvalidArgument(f"{t.entry.name}: {t.entry.quant} of the shape {t.entry.shape} takes "
                              f"{t.entry.nbytes} bytes, got {t.array.nbytes}")
