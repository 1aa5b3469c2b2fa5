"""Plans a quantization: each tensor's format, the new metadata, the sizes."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from unladen.errors import InvalidArgument, UnsupportedQuant
from unladen.gguf import GGUFFile, HParams, TensorInfo, warn_unmatched
from unladen.gguf.encode import encode_value
from unladen.gguf.header import Header, TensorEntry, encode_header
from unladen.gguf.layout import DEFAULT_ALIGNMENT
from unladen.quantizing.imatrix import Imatrix
from unladen.quantizing.mixes import WRITABLE, Mix, mix
from unladen.quantizing.rules import (
    Rules,
    Traits,
    file_order,
    fitting,
    is_kept,
    is_token_embedding,
    kind_of,
)

log = logging.getLogger("unladen")

_N_NAMED = 3
"""Entries that a warning names at most."""
_PLAIN = ("F32", "F16", "BF16")
"""Formats that count as not quantized."""
_QUANTIZATION_VERSION = 2
"""The number for ``general.quantization_version``: ggml's present one."""
_PATH_BYTES = 127
"""Bytes of a file's name that ``quantize.imatrix.*`` holds, as in llama.cpp."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The user's wishes beside the mix. Formats are given by their names in any case.

    ``tensor_types`` are pairs of a regular expression and a format: the first expression that is
    found in a tensor's name decides.
    """

    output_tensor_type: str | None = None
    token_embedding_type: str | None = None
    tensor_types: Sequence[tuple[str, str]] = ()
    pure: bool = False
    allow_requantize: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One tensor: its source, its new format, and a note for the user."""

    source: TensorInfo
    quant: str
    importance: npt.NDArray[np.float32] | None
    note: str = ""

    @property
    def entry(self) -> TensorEntry:
        """The tensor as it will be in the new file."""
        return TensorEntry(self.source.name, self.source.shape, self.quant)

    @property
    def changes(self) -> bool:
        """Whether its bytes are to be converted, not copied."""
        return self.quant != self.source.quant


@dataclass(frozen=True)
class QuantizePlan:
    """All tensors in the order of the new file, and the header before them."""

    mix: Mix
    rows: Sequence[Row]
    header: Header
    notes: Sequence[str] = field(default=())

    @property
    def source_bytes(self) -> int:
        """Bytes of all tensors in the source."""
        return sum(row.source.nbytes for row in self.rows)

    @property
    def nbytes(self) -> int:
        """Size of the new file in bytes."""
        return self.header.nbytes

    @property
    def bits_per_weight(self) -> float:
        """Average bits per weight in the new file; 0 where there are no weights."""
        n_weights = sum(r.source.n_elements for r in self.rows)
        return 8 * sum(r.entry.nbytes for r in self.rows) / n_weights if n_weights else 0.0


def make_plan(file: GGUFFile, type: str, imatrix: Imatrix | None = None,  # noqa: A002
              wishes: Wishes | None = None) -> QuantizePlan:
    """Decide everything about quantizing ``file`` to the mix ``type``.

    Raises :class:`InvalidArgument` for an unknown mix or format or an invalid expression, for a
    source that is quantized already (without ``allow_requantize``), and where a matrix in
    ``imatrix`` has another shape; :class:`UnsupportedQuant` for formats that can't be written.
    """
    wishes = wishes or Wishes()
    chosen = mix(type)
    chooser = _Chooser(file, chosen, imatrix, wishes)
    _warn_of_idle(file, imatrix, wishes)
    rows = [chooser.row(tensor) for tensor in file_order(list(file.tensors.values()))]
    notes = [f"{row.source.name}: {row.note}" for row in rows if row.note]
    if not rows:
        notes.append(f"{file.path} holds no tensors: only its metadata are copied")
    metadata = _metadata(file, chosen, imatrix)
    header = encode_header(metadata, [row.entry for row in rows],
                           alignment=_alignment(file))
    return QuantizePlan(chosen, rows, header, notes)


def _warn_of_idle(file: GGUFFile, imatrix: Imatrix | None, wishes: Wishes) -> None:
    """Warn of wishes that concern no tensor of ``file``."""
    free = [t.name for t in file.tensors.values() if not is_kept(t)]
    warn_unmatched("tensor_types", [p for p, _ in wishes.tensor_types], free,
                   what="tensor whose type can change")
    strange = sorted(set(imatrix.entries if imatrix else ()) - set(file.tensors))
    if strange and file.tensors:
        log.warning("%d of %d entries of the importance matrix fit no tensor: %s%s", len(strange),
                    len(imatrix.entries) if imatrix else 0, ", ".join(strange[:_N_NAMED]),
                    ", ..." if len(strange) > _N_NAMED else "")


class _Chooser:
    def __init__(self, file: GGUFFile, chosen: Mix, imatrix: Imatrix | None, wishes: Wishes
                 ) -> None:
        self.mix, self.imatrix, self.wishes, self.path = chosen, imatrix, wishes, file.path
        self.output = _writable(wishes.output_tensor_type)
        self.token_embedding = _writable(wishes.token_embedding_type)
        self.patterns = [(_pattern(p), _writable(quant)) for p, quant in wishes.tensor_types]
        kinds = [kind_of(name) for name in file.tensors]
        traits = Traits.of(HParams(file.metadata, path=file.path))
        self.rules = Rules(chosen, traits, sum(k in ("v", "qkv", "kv_b") for k in kinds),
                           "output" not in kinds, imatrix is not None)

    def row(self, tensor: TensorInfo) -> Row:
        wanted = self._wanted(tensor)
        quant = fitting(wanted, tensor.shape[-1])
        note = ""
        if quant != wanted:
            note = f"{quant} in place of {wanted}: its rows of {tensor.shape[-1]} don't divide"
        if quant == tensor.quant:
            return Row(tensor, quant, None, note)
        self._check_source(tensor, quant)
        importance = self._importance(tensor)
        if self.imatrix and importance is None:
            note = "; ".join(filter(None, [note, "not in the importance matrix"]))
        if (importance is None and self.mix.name == "Q2_K_S" and quant == "Q2_K"
                and kind_of(tensor.name) not in ("output", "token_embd")):
            raise InvalidArgument(f"{tensor.name} can't become Q2_K in a {self.mix.name} without "
                                  "an importance matrix",
                                  hint="give --imatrix, or choose Q2_K")
        return Row(tensor, quant, importance, note)

    def _wanted(self, tensor: TensorInfo) -> str:
        if is_kept(tensor):
            return tensor.quant
        kind, named = kind_of(tensor.name), self._named(tensor.name)
        if self.token_embedding and kind == "token_embd" and not (
                named and tensor.name != "token_embd.weight"):
            return self.token_embedding
        if self.output and kind == "output":
            return self.output
        if named:
            return named
        if self.wishes.pure or self.mix.base in _PLAIN:
            return self.mix.base
        chosen = self.rules.choose(tensor)
        if self.output and self.rules.tied and is_token_embedding(tensor.name):
            return self.output
        return chosen

    def _named(self, name: str) -> str | None:
        return next((quant for pattern, quant in self.patterns if pattern.search(name)), None)

    def _check_source(self, tensor: TensorInfo, quant: str) -> None:
        if tensor.quant not in _PLAIN and not self.wishes.allow_requantize:
            raise InvalidArgument(
                f"{self.path} is quantized already: {tensor.name} is {tensor.quant}, and would "
                f"lose more as {quant}",
                hint="start from F16, BF16 or F32, or insist with --allow-requantize")

    def _importance(self, tensor: TensorInfo) -> npt.NDArray[np.float32] | None:
        found = self.imatrix.entries.get(tensor.name) if self.imatrix else None
        n_matrices = tensor.shape[-3] if len(tensor.shape) > 2 else 1
        if found is None or found.size == tensor.shape[-1] * n_matrices:
            return found
        if is_token_embedding(tensor.name):
            return None
        raise InvalidArgument(f"{tensor.name} has {tensor.shape[-1]} columns in {n_matrices} "
                              f"matrices, and {found.size} numbers in the importance matrix",
                              hint="make the importance matrix with this very model")


def _writable(name: str | None) -> str | None:
    if name is None:
        return None
    if name.upper() not in WRITABLE:
        raise UnsupportedQuant(f"tensors can't be written as {name!r}",
                               hint="possible: " + ", ".join(WRITABLE))
    return name.upper()


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidArgument(f"{text!r} isn't a regular expression: {error}",
                              hint=r"for example 'ffn_down|blk\.0\.'") from None


def _alignment(file: GGUFFile) -> int:
    value = file.metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    assert isinstance(value, int)
    return value


def _metadata(file: GGUFFile, chosen: Mix, imatrix: Imatrix | None
              ) -> Mapping[str, bytes | memoryview]:
    """The source's metadata, with the keys that describe the quantization replaced."""
    metadata: dict[str, bytes | memoryview] = {}
    own: dict[str, tuple[object, str]] = {
        "general.quantization_version": (_QUANTIZATION_VERSION, "UINT32"),
        "general.file_type": (chosen.file_type, "UINT32")}
    if imatrix is not None:
        own["quantize.imatrix.file"] = _cut(imatrix.path), "STRING"
        if imatrix.dataset:
            own["quantize.imatrix.dataset"] = _cut(imatrix.dataset), "STRING"
        own["quantize.imatrix.entries_count"] = len(imatrix.entries), "UINT32"
        if imatrix.n_chunks:
            own["quantize.imatrix.chunks_count"] = imatrix.n_chunks, "UINT32"
    for key in file.metadata:
        if key in own or key.startswith(("split.", "quantize.imatrix.")):
            continue
        if file.byteorder == "little":
            metadata[key] = file.metadata.encoded(key).data
        else:
            raw = (file.metadata.raw(key) if file.metadata.type_of(key) == "STRING"
                   else file.metadata[key])
            metadata[key] = encode_value(key, raw, file.metadata.type_of(key), "<")
    for key, (value, type_name) in own.items():
        metadata[key] = encode_value(key, value, type_name, "<")
    return metadata


def _cut(text: str) -> bytes:
    return os.fsencode(text)[:_PATH_BYTES]
