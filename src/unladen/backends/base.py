"""The contract between a plan and the backends that execute it.

A plan cuts a graph into segments, one device each. A backend allocates buffers, compiles a segment
once, and runs it for every step. A step's other data are in its
:class:`~unladen.graph.batch.Batch`.

Order: a device works in the order of the calls. ``write``, ``copy``, ``fetch`` and ``run`` see the
results of all work that was started on the device before them, and of none that is started later.
They may return before their work is done. ``read``, ``sync`` and the function that ``fetch``
returns wait. A ``copy`` between two devices keeps this order on the source and on the target. So a
plan starts a step on all devices without waiting between them, and waits only for bytes that the
host itself reads or passes on.

``write_ahead`` alone may leave this order: it waits for the work before a ``mark`` and may overtake
what was started since, which doesn't use the bytes that it writes. The function that it returns
brings the order back: work that is started after that function was called sees the bytes. So
weights arrive while a device computes with others.

Addresses: buffers, the offsets of a segment and the arrays of its batch stay where they are as long
as its program exists. Steps with the same :attr:`~unladen.graph.batch.Batch.size_class` differ only
in the contents of these arrays and in their sizes within the class, so a driver may record its
commands once for each class.

Devices: ``open`` may be called again for a device that is open. Plans of one process share it:
:class:`unladen.backends.Hold` counts its users and calls ``close`` after the last one.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from unladen.errors import BackendNotInitialised
from unladen.graph.batch import Batch
from unladen.graph.graph import KVSpec, Node, Value, Weight
from unladen.storage.packed import PackedCache
from unladen.types import Limits, size_text

Use = Literal["weights", "kv", "arena", "staging"]
"""The use of a buffer, by which a backend may place or align it. "staging" is memory that the
device writes and the host reads, pinned where a driver can do that; only :meth:`Backend.fetch` uses
it."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device and its abilities. An unknown number is 0.

    * ``name``: its backend's name and a number, as in "cpu:0".
    * ``description``: the maker's name or the like, for people.
    * ``memory_bytes``: its memory in all.
    * ``bandwidth``: bytes per second that it reads from its memory.
    * ``flops``: floating-point operations per second.
    * ``is_host``: it computes in the host's memory; files can be mapped and results read in place.
    * ``is_pretend``: it computes nothing.
    * ``is_software``: it is a driver's device, and computes on the host's processor.
    * ``link_bandwidth``: bytes per second between the host and the device.
    * ``link_latency_s``: seconds before the first of these bytes arrives.
    * ``launch_s``: seconds from a call of ``run`` until the device begins.
    * ``features``: its hardware abilities, each with whether its kernels use it.
    * ``is_default``: hardware that is used where no devices are named.
    * ``fusions``: names of the graph passes whose results it runs.
    * ``runs_ahead``: a step may take the tokens that the step before chose, without the host
      (:attr:`~unladen.graph.batch.Batch.continues`).
    * ``survives_fork``: a forked child can use its parent's buffers and programs.
    * ``is_deterministic``: it keeps the promise of :attr:`BackendOptions.deterministic`.
    * ``max_binding_bytes``: the most bytes of one buffer that a kernel can use; 0: no limit.
    * ``writes_ahead``: bytes of :meth:`Backend.write_ahead` arrive while kernels run.
    * ``commits_host_memory``: its memory is the host's, and all of an allocation is taken at once.
    * ``maps_files``: it can use weights where they lie in a mapped file (:meth:`Backend.wrap`), as
      the host can.
    * ``copies_to_peers``: :meth:`Backend.copy` copies between it and other devices of its backend.
    """

    name: str
    description: str
    memory_bytes: int
    bandwidth: float = 0.0
    flops: float = 0.0
    is_host: bool = False
    is_pretend: bool = False
    link_bandwidth: float = 0.0
    link_latency_s: float = 0.0
    launch_s: float = 0.0
    features: tuple[tuple[str, bool], ...] = ()
    is_default: bool = False
    fusions: frozenset[str] = frozenset()
    runs_ahead: bool = False
    survives_fork: bool = False
    is_deterministic: bool = False
    max_binding_bytes: int = 0
    writes_ahead: bool = False
    commits_host_memory: bool = False
    maps_files: bool = False
    copies_to_peers: bool = False
    is_software: bool = False

    def __repr__(self) -> str:
        memory = size_text(self.memory_bytes) if self.memory_bytes else "memory unknown"
        return f"<Device {self.name}: {self.description}, {memory}>"


_OTHERS_NAMES: Final = {
    "vulkan": "wgpu", "mtl": "metal", "mps": "metal", "webgpu": "wgpu",
    "d3d12": "wgpu", "dx12": "wgpu", "gpu": "wgpu", "rocm": "hip", "gpuopencl": "opencl"}
"""Names of devices in other engines, and the backend that uses these devices here."""
_KNOWN: Final = {*_OTHERS_NAMES, *_OTHERS_NAMES.values(), "cpu", "cuda", "sycl", "musa"}
"""Names, of backends and of other engines' devices, that :func:`full_name` understands."""
_DEVICE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_]*?)(?::(.*)|([0-9]*))")
"""A device's name: backend, and a number after a colon or directly after the name."""


