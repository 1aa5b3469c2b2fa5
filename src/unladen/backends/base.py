"""How it runs: the contract between a plan and whatever executes it.

A plan cuts a graph into segments, one device each. A backend allocates buffers, compiles a segment
once, and runs it for every step. Everything that a step needs beside the buffers is in its
:class:`~unladen.graph.batch.Batch`.

Order: a device does what it is told in the order in which it is told. ``write``, ``copy``,
``fetch`` and ``run`` see what was started on the device before them and nothing that is started
after them, and they need not wait for it. ``read``, ``sync`` and the function that ``fetch``
returns wait. A ``copy`` between two devices keeps the order on both: it comes after what was
started before it and before what is started after it, on the source and on the target. So a plan
starts a step on all devices without waiting between them, and waits only for bytes that the host
itself reads or passes on.

Addresses: buffers, the offsets of a segment and the arrays of its batch stay where they are as long
as its program exists. Steps with the same :attr:`~unladen.graph.batch.Batch.size_class` differ only
in what these arrays hold and in their sizes within the class, so a driver may record its commands
once for each class.

Devices: ``open`` may be called again for a device that is open. Plans of one process share it:
:class:`unladen.backends.Hold` counts its users and calls ``close`` after the last one.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
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
"""What a buffer is for; a backend may place or align it accordingly. "staging" is memory that the
device writes and the host reads, pinned where a driver has that: :meth:`Backend.fetch` goes through
it, and nothing else uses it."""


@dataclass(frozen=True, slots=True)
class Device:
    """Something that computes, and what it can do; a number is 0 where it is unknown.

    * ``name``: its backend's name and a number, "cpu:0".
    * ``description``: what it is, for people.
    * ``memory_bytes``: its memory in all.
    * ``bandwidth``: bytes that it reads from its memory in a second.
    * ``flops``: operations that it does in a second.
    * ``is_host``: it computes on the host's memory; files can be mapped and results read in place.
    * ``is_pretend``: it computes nothing.
    * ``link_bandwidth``: bytes that go between the host and it in a second.
    * ``link_latency_s``: seconds before the first of them arrives.
    * ``launch_s``: seconds from when it is told to work until it begins.
    * ``features``: hardware abilities that it has, each with whether its kernels use it.
    * ``is_default``: hardware that is used where no devices are named.
    * ``fusions``: names of the graph passes whose results it runs.
    * ``runs_ahead``: a step may take its tokens from what the step before chose, unseen by the
      host (:attr:`~unladen.graph.batch.Batch.continues`).
    * ``survives_fork``: a forked child can go on with what its parent made here.
    * ``is_deterministic``: it keeps the promise of :attr:`BackendOptions.deterministic`.
    * ``max_binding_bytes``: the most that a kernel can use of one buffer; 0: no limit.
    * ``commits_host_memory``: its memory is the host's, and is taken when it is allocated.
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
    commits_host_memory: bool = False

    def __repr__(self) -> str:
        memory = size_text(self.memory_bytes) if self.memory_bytes else "memory unknown"
        return f"<Device {self.name}: {self.description}, {memory}>"


_OTHERS_NAMES: Final = {
    "vulkan": "wgpu", "metal": "wgpu", "mtl": "wgpu", "mps": "wgpu", "webgpu": "wgpu",
    "d3d12": "wgpu", "dx12": "wgpu", "gpu": "wgpu", "rocm": "hip", "gpuopencl": "opencl"}
"""Names that other engines give to devices, and the backend that reaches these here."""
_KNOWN: Final = {*_OTHERS_NAMES, *_OTHERS_NAMES.values(), "cpu", "cuda", "sycl", "musa"}
_DEVICE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_]*?)(?::(.*)|([0-9]*))")


def full_name(device: str) -> str:
    """A device's name with its number, as everything here has it: "cpu" is "cpu:0". Other engines'
    names are understood: "CPU", "CUDA0", "ROCm1" ("hip:1"), and "Vulkan0" and "Metal", which
    backend wgpu reaches."""
    text = device.strip()
    match = _DEVICE.fullmatch(text)
    if match is None or match[1].lower() not in _KNOWN:
        return text if ":" in text else f"{text}:0"
    stem = match[1].lower()
    number = match[3] or "0" if match[2] is None else match[2]
    return f"{_OTHERS_NAMES.get(stem, stem)}:{number}"


