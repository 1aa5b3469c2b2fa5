"""One device of ggml: its abilities, its memory, and whether it runs a node."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable
from typing import Final

from unladen.backends._host import free_host_bytes
from unladen.backends._system import this_system
from unladen.backends.base import BackendOptions, Device
from unladen.backends.ggml.library import Library, SetThreads, frees_with
from unladen.errors import BackendNotInitialised, UnsupportedOp
from unladen.graph.graph import Node, Weight
from unladen.graph.ops import get_op

CPU: Final = 0
"""ggml's number of the kind of device that is the host's processor."""
GUESS: Final = 1e11
"""Bytes and a hundredth of the operations per second that a graphics device is taken for; ggml
doesn't say."""
CPU_GUESS: Final = 1e10
"""The same for the host's processor."""

PADDING: Final = 512
"""Columns of a matrix in blocks that devices other than the CPU read at once, beyond its end
too."""
PLAIN: Final = ("F32", "F64", "I8", "I16", "I32", "I64")
"""Types that are no block formats."""
SET_THREADS: Final = b"ggml_backend_set_n_threads"
"""A function that only some devices have."""
HALVES: Final = ("F16", "BF16")
"""Formats to which ggml rounds the activations of a product."""
FEW_TOKENS: Final = 16
"""The most tokens of a step for which ``n_threads`` counts, and not ``n_threads_batch``."""
MOST_THREADS: Final = 512
"""The most threads that ggml has room for."""


def threads(options: BackendOptions, n_tokens: int) -> int:
    """Threads of the host for a step of ``n_tokens``."""
    few = options.n_threads or min(this_system().n_cores(), MOST_THREADS)
    return few if n_tokens <= FEW_TOKENS else options.n_threads_batch or few


def described(library: Library, number: int) -> Device:
    """Device ``number`` of the library."""
    handle = library["backend_dev_get"](number)
    is_cpu = library["backend_dev_type"](handle) == CPU
    total = _memory(library, handle)[1]
    speed = CPU_GUESS if is_cpu else GUESS
    name = library["backend_dev_description"](handle).decode(errors="replace")
    kind = library["backend_dev_name"](handle).decode(errors="replace")
    return Device(f"ggml:{number}", f"{name} ({kind}, ggml {library.version})", total,
                  bandwidth=speed, flops=speed * 100, link_bandwidth=1e10,
                  commits_host_memory=is_cpu, is_software=is_cpu)


def _memory(library: Library, handle: int) -> tuple[int, int]:
    """Free and total bytes of a device."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    library["backend_dev_memory"](handle, ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


class Driver:
    """An open device. ``handle``: ggml's backend, ``kind``: its type of buffers.

    All models on the device share the handle. Its working memory is for one graph at a time.
    """

    def __init__(self, library: Library, number: int) -> None:
        self.library = library
        self.device = described(library, number)
        self._device: int = library["backend_dev_get"](number)
        self.handle: int = library["backend_dev_init"](self._device, None)
        if not self.handle:
            raise BackendNotInitialised(f"ggml can't open {self.device.description}",
                                        hint="--debug shows what ggml says")
        frees_with(self, library["backend_free"], self.handle)
        self.kind: int = library["backend_dev_buffer_type"](self._device)
        self.is_cpu = library["backend_dev_type"](self._device) == CPU
        self._set_threads = self._thread_setter()
        self._computing = threading.Lock()

    def _thread_setter(self) -> Callable[[int, int], object] | None:
        backend = self.library["backend_dev_backend_reg"](self._device)
        found = self.library["backend_reg_get_proc_address"](backend, SET_THREADS)
        return SetThreads(found) if found else None

    def compute(self, graph: int, n_threads: int) -> int:
        """Run a graph to its end, after those of other threads; gives ggml's status. ``n_threads``:
        threads of the host, for a device that uses them."""
        with self._computing:
            if self._set_threads is not None:
                self._set_threads(self.handle, n_threads)
            status: int = self.library["backend_graph_compute"](self.handle, graph)
        return status

    def synchronize(self) -> None:
        """Wait until everything that was started is done."""
        with self._computing:
            self.library["backend_synchronize"](self.handle)

    def free_bytes(self) -> int:
        """Bytes that can be allocated now. For the host's processor ggml says how much memory the
        machine has, not how much of it is free."""
        free, total = _memory(self.library, self._device)
        return min(free, total, free_host_bytes()) if self.is_cpu else min(free, total)

    def check(self, node: Node, tensors: Iterable[int]) -> None:
        """Raise :class:`UnsupportedOp` if the device can't compute one of ``tensors``, which
        ``node`` needs; ggml would end the process."""
        if not self.runs(tensors):
            raise UnsupportedOp(f"{self.device.description} can't run {node.op} in a step of this "
                                "size", node=node.name, device=self.device.name,
                                hint="run the model on another device, or in smaller steps "
                                     "(batch_size)")

    def runs(self, tensors: Iterable[int]) -> bool:
        """Whether the device can compute all of ``tensors``."""
        return all(self.library["backend_dev_supports_op"](self._device, t) for t in tensors)

    def format_of(self, node: Node, weight: Weight) -> str:
        """The format in which ggml takes ``weight``, so that activations stay as precise as the
        weight's format allows."""
        if not get_op(node.op).takes_quants:
            return "F32"
        if weight.quant in HALVES:
            return weight.quant if node.op == "embed" else "F32"
        is_known = weight.quant not in PLAIN and weight.quant in self.library.types
        fits = self.is_cpu or weight.shape[-1] % PADDING == 0
        return weight.quant if is_known and fits else "F32"