def full_name(device: str) -> str:
    """A device's name with its number: "cpu" is "cpu:0". Names of other engines are translated:
    "CPU", "CUDA0", "ROCm1" ("hip:1"), "MTL0" ("metal:0"), and "Vulkan0", a device of wgpu."""
    text = device.strip()
    match = _DEVICE.fullmatch(text)
    if match is None or match[1].lower() not in _KNOWN:
        return text if ":" in text else f"{text}:0"
    stem = match[1].lower()
    number = match[3] or "0" if match[2] is None else match[2]
    return f"{_OTHERS_NAMES.get(stem, stem)}:{number}"


def device_number(device: str) -> int:
    """The number in a device's name, 0 where it has none. Raises :class:`BackendNotInitialised`
    where the text after the colon is no number."""
    name, _, number = device.partition(":")
    if number == "" and device == name:
        return 0
    if not (number.isascii() and number.isdigit()):
        raise BackendNotInitialised(f"{device!r} is no device of the {name} backend",
                                    hint=f"use {name}, or {name}:N for number N")
    return int(number)


Mark = object
"""A point in a device's work, which only its backend looks into."""
Make = Callable[[npt.NDArray[np.uint8], int], None]
"""Fills an array, uint8 [n], with the bytes of something from a number on."""
MADE_AT_ONCE_BYTES: Final = 4 << 20
"""Bytes that are made at a time by default: few enough that a cache holds most of them until they
are written on."""


@runtime_checkable
class Buffer(Protocol):
    """Memory of a device. It is freed with the last reference to it."""

    @property
    def device(self) -> Device:
        """The device that has the memory."""

    @property
    def nbytes(self) -> int:
        """The buffer's size in bytes."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A weight in memory: whole blocks in format ``quant``, from ``offset`` on.

    ``quant`` isn't the file's format where the device has no kernel for that; the weight was then
    dequantized when it was loaded.
    """

    weight: Weight
    buffer: Buffer
    offset: int
    quant: str


@dataclass(frozen=True, slots=True)
class KVLayout:
    """The layout of a cache. Each layer has two buffers: K
    ``[n_blocks][n_kv_heads][block_tokens][k_dim]`` and V with ``v_dim`` in place of ``k_dim``. Rows
    of K are in format ``k_type``, those of V in ``v_type`` ("F32", "F16" or "Q8_0").

    ``window``: how many of the last tokens the layer sees, 0 for all. ``first_column``: the column
    of the block table where the layer's blocks begin."""

    block_tokens: int
    n_blocks: int
    k_type: str
    v_type: str
    window: int = 0
    first_column: int = 0


