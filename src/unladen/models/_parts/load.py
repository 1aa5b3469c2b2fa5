"""From the tensor table to weights, each checked against the shape that the model needs."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unladen.errors import GGUFError
from unladen.gguf import GGUFFile
from unladen.graph.graph import Weight
from unladen.quants import dequantize

log = logging.getLogger("unladen")


class Tensors:
    """Weights by GGUF's names; remembers which were asked for."""

    def __init__(self, file: GGUFFile) -> None:
        self._file = file
        self._used: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._file.tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of ``name``, slowest dimension first; raises :class:`GGUFError`."""
        if name not in self._file.tensors:
            raise GGUFError(f"the tensor {name} is missing", path=str(self._file.path),
                            hint="the file is incomplete: convert or fetch it again")
        return self._file.tensors[name].shape

    def weight(self, name: str, *shape: int) -> Weight:
        """The weight ``name``, which must have ``shape``; raises :class:`GGUFError`."""
        found = self.shape(name)
        info = self._file.tensors[name]
        if found != shape:
            raise GGUFError(f"the tensor {name} has the shape {list(found)}, not {list(shape)}",
                            path=str(self._file.path), offset=info.offset,
                            hint="metadata and tensors disagree: convert or fetch the file again")
        self._used.add(name)
        return Weight(name, found, info.quant)

    def optional(self, name: str, *shape: int) -> Weight | None:
        """:meth:`weight`, or None where the file has no such tensor."""
        return self.weight(name, *shape) if name in self else None

    def stacked(self, name: str, *shape: int) -> Weight:
        """:meth:`weight`, also where the file leaves out a first dimension of 1."""
        if shape[0] == 1 and self.shape(name) == shape[1:]:
            return replace(self.weight(name, *shape[1:]), shape=shape)
        return self.weight(name, *shape)

    def grouped(self, name: str, *shape: int) -> Weight:
        """:meth:`weight`, also where the file has the first two dimensions as one."""
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

    def report_unused(self) -> None:
        """Name, in a debug line, the tensors that the graph doesn't use."""
        unused = sorted(set(self._file.tensors) - self._used)
        if unused:
            log.debug("%s: %d tensors are not used by decoding: %s", self._file.path, len(unused),
                      ", ".join(unused))
