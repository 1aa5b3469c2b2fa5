"""Models that ``unladen create`` and ``unladen cp`` make: a record for each, which names the
weights where they are, and holds what a Modelfile says beside them."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from unladen.errors import DiskFull, InvalidArgument, UnladenError
from unladen.hub.failures import FULL
from unladen.hub.included import INCLUDED
from unladen.hub.preset import Preset, messages_in
from unladen.hub.stores._disk import (
    MAX_RECORD,
    entries,
    home_path,
    is_folder,
    json_of,
    problem_with,
    size_of,
)
from unladen.hub.stores._ollama_files import HOST, PARTS, Name
from unladen.hub.stores._repos import is_inside
from unladen.hub.stores.base import Store, StoredModel
from unladen.hub.stores.naming import own_name

VARIABLE: Final = "UNLADEN_MODELS"
"""The environment variable that names the folder of the records."""
PROGRAM: Final = "unladen"
SUFFIX: Final = ".json"
"""Ends the name of a record."""
N_NAME_FOLDERS: Final = 2
"""Folders that the name of a record makes."""
FORMAT: Final = 1
"""The version of records. Others are of a newer unladen."""
_TEXTS: Final = ("template", "system")
_PATHS: Final = ("projectors",)


def folder() -> Path:
    """The folder of the records."""
    if named := os.environ.get(VARIABLE):
        return home_path(named)
    if sys.platform == "win32":
        return home_path(Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local",
                              "unladen", "models"))
    return home_path(Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share", "unladen",
                          "models"))


class Created(Store):
    """A record is ``NAMESPACE/MODEL/TAG.json``."""

    program: ClassVar[str] = PROGRAM
    order: ClassVar[int] = -1
    is_ours: ClassVar[bool] = True

    def models(self) -> Iterator[StoredModel]:
        for name, path in records():
            yield _model(name, path)

    def preset(self, model: StoredModel) -> Preset:
        """See :meth:`Store.preset`. Raises :class:`UnladenError` for a damaged record."""
        record = None if model.record is None else _record_at(model.record)
        if record is None:
            raise UnladenError(f"the record of {model.name} has changed or is damaged",
                               hint="list the models again")
        return Preset(
            template=record.get("template") or "", yields=bool(record.get("yields")),
            system=record.get("system") or "", parameters=record.get("parameters", {}),
            messages=messages_in(model.name, record.get("messages") or ()),
            licenses=record.get("licenses") or ())

    def removed_with(self, model: StoredModel) -> list[Path]:
        if model.record is None or not is_inside(model.record, folder()):
            raise UnladenError(f"{model.name} lies outside of {folder()}",
                               hint="remove it by hand")
        return [model.record]


def records() -> Iterator[tuple[Name, Path]]:
    """The name and the path of every record."""
    root = folder()
    for space in entries(root):
        for model in entries(root / space.name) if is_folder(space) else ():
            for tag in entries(root / space.name / model.name) if is_folder(model) else ():
                parts = (HOST, space.name, model.name, tag.name.removesuffix(SUFFIX))
                if tag.name.endswith(SUFFIX) and all(
                        p.fullmatch(part) for p, part in zip(PARTS, parts, strict=True)):
                    yield Name(*parts), root.joinpath(*parts[1:-1], tag.name)


def created(text: str) -> StoredModel | None:
    """The created model called ``text``, in any case; None: there is none."""
    wanted = own_name(text)
    if wanted is None:
        return None
    same = [(name, path) for name, path in records()
            if name.short.casefold() == wanted.short.casefold()]
    exact = [each for each in same if each[0] == wanted]
    return next((_model(*each) for each in exact or same), None)


def made_of(place: str) -> list[str]:
    """Names of created models whose weights are the file at the real path ``place``."""
    models = (_model(name, path) for name, path in records())
    return [m.name for m in models if place in map(os.path.realpath, m.files)]


def write(name: Name, record: Mapping[str, Any]) -> Path:
    """Write ``record`` under ``name``, whole or not at all, in place of one that is there. Returns
    its path. Raises :class:`DiskFull`, :class:`UnladenError`, and :class:`InvalidArgument` for one
    that is too large."""
    there = next((path for other, path in records()
                  if other.short.casefold() == name.short.casefold()), None)
    path = there or folder() / name.namespace / name.model / f"{name.tag}{SUFFIX}"
    part = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps({"format": FORMAT, **record}, indent=1)
    if len(text) > MAX_RECORD:
        raise InvalidArgument(f"the settings of {name.short} have {len(text)} bytes, and "
                              f"{MAX_RECORD} are the most", hint="shorten its texts")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        kind = DiskFull if error.errno in FULL else UnladenError
        raise kind(f"{path} can't be written: {error.strerror}", hint=(
            f"make room there, or set {VARIABLE} to a folder elsewhere")) from error
    return path


def _record_at(path: Path) -> Mapping[str, Any] | None:
    """The record at ``path``; None where it isn't one."""
    found = json_of(path)
    is_record = isinstance(found, dict) and found.get("format") == FORMAT and (
        _are_texts(found.get("files")) and bool(found["files"])
        and all(found.get(key) is None or isinstance(found[key], str) for key in _TEXTS)
        and all(found.get(key) is None or _are_texts(found[key]) for key in _PATHS)
        and isinstance(found.get("parameters", {}), dict)
        and isinstance(found.get("digests", {}), dict)
        and (found.get("licenses") is None or _are_texts(found["licenses"]))
        and isinstance(found.get("messages") or [], list))
    return found if is_record else None


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _model(name: Name, path: Path) -> StoredModel:
    plain = tuple(other for other in name.others if HOST not in other)
    model = StoredModel(name.short, path, PROGRAM, names=plain, record=path)
    record = _record_at(path)
    if record is None:
        return dataclasses.replace(model, problem="has a record that isn't one")
    files = tuple(INCLUDED.get(each) or Path(each) for each in record["files"]
                  if "\0" not in each)
    if not files:
        return dataclasses.replace(model, problem="has a record that isn't one")
    problem = next((f"is made of {each}, which {what}" for each in files
                    if (what := problem_with(each))), "")
    digests = {file: digest for file in files
               if isinstance(digest := record.get("digests", {}).get(os.fspath(file)), str)}
    quant = record.get("quant", "")
    return dataclasses.replace(
        model, path=files[0], files=files, size=sum(map(size_of, files)), problem=problem,
        quant=quant if isinstance(quant, str) else "", digests=digests,
        projectors=tuple(Path(each) for each in record.get("projectors") or () if "\0" not in each))