def device_number(device: str) -> int:
    """The number in a device's name, 0 where there is none ("cpu" is "cpu:0"); raises
    :class:`BackendNotInitialised` for anything else."""
    name, _, number = device.partition(":")
    if number == "" and device == name:
        return 0
    if not (number.isascii() and number.isdigit()):
        raise BackendNotInitialised(f"{device!r} is no device of the {name} backend",
                                    hint=f"use {name}, or {name}:N for number N")
    return int(number)


@runtime_checkable
class Buffer(Protocol):
    """Memory of a device. It is freed with the last reference to it."""

    @property
    def device(self) -> Device:
        """Where it lies."""

    @property
    def nbytes(self) -> int:
        """How large it is."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A weight where it lies: whole blocks from ``offset`` on, in ``quant`` format.

    ``quant`` may differ from the file's where a device has no kernel for that (it was then
    dequantized when it was loaded).
    """

    weight: Weight
    buffer: Buffer
    offset: int
    quant: str


@dataclass(frozen=True, slots=True)
class KVLayout:
    """How a cache lies in memory: per layer K ``[n_blocks][n_kv_heads][block_tokens][k_dim]`` and V
    likewise, in two buffers, each row of ``k_dim`` or ``v_dim`` in format ``k_type`` / ``v_type``
    ("F32", "F16" or "Q8_0")."""

    block_tokens: int
    n_blocks: int
    k_type: str
    v_type: str


@dataclass(frozen=True, slots=True)
class PlacedKV:
    """The cache of one layer where it lies."""

    spec: KVSpec
    layout: KVLayout
    k: Buffer
    v: Buffer


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """What a user may say about how a backend works; None: the backend decides.

    * ``n_threads``: threads for steps of few tokens.
    * ``n_threads_batch``: threads for steps of many tokens.
    * ``precise``: activations stay float32 where they meet quantized weights.
    * ``deterministic``: no bit of a token's row depends on what else is in the step.
    * ``numa``: the nodes that the host's threads run on (:mod:`unladen.backends.cpu.numa`).
    * ``packed_cache``: keeps weights of mapped files as kernels read them fastest, for next time.
    """

    n_threads: int | None = None
    n_threads_batch: int | None = None
    precise: bool = False
    deterministic: bool = False
    numa: str | None = None
    packed_cache: PackedCache | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive nodes of one device and everything they touch, nothing of other devices.

    * ``nodes``: in the order in which they run.
    * ``arena``: the buffer of values within a step.
    * ``offsets``: where in ``arena`` each value lies.
    * ``batch_inputs``: values that are arrays of ``batch``, by the array's name.
    * ``scratch``: offset and bytes of the arena that a node may use while it runs.
    * ``weights``: by name, those of the nodes.
    * ``kv``: by layer, the caches of the nodes.
    * ``slots``: by node, its recurrent state, float32 ``[limits.n_slots][state_size]``.
    * ``limits``: the largest step.
    * ``batch``: the arrays that every step of the plan reuses.
    * ``options``: what the user said.
    * ``stored``: what :meth:`Backend.stored_bytes` said; values have as much room and no more.
    * ``is_brief``: the plan stands in for one that comes back, so no weights are moved for it.
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
    is_brief: bool = False

    @property
    def chosen(self) -> Value | None:
        """What ``argmax`` makes, where the segment has it: the tokens of a step that continues."""
        return next((n.outputs[0] for n in self.nodes if n.op == "argmax"), None)


class Program(Protocol):
    """A compiled segment; opaque to everyone but its backend."""


