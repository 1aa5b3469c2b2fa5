"""Chooses the files of a repository that make up the model a user asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from unladen.errors import InvalidArgument, ModelNotFound

DEFAULT_QUANT: Final = "Q4_K_M"
"""The quant to take where the user names none."""

_SPLIT: Final = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_QUANT: Final = re.compile(
    r"(?<![A-Z0-9])(?:UD-)?(?:I?Q\d+(?:_[A-Z0-9]+)*|TQ\d_\d|BF16|FP?16|FP?32|MXFP4(?:_MOE)?|NVFP4)"
    r"(?![A-Z0-9_])")
_KINDS: Final = (
    (re.compile("mmproj", re.IGNORECASE), "projector"),
    (re.compile("imatrix", re.IGNORECASE), "imatrix"),
    (re.compile("mtp-|eagle3-|dflash-|dspark-"), "draft"))
"""What a file is if its name has one of these words. The last are parts for guessing ahead, which
don't run alone; in capitals they belong to whole models."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model in a repository: its quant ("" where its name has none) and its files."""

    quant: str
    files: tuple[str, ...]
    missing: tuple[str, ...] = ()


def pick(files: Iterable[str], quant: str | None, *, where: str) -> tuple[str, ...]:
    """The files, in order, of the model with the quant ``quant`` among ``files``; ``where`` names
    the repository in errors.

    None means Q4_K_M, or the only model that is there. ``Q4_K_XL`` also finds ``UD-Q4_K_XL`` where
    no model has exactly this quant. Raises :class:`ModelNotFound` where there is no such model or
    parts of it are missing, :class:`InvalidArgument` where several fit.
    """
    models = candidates(files)
    wanted = DEFAULT_QUANT if quant is None else _normal(quant.upper())
    found = ([m for m in models if m.quant == wanted]
             or [m for m in models if m.quant.removeprefix("UD-") == wanted])
    if not found and quant is None and len(models) == 1:
        found = models
    if not found:
        present = ", ".join(sorted({m.quant or m.files[0] for m in models}))
        raise ModelNotFound(f"{where} has no {wanted}", hint=(
            f"it has: {present}" if present else "it holds no GGUF model; look for one with -GGUF"))
    if len(found) > 1:
        names = ", ".join(m.files[0] for m in found)
        raise InvalidArgument(f"{where} has several models of type {wanted}: {names}",
                              hint="name the file: hf://org/repo/file.gguf")
    if found[0].missing:
        raise ModelNotFound(f"{where} lacks {', '.join(found[0].missing)}",
                            hint="the model is split and this part isn't there")
    return found[0].files


def candidates(files: Iterable[str]) -> list[Candidate]:
    """The models among ``files``. The parts of a split model count as one; projectors, importance
    matrices and parts for guessing ahead are left out."""
    groups: dict[str, set[str]] = {}
    for name in files:
        if is_gguf(name) and kind_of(name) == "model":
            match = _SPLIT.fullmatch(name)
            groups.setdefault(f"{match['stem']}.gguf" if match else name, set()).add(name)
    return [_candidate(base, present) for base, present in sorted(groups.items())]


def is_gguf(name: str) -> bool:
    """Whether a file of this name should be a GGUF file."""
    return name.lower().endswith(".gguf")


def kind_of(name: str) -> str:
    """What the file called ``name`` is, as its name says: "model", "projector", "imatrix", or
    "draft"."""
    base = PurePosixPath(name).name
    return next((kind for pattern, kind in _KINDS if pattern.search(base)), "model")


def parts(name: str) -> tuple[str, ...]:
    """All files of the split model that ``name`` is a part of; only ``name`` if it isn't split."""
    match = _SPLIT.fullmatch(name)
    if match is None:
        return (name,)
    return tuple(f"{match['stem']}-{number:05d}-of-{match['count']}.gguf"
                 for number in range(1, int(match["count"]) + 1))


def _candidate(base: str, present: set[str]) -> Candidate:
    if base in present:  # the whole model in one file; parts beside it don't matter
        return Candidate(quant_of(base), (base,))
    expected = parts(min(present))
    return Candidate(quant_of(base), expected,
                     tuple(name for name in expected if name not in present))


def quant_of(name: str) -> str:
    """The quant named last in a file's name, else in its folder's name; "" where there is none."""
    path = PurePosixPath(name)
    for part in (path.stem, *reversed(path.parts[:-1])):
        if found := _QUANT.findall(part.upper()):
            return _normal(found[-1])
    return ""


def quants_in(name: str) -> frozenset[str]:
    """Every quant that a file's name and those of its folders have."""
    return frozenset(map(_normal, _QUANT.findall(name.upper())))


def _normal(quant: str) -> str:
    return {"FP16": "F16", "FP32": "F32"}.get(quant, quant)
