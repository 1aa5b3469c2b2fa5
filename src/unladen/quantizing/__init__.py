"""Quantization: writes a smaller file from a model's file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from unladen.backends.cpu.features import n_physical_cores
from unladen.errors import InvalidArgument
from unladen.gguf import open_gguf
from unladen.parameters.kinds import (
    Called,
    OrNone,
    PathText,
    Pattern,
    Text,
    Whole,
    flag,
    items,
    reject,
)
from unladen.quantizing.imatrix import Imatrix, read_imatrix
from unladen.quantizing.mixes import MIXES, Mix
from unladen.quantizing.plan import QuantizePlan, Row, Wishes, make_plan
from unladen.quantizing.write import Progress, write_plan

__all__ = ["Imatrix", "MIXES", "Mix", "Progress", "QuantizePlan", "Row", "quantize",
           "read_imatrix"]

_PATH, _FORMAT = PathText(), Text("a format's name", 'for example "Q4_K_M"', filled=True)


def quantize(source: str | os.PathLike[str], target: str | os.PathLike[str],
             type: str = "Q4_K_M", *,  # noqa: A002
             imatrix: str | os.PathLike[str] | None = None,
             output_tensor_type: str | None = None, token_embedding_type: str | None = None,
             tensor_types: Mapping[str, str] | Sequence[tuple[str, str]] = (),
             pure: bool = False, allow_requantize: bool = False, n_threads: int | None = None,
             overwrite: bool = False, dry_run: bool = False, progress: Progress | None = None
             ) -> QuantizePlan:
    """Quantize the GGUF file ``source`` (any part of a split model) to ``type`` and write it to
    ``target``, which appears when it is complete.

    * ``type``: a format, or a mix of several (:data:`MIXES`).
    * ``imatrix``: the path of an importance matrix.
    * ``output_tensor_type``, ``token_embedding_type``: formats for these two tensors.
    * ``tensor_types``: formats for tensors whose names match a regular expression.
    * ``pure``: every matrix gets the type's base format.
    * ``allow_requantize``: accept a source that is quantized already.
    * ``n_threads``: threads; by default one per core.
    * ``overwrite``: replace a file at ``target``.
    * ``progress``: called with a tensor's name, the bytes written and the bytes in all.
    * ``dry_run``: decide everything, write nothing.

    Returns the decisions, tensor by tensor. Raises :class:`InvalidArgument` for arguments that are
    wrong, :class:`UnsupportedQuant` for a format that can't be written, :class:`GGUFError` for
    malformed files and :class:`DiskFull`.
    """
    source, path = _PATH.of("source", source), Path(_PATH.of("target", target))
    type = _FORMAT.of("type", type)  # noqa: A001
    n_threads = OrNone(Whole(1)).of("n_threads", n_threads)
    OrNone(Called("a function of a name and two numbers of bytes")).of("progress", progress)
    overwrite, dry_run = flag("overwrite", overwrite), flag("dry_run", dry_run)
    wishes = Wishes(OrNone(_FORMAT).of("output_tensor_type", output_tensor_type),
                    OrNone(_FORMAT).of("token_embedding_type", token_embedding_type),
                    _pairs(tensor_types), flag("pure", pure),
                    flag("allow_requantize", allow_requantize))
    matrix = OrNone(_PATH).of("imatrix", imatrix)
    weights = None if matrix is None else read_imatrix(matrix)
    with open_gguf(source) as file:
        plan = make_plan(file, type, weights, wishes)
        if not dry_run:
            _check_target(path, file.paths, overwrite)
            write_plan(plan, path, n_threads=n_threads or n_physical_cores(), progress=progress)
    return plan


def _pairs(tensor_types: object) -> list[tuple[str, str]]:
    given = tensor_types.items() if isinstance(tensor_types, Mapping) else tensor_types
    words = "a mapping, or pairs, of a regular expression and a format"
    found: list[tuple[str, str]] = []
    for i, pair in enumerate(items("tensor_types", given, words)):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            reject(f"tensor_types[{i}]", "a pair of a regular expression and a format", pair)
        found.append((Pattern().of(f"tensor_types[{i}][0]", pair[0]),
                      _FORMAT.of(f"tensor_types[{i}][1]", pair[1])))
    return found


def _check_target(target: Path, sources: Sequence[str], overwrite: bool) -> None:
    try:
        if not target.exists():
            return
    except OSError as error:
        raise InvalidArgument(f"target {str(target)!r} can't be written: {error.strerror}",
                              hint="choose another name") from None
    if any(os.path.samefile(target, source) for source in sources):
        raise InvalidArgument(f"{target} is the source itself", hint="choose another name")
    if not overwrite:
        raise InvalidArgument(f"{target} exists already",
                              hint="choose another name, or replace it with --force "
                                   "(overwrite=True)")
    if not target.is_file():
        raise InvalidArgument(f"{target} exists and isn't a file", hint="choose another name")
