"""The interface of a store of models on this machine, and the models in it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from unladen.hub.preset import Preset
from unladen.hub.stores._disk import printable
from unladen.types import Glance

Look: TypeAlias = Callable[[Path], Glance]
"""Reads a file's header, as :func:`unladen.gguf.glance.glance` does."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model, or what belongs to one, in a store.

    * ``name``: a name that stands for it wherever a model is named; ``names``: further ones.
    * ``path``: the file to open, of a split model the first part; ``files``: all its parts.
    * ``store``: the program that keeps it.
    * ``size``: bytes of all parts.
    * ``quant``: as in "Q4_K_M"; "" where neither name nor header says.
    * ``kind``: "model", "projector", "adapter", "imatrix" or "draft".
    * ``problem``: why it can't be used; "" if it can.
    * ``repo``, ``revision``, ``filename``: its place on Hugging Face, where it comes from there.
    * ``projectors``, ``adapters``: files that belong to it.
    * ``digests``: the SHA-256 of its files, as far as the store knows them.
    * ``record``: the file that describes it to its program.
    """

    name: str
    path: Path
    store: str
    names: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    size: int = 0
    quant: str = ""
    kind: str = "model"
    problem: str = ""
    repo: str = ""
    revision: str = ""
    filename: str = ""
    projectors: tuple[Path, ...] = ()
    adapters: tuple[Path, ...] = ()
    digests: Mapping[Path, str] = field(default_factory=dict)
    record: Path | None = None

    @property
    def is_usable(self) -> bool:
        """Whether it is a model that can be opened."""
        return self.kind == "model" and not self.problem

    @property
    def place(self) -> str:
        """The real path of its file: two names of one file have the same."""
        return os.path.realpath(self.path)

    def facts(self) -> dict[str, Any]:
        """The facts that a list shows, ready for JSON. Bytes that aren't UTF-8 are marked."""
        lists: dict[str, tuple[str | Path, ...]] = {
            "names": self.names, "files": self.files, "projectors": self.projectors,
            "adapters": self.adapters}
        return {"name": printable(self.name), "path": printable(os.fspath(self.path)),
                "size": self.size, "quant": self.quant, "kind": self.kind,
                "problem": printable(self.problem), "store": self.store,
                **{key: [printable(os.fspath(each)) for each in found]
                   for key, found in lists.items()}}


class Store(ABC):
    """The models of one program. Reading a store never writes into it."""

    program: ClassVar[str]
    """The program's name."""
    order: ClassVar[int]
    """Stores with a smaller number come first, in lists and where names are looked for."""
    is_ours: ClassVar[bool] = False
    """Whether unladen downloads into this store, and may remove what is there."""

    @abstractmethod
    def models(self) -> Iterator[StoredModel]:
        """Everything in the store; headers aren't read."""

    @abstractmethod
    def removed_with(self, model: StoredModel) -> list[Path]:
        """The files that go when ``model`` is removed: its own, and those that only it needs.
        Raises :class:`~unladen.errors.UnladenError` where some lie outside of the store."""

    def preset(self, model: StoredModel) -> Preset:
        """The settings of ``model`` beside its weights; an empty one where the store has none.
        Raises :class:`~unladen.errors.UnladenError` where they can't be read."""
        return Preset()
