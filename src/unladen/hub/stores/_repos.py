"""Models in the form that Hugging Face gives them: files of a repository, some of them split."""

from __future__ import annotations

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from unladen.hub.resolve import DEFAULT_QUANT, candidates, is_gguf, kind_of, quant_of
from unladen.hub.stores._disk import printable, problem_with, size_of
from unladen.hub.stores.base import StoredModel

REPO: Final = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?", re.ASCII)
"""A repository's name, with or without its owner."""


def of_repo(repo: str, files: Mapping[str, Path], *, store: str, revision: str = "",
            digest_of: Callable[[Path], str | None] = lambda path: None) -> Iterator[StoredModel]:
    """The models among ``files``, which are the paths of a repository's files by name, and what
    belongs to them. They get names in :func:`named`."""
    apart = [name for name in files if is_gguf(name) and kind_of(name) != "model"]
    projectors = tuple(files[name] for name in sorted(apart)
                       if kind_of(name) == "projector" and not problem_with(files[name]))
    for model in candidates(files):
        paths = [files[name] for name in model.files if name in files]
        problem = "; ".join(f"{paths[i].name} {what}" if len(paths) > 1 else what
                            for i, what in enumerate(map(problem_with, paths)) if what)
        if model.missing:
            problem = f"lacks {', '.join(PurePosixPath(name).name for name in model.missing)}"
        digests = {path: digest for path in paths if (digest := digest_of(path))}
        yield StoredModel(
            "", paths[0], store, files=tuple(paths), size=sum(map(size_of, paths)),
            quant=model.quant, problem=problem, repo=repo, revision=revision,
            filename=printable(model.files[0]), digests=digests, projectors=projectors)
    for name in sorted(apart):
        path = files[name]
        yield StoredModel("", path, store, files=(path,), size=size_of(path),
                          quant=quant_of(name), kind=kind_of(name), problem=problem_with(path),
                          repo=repo, revision=revision, filename=printable(name))


def named(models: Iterable[StoredModel]) -> list[StoredModel]:
    """``models`` with their names. Those from repositories are org/repo:QUANT; where several models
    of a repository have the same quant, or it isn't known, they have their file's name."""
    found = list(models)
    usable = Counter(_group(m) for m in found if m.is_usable)
    alone = Counter(_group(m)[:3] for m in found if m.is_usable)
    return [m if m.name else _named(m, usable[_group(m)], alone[_group(m)[:3]]) for m in found]


def _group(model: StoredModel) -> tuple[str, str, str, str]:
    return model.store, model.repo, model.revision, model.quant


def _named(model: StoredModel, n_alike: int, n_in_repo: int) -> StoredModel:
    stem = re.sub(r"(-00001-of-\d{5})?\.gguf$", "", model.filename, flags=re.IGNORECASE)
    if not model.repo:
        return dataclasses.replace(model, name=model.filename, names=(*model.names, stem))
    home = f"{model.repo}@{model.revision}" if model.revision else model.repo
    names = [f"{home}/{model.filename}", f"{home}/{stem}"]
    if model.kind == "model" and model.quant and n_alike == int(model.is_usable):
        names.insert(0, f"{home}:{model.quant}")
    if model.is_usable and (n_in_repo == 1 or (model.quant == DEFAULT_QUANT and n_alike == 1)):
        names.append(home)
    if len(PurePosixPath(model.filename).parts) > 1:
        names.append(f"{home}/{PurePosixPath(model.filename).name}")
    return dataclasses.replace(model, name=names[0], names=(*model.names, *names[1:]))


def is_inside(path: Path, root: Path) -> bool:
    """Whether the folder of ``path`` really lies in ``root``; the file itself may be a link."""
    return Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(root))