@dataclass(frozen=True, slots=True)
class PlacedKV:
    """The cache of one layer in memory."""

    spec: KVSpec
    layout: KVLayout
    k: Buffer
    v: Buffer


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """A user's choices about how a backend works. None: the backend decides.

    * ``n_threads``: threads for steps of few tokens.
    * ``n_threads_batch``: threads for steps of many tokens.
    * ``precise``: activations stay float32 in products with quantized weights.
    * ``deterministic``: a token's results don't depend, to the bit, on the step's other tokens.
    * ``numa``: the nodes that the host's threads run on (:mod:`unladen.backends.cpu.numa`).
    * ``packed_cache``: keeps copies of weights, packed as kernels read them fastest, on disk.
    """

    n_threads: int | None = None
    n_threads_batch: int | None = None
    precise: bool = False
    deterministic: bool = False
    numa: str | None = None
    packed_cache: PackedCache | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive nodes of one device with all memory that they use.

    * ``nodes``: in the order in which they run.
    * ``arena``: the buffer of a step's values.
    * ``offsets``: the offset of each value in ``arena``, in bytes.
    * ``batch_inputs``: values that are arrays of ``batch``, by the array's name.
    * ``scratch``: offset and bytes of the arena that a node may use while it runs.
    * ``weights``: the nodes' weights by name.
    * ``kv``: the nodes' caches by layer.
    * ``slots``: recurrent state by node, float32 ``[limits.n_slots][state_size]``.
    * ``limits``: the largest step.
    * ``batch``: the arrays that every step of the plan reuses.
    * ``options``: the user's choices.
    * ``stored``: the answer of :meth:`Backend.stored_bytes`, by which values have room in the
      arena.
    * ``passed``: the answer of :meth:`Backend.passed_values`, by which values have room there.
    * ``is_brief``: another plan will soon replace this one, so weights aren't moved for it.
    """

    device: Device
    nodes: Sequence[Node]
    arena: Buffer
    offsets: Mapping[Value, int]
    batch_inputs: Mapping[Value, str]
    scratch: tuple[int, int]
    weights: Mapping[str, Placed]
    kv: Mapping[int, PlacedKV]
    slots: Mapping[str, Buffer]
    limits: Limits
    batch: Batch
    options: BackendOptions
    stored: Mapping[Value, int] = field(default_factory=dict)
    passed: Set[Value] = frozenset()
    is_brief: bool = False

    @property
    def chosen(self) -> Value | None:
        """The output of ``argmax``, if the segment has it: the tokens of a next step that
        continues."""
        return next((n.outputs[0] for n in self.nodes if n.op == "argmax"), None)


class Program(Protocol):
    """A compiled segment. Only its backend looks into it."""


Place = tuple[Buffer, int]
"""A buffer, and an offset in it in bytes."""


class Collective(Protocol):
    """Some devices of a backend, over which a library adds up values. What it took is given back
    with the last reference to it."""

    def all_reduce(self, parts: Sequence[Place], totals: Sequence[Place], count: int) -> None:
        """Add ``count`` float32 numbers at each of ``parts``, one on each device in the group's
        order, into each of ``totals``, likewise. All totals get the same bits, and the same ones in
        every run.

        On every device it comes after the work that was started there before and before what is
        started later; it may return before it is done. Raises :class:`DeviceLost` or
        :class:`UnladenError`, after which the next call may work."""


def _arrived() -> None:
    """The bytes are there as soon as the device comes to them."""


class Backend(ABC):
    """Opens devices of one kind and works on them; the module's text says in which order.

    Seven methods are abstract: :meth:`open`, :meth:`alloc`, :meth:`write`, :meth:`read`,
    :meth:`supports`, :meth:`compile` and :meth:`run`. The others have defaults that are correct for
    every device, if not the fastest. :class:`unladen.backends.HostMemory` also has the methods for
    memory, for devices that compute in the host's.
    """

    name: str
    """The first part of its devices' names ("cpu:0")."""

    def devices(self) -> Sequence[Device]:
        """The devices of this machine. May be empty; :meth:`why_none` then says why. Default: none
        are listed, and devices are opened by name."""
        return ()

    def why_none(self) -> str:
        """Why there are no devices and what to do about it; "" if there are some."""
        return f"devices of {self.name} are opened by name: {self.name}:0, {self.name}:1, ..."

    @abstractmethod
    def open(self, device: str, options: BackendOptions) -> Device:
        """Open the device called ``device`` and return it. Raises
        :class:`BackendNotInitialised`."""

    def close(self, device: Device) -> None:
        """Release what :meth:`open` made for ``device``. Does nothing if the device is closed.

        Methods that need the device then raise :class:`BackendNotInitialised` until it is opened
        again. Default: nothing to release.
        """
        return

    def free_bytes(self, device: Device) -> int:
        """Bytes that can be allocated on ``device`` now, as far as known. Default: all its
        memory."""
        return device.memory_bytes

    @abstractmethod
    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> Buffer:
        """A new zeroed buffer of ``nbytes``. Raises :class:`OutOfMemory`. If the device limits the
        size of a buffer, the memory may have several parts, cut at multiples of ``row_bytes``."""

    def discard(self, buffer: Buffer, *, densely_used: bool) -> None:
        """Drop the contents of ``buffer``. Its memory may go back to the system until it is written
        again. ``densely_used``: most of it will then be written, not just a few places. No running
        step may use the buffer. Default: nothing is dropped."""
        return

    def wrap(self, device: Device, data: npt.NDArray[np.uint8]) -> Buffer | None:
        """A buffer over ``data`` without a copy, which keeps ``data`` alive. None where this isn't
        possible, as by default."""
        return None

    @abstractmethod
    def write(self, dst: Buffer, src: npt.NDArray[np.uint8], offset: int = 0) -> None:
        """Copy ``src`` into ``dst`` at ``offset``. Work that was started before sees the old bytes.
        ``src`` may change once this returns."""

    def write_made(self, dst: Buffer, nbytes: int, make: Make, offset: int = 0, *, unit: int = 1
                   ) -> None:
        """Write ``nbytes`` bytes like :meth:`write`, as they are made: ``make(out, start)`` fills
        ``out`` with those from ``start`` on. Pieces begin and end at multiples of ``unit``, or
        at the end of all. Default: through memory of one piece."""
        most = max(unit, MADE_AT_ONCE_BYTES // unit * unit)
        piece = np.empty(min(most, nbytes), np.uint8)
        for start in range(0, nbytes, most):
            out = piece[:nbytes - start]
            make(out, start)
            self.write(dst, out, offset + start)

    def mark(self, device: Device) -> Mark:
        """A mark after all work that was started on ``device`` so far. Default: no mark, since
        :meth:`write_ahead` keeps the order of the calls."""
        return None

    def write_ahead(self, dst: Buffer, src: npt.NDArray[np.uint8], offset: int = 0, *,
                    after: Mark) -> Callable[[], None]:
        """Begin to copy ``src`` into ``dst`` at ``offset``, after the work before the mark
        ``after``. Work that was started since may run at the same time; it doesn't use these bytes
        of ``dst``.

        The returned function makes work that is started after it wait for the bytes; the host
        doesn't wait. It must be called before work that uses them. ``src`` must keep its bytes
        until such work is done. Default: :meth:`write`, in the order of the calls.
        """
        self.write(dst, src, offset)
        return _arrived

    @abstractmethod
    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> npt.NDArray[np.uint8]:
        """Wait for all work started so far and return ``nbytes`` bytes from ``offset`` on: a view
        where the device is the host, else a copy."""

    def fetch(self, src: Buffer, nbytes: int, offset: int = 0, staging: Buffer | None = None
              ) -> Callable[[], npt.NDArray[np.uint8]]:
        """Begin to read. The returned function waits and gives the bytes as they are after all work
        started so far; later work doesn't change them.

        ``staging``: a buffer for this use, of ``nbytes`` or more, that the bytes may go through.
        The result is then valid until the next fetch through this buffer, which also ends a fetch
        that nobody waited for. None: the result stays valid. Default: reads at once.
        """
        data = self.read(src, nbytes, offset)
        if src.device.is_host:
            data = data.copy()
        return lambda: data

    def copy(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, nbytes: int) -> bool:
        """Copy between buffers of this backend, on one device or two. Returns False where it can't,
        as by default; the bytes must then go through the host."""
        return False

    def libraries(self) -> Mapping[str, str]:
        """Libraries that the devices use where they are there: by name, the version and the path,
        or why one isn't used and what to do about it. Default: there are none."""
        return {}

    def adds_with(self, devices: Sequence[Device]) -> str:
        """The name of the library that adds up values over ``devices`` in :meth:`collective`; "":
        none does, as by default."""
        return ""

    def collective(self, devices: Sequence[Device]) -> Collective:
        """A group of ``devices``, for which :meth:`adds_with` named a library. Raises
        :class:`UnladenError`."""
        raise NotImplementedError(f"{self.name} names no library that adds over devices")

    @abstractmethod
    def supports(self, device: Device, node: Node) -> bool:
        """Whether ``device`` can run ``node``, by its op and attributes."""

    def weight_format(self, device: Device, node: Node, weight: Weight) -> str | None:
        """The format in which ``node`` takes ``weight``: that of the file, or another one to which
        the weight is converted when loaded, which costs memory and is reported. None: no format.
        Default: F32."""
        return "F32"

    def variant(self, device: Device, node: Node, options: BackendOptions) -> str:
        """The name of the kernels for ``node`` that use special abilities of the hardware, for
        weights in their formats on the device; "" for plain kernels, as by default."""
        return ""

    def forgo_variant(self, device: Device, node: Node) -> None:
        """From now on use plain kernels for nodes of this op with weights in these formats. Called
        when a trial found wrong results of :meth:`variant`."""
        raise NotImplementedError(f"{self.name} names a variant and can't do without it")

    def trial_rows(self, device: Device, node: Node, options: BackendOptions) -> Sequence[int]:
        """Numbers of tokens for which ``node``, with weights in their formats on the device, has
        kernels of its own, besides one token and a few. A trial has steps of as many; by default
        none."""
        return ()

    def stored_bytes(self, device: Device, nodes: Sequence[Node], inner: frozenset[Value],
                     limits: Limits, options: BackendOptions) -> Mapping[Value, int]:
        """Bytes in the arena for values that don't take 4 bytes per number. They are some of
        ``inner``, the values that only ``nodes``, a segment, read. Default: none."""
        return {}

    def passed_values(self, device: Device, nodes: Sequence[Node], inner: frozenset[Value]
                      ) -> Set[Value]:
        """The values, some of ``inner``, that pass from node to node within one dispatch. In the
        arena no values share bytes that belong to nodes from the one that makes such a value to
        the last one that reads it. Default: none."""
        return frozenset()

    def scratch_bytes(self, device: Device, node: Node, limits: Limits, options: BackendOptions
                      ) -> int:
        """Bytes of working memory that ``node`` needs while it runs. Default: none."""
        return 0

    @abstractmethod
    def compile(self, segment: Segment) -> Program:
        """Compile ``segment`` once, to run it any number of times."""

    @abstractmethod
    def run(self, program: Program) -> None:
        """Start the step in the segment's batch. May return before the step is done, but not before
        the batch may change. Raises :class:`Cancelled` after :meth:`cancel`, and the exception of a
        signal handler that ran meanwhile."""

    def cancel(self, program: Program) -> None:
        """Make a :meth:`run` in another thread stop soon. The arena's contents are then undefined.
        Default: the run goes on to its end."""
        return

    def settle(self, program: Program) -> None:
        """Do at once the work that ``run`` spreads over steps to make later steps faster. Default:
        there is no such work."""
        return

    def sync(self, device: Device) -> None:
        """Wait until all work started on ``device`` is done. Default: methods return when their
        work is done."""
        return
