"""Looks up weights in the tensor table and checks the shape of each."""

from __future__ import annotations

import logging
import re
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unladen.errors import GGUFError
from unladen.gguf import GGUFFile
from unladen.graph.graph import Weight
from unladen.models._parts.blocks import is_spare
from unladen.quants import dequantize

log = logging.getLogger("unladen")

N_NAMED = 3
"""Tensors that a message names at most."""


class Tensors:
    """Weights by GGUF's names. It records which were asked for, to report the unused ones."""

    def __init__(self, file: GGUFFile) -> None:
        self._file = file
        self._used: set[str] = set()
        self._has_reported = False

    def __contains__(self, name: str) -> bool:
        return name in self._file.tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of ``name``, slowest dimension first; raises :class:`GGUFError`."""
        if name not in self._file.tensors:
            raise GGUFError(f"the tensor {name} is missing", path=str(self._file.path),
                            hint=self._why_missing(name))
        return self._file.tensors[name].shape

    def _why_missing(self, name: str) -> str:
        block = re.match(r"blk\.\d+\.", name)
        beside = [n for n in self._file.tensors if block and n.startswith(block[0])]
        if not beside:
            return "the file is incomplete: convert or fetch it again"
        more = ", ..." if len(beside) > N_NAMED else ""
        return (f"the file is incomplete, or its metadata describe another kind of layer than it "
                f"has ({', '.join(beside[:N_NAMED])}{more}): convert or fetch it again")

    def weight(self, name: str, *shape: int) -> Weight:
        """The weight ``name``, which must have ``shape``; raises :class:`GGUFError`."""
        found = self.shape(name)
        info = self._file.tensors[name]
        if found != shape:
            raise GGUFError(f"the tensor {name} has the shape {list(found)}, not {list(shape)}",
                            path=str(self._file.path), offset=info.offset,
                            hint="metadata and tensors disagree: convert or fetch the file again")
        self._used.add(name)
        return Weight(name, found, info.quant, file=self._file.key)

    def optional(self, name: str, *shape: int) -> Weight | None:
        """:meth:`weight`, or None where the file has no such tensor."""
        return self.weight(name, *shape) if name in self else None

    def refuse(self, name: str, key: str) -> None:
        """Raise :class:`GGUFError` where the file has ``name`` although ``key`` says that it
        doesn't."""
        if name in self:
            raise GGUFError(f"{key} says that there is no {name}, but the file has it",
                            path=str(self._file.path), offset=self._file.tensors[name].offset,
                            hint="metadata and tensors disagree: convert or fetch the file again")

    def stacked(self, name: str, *shape: int) -> Weight:
        """:meth:`weight`, but the file may leave out a first dimension of 1."""
        if shape[0] == 1 and self.shape(name) == shape[1:]:
            return replace(self.weight(name, *shape[1:]), shape=shape)
        return self.weight(name, *shape)

    def grouped(self, name: str, *shape: int) -> Weight:
        """:meth:`weight`, but the file may join the first two dimensions."""
        if self.shape(name) == (shape[0] * shape[1], *shape[2:]):
            return replace(self.weight(name, shape[0] * shape[1], *shape[2:]), shape=shape)
        return self.weight(name, *shape)

    def vector(self, name: str, n: int) -> Weight:
        """The vector ``name`` [n] as a matrix of one column."""
        return replace(self.weight(name, n), shape=(n, 1))

    def values(self, name: str, *shape: int) -> npt.NDArray[np.float32] | None:
        """The numbers of a small tensor (rope factors), or None where the file has none."""
        weight = self.optional(name, *shape)
        if weight is None:
            return None
        return dequantize(weight.quant, self._file.tensors[name].data, weight.shape)

    def report_unused(self, n_layers: int, spare: frozenset[str], unbiased: frozenset[str]
                      ) -> None:
        """Warn once of tensors that the graph doesn't use, except those for which that is known to
        be right; see :func:`~unladen.models._parts.blocks.is_spare`."""
        names = self._file.tensors
        unused = sorted(name for name in names if name not in self._used
                        and not is_spare(name, names, n_layers, spare, unbiased))
        if unused and not self._has_reported:
            self._has_reported = True
            more = ", ..." if len(unused) > N_NAMED else ""
            log.warning("%s: %d of its tensors aren't used: %s%s. If the model answers "
                        "badly, that may be why", self._file.path, len(unused),
                        ", ".join(unused[:N_NAMED]), more)