class Backend(ABC):
    """Opens devices of one kind and works on them; the module says in which order.

    Seven methods are abstract: :meth:`open`, :meth:`alloc`, :meth:`write`, :meth:`read`,
    :meth:`supports`, :meth:`compile` and :meth:`run`. The others have an answer that is right for
    every device, if not the fastest. :class:`unladen.backends.HostMemory` also has the memory of
    a device that computes on the host's.
    """

    name: str
    """The first part of its devices' names ("cpu:0")."""

    def devices(self) -> Sequence[Device]:
        """The devices present; empty is fine, and then :meth:`why_none` says why. Default: none,
        they are opened by name."""
        return ()

    def why_none(self) -> str:
        """Why there are no devices, and what to do about it; "" where there are some."""
        return f"devices of {self.name} are opened by name: {self.name}:0, {self.name}:1, ..."

    @abstractmethod
    def open(self, device: str, options: BackendOptions) -> Device:
        """The device called ``device``, made ready; raises :class:`BackendNotInitialised`."""

    def close(self, device: Device) -> None:
        """Release what :meth:`open` made for ``device``; nothing where it is closed already.

        Whatever needs what was released raises :class:`BackendNotInitialised` from then on, until
        the device is opened again. Default: ``open`` made nothing.
        """
        return

    def free_bytes(self, device: Device) -> int:
        """What can be allocated on ``device`` now, as far as that is known. Default: all of it."""
        return device.memory_bytes

    @abstractmethod
    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> Buffer:
        """A new zeroed buffer; raises :class:`OutOfMemory`. Where a device limits the size of a
        buffer, the memory may consist of several, cut at multiples of ``row_bytes``."""

    def discard(self, buffer: Buffer, *, densely_used: bool) -> None:
        """Nobody needs what is in ``buffer``: its memory may go back to the system until something
        is written there again, in most places or in few. No step may be under way that uses it.
        Default: it stays."""
        return

    def wrap(self, device: Device, data: npt.NDArray[np.uint8]) -> Buffer | None:
        """A buffer over host memory without a copy, which it keeps alive; None: not possible, the
        default."""
        return None

    @abstractmethod
    def write(self, dst: Buffer, src: npt.NDArray[np.uint8], offset: int = 0) -> None:
        """Copy bytes from the host; work that was started before still sees the old ones, and
        ``src`` may change as soon as this returns."""

    @abstractmethod
    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> npt.NDArray[np.uint8]:
        """The bytes that everything started so far leaves there: a view where the device is the
        host, else a copy. Waits for the device."""

    def fetch(self, src: Buffer, nbytes: int, offset: int = 0, staging: Buffer | None = None
              ) -> Callable[[], npt.NDArray[np.uint8]]:
        """Begin to read: the function returned waits for the bytes that everything started so far
        leaves there, whatever is started later.

        ``staging``: a buffer for this use, of ``nbytes`` or more, that the bytes may go through;
        they hold then until the next fetch through it, which also ends one that nobody waited for.
        None: they hold for good. Default: reads at once.
        """
        data = self.read(src, nbytes, offset)
        if src.device.is_host:
            data = data.copy()
        return lambda: data

    def copy(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, nbytes: int) -> bool:
        """Copy between buffers of this backend, on one device or two; False: it did nothing, and
        the bytes must go through the host, the default."""
        return False

    @abstractmethod
    def supports(self, device: Device, node: Node) -> bool:
        """Whether a node of this op and these attributes can run on ``device``."""

    def weight_format(self, device: Device, node: Node, weight: Weight) -> str | None:
        """The format in which ``node`` takes ``weight``: the file's own, another that it must be
        converted to when loaded (it costs memory, and the plan says so), or None. Default: F32."""
        return "F32"

    def variant(self, device: Device, node: Node, options: BackendOptions) -> str:
        """What the kernels for ``node``, its weights in the formats that they have on the device,
        use of the hardware beyond the plain ones; "" for the plain ones, the default."""
        return ""

    def forgo_variant(self, device: Device, node: Node) -> None:
        """From now on use the plain kernels for nodes of this op with weights in these formats:
        :meth:`variant` was found to compute something wrong."""
        raise NotImplementedError(f"{self.name} names a variant and can't do without it")

    def stored_bytes(self, device: Device, nodes: Sequence[Node], inner: frozenset[Value],
                     limits: Limits, options: BackendOptions) -> Mapping[Value, int]:
        """Bytes in the arena of those values of a segment of ``nodes`` that don't take 4 for each
        number: some of ``inner``, which nothing else reads. Default: none."""
        return {}

    def scratch_bytes(self, device: Device, node: Node, limits: Limits, options: BackendOptions
                      ) -> int:
        """Working memory that ``node`` needs while it runs. Default: none."""
        return 0

    @abstractmethod
    def compile(self, segment: Segment) -> Program:
        """Make ``segment`` ready to be run any number of times."""

    @abstractmethod
    def run(self, program: Program) -> None:
        """Start the step that is in the segment's batch; may return before it is done, but the
        batch may change then. Raises :class:`Cancelled` after :meth:`cancel`, and whatever a signal
        handler raised while it waited."""

    def cancel(self, program: Program) -> None:
        """Make a run that another thread is in stop soon; the arena's contents are then void.
        Default: the run goes on to its end."""
        return

    def settle(self, program: Program) -> None:
        """Do at once what ``run`` does little by little after its steps, to make later ones fast.
        Default: nothing is put off."""
        return

    def sync(self, device: Device) -> None:
        """Wait until everything started on ``device`` is done. Default: each method is done when it
        returns."""
        return
