"""The files that a model's weights come from: its own file, and those of graphs that are added to
it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from unladen.errors import GGUFError, InvalidArgument
from unladen.gguf import GGUFFile, close_names
from unladen.graph.graph import TensorKey
from unladen.types import MAIN

_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class Sources:
    """Opened ``files`` by their keys. A key means one file for as long as the sources are used, so
    weights that were loaded from it can be taken over.

    Raises :class:`InvalidArgument` where two files have the same key, none has :data:`MAIN`, or a
    key is no plain word.
    """

    def __init__(self, *files: GGUFFile) -> None:
        self._files: dict[str, GGUFFile] = {}
        for file in files:
            if not _KEY.fullmatch(file.key):
                raise InvalidArgument(f"{file.path} can't be called {file.key!r}",
                                      hint="use letters, digits, - and _ for a file's key")
            if file.key in self._files:
                raise InvalidArgument(
                    f"both {self._files[file.key].path} and {file.path} are called {file.key!r}",
                    hint="open one of them with another key")
            self._files[file.key] = file
        if MAIN not in self._files:
            raise InvalidArgument(f"no file is called {MAIN!r}", hint="open the model's own file")

    def data(self, key: TensorKey) -> npt.NDArray[np.uint8]:
        """The bytes of a tensor, a view of its mapped file. Raises :class:`GGUFError` where the
        file lacks the tensor, :class:`InvalidArgument` where there is no such file."""
        file = self._files.get(key.file)
        if file is None:
            raise InvalidArgument(
                f"{key.tensor} is in a file called {key.file!r}, and no such file is open",
                hint="open: " + ", ".join(f"{k} ({f.path})" for k, f in self._files.items()))
        if key.tensor not in file.tensors:
            near = close_names(key.tensor, file.tensors)
            raise GGUFError(f"the tensor {key.tensor} is missing", path=file.path,
                            hint=f"did you mean {' or '.join(near)}?" if near else
                            "the file is incomplete: convert or fetch it again")
        return file.tensors[key.tensor].data

    def names(self) -> list[str]:
        """The names that the files' tensors have as weights of a graph."""
        return [name if key == MAIN else f"{key}:{name}"
                for key, file in self._files.items() for name in file.tensors]

    @property
    def paths(self) -> Mapping[str, str]:
        """The path of each file, the first part's where it is split, by the file's key."""
        return {key: file.path for key, file in self._files.items()}
