"""How it runs: the contract between a plan and whatever executes it.

A plan cuts a graph into segments, one device each. A backend allocates buffers, compiles a segment
once, and runs it for every step. Everything that a step needs beside the buffers is in its
:class:`~unladen.graph.batch.Batch`.
"""

from __future__ import annotations

import enum
import re
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

Use = Literal["weights", "kv", "arena"]
"""What a buffer is for; a backend may place or align it accordingly."""


class Support(enum.Enum):
    """Whether a device runs a node: no, yes, or so well that moving its weights there pays."""

    NO = enum.auto()
    YES = enum.auto()
    WORTH_MOVING_WEIGHTS_FOR = enum.auto()


@dataclass(frozen=True, slots=True)
class Device:
    """Something that computes. ``memory_bytes`` in all, ``bandwidth`` bytes/s and ``flops`` 1/s as
    measured or as the maker says, each 0 where unknown. ``is_host``: it computes on the host's
    memory, so that files can be mapped and results read without a copy. ``is_pretend``: it computes
    nothing. Other devices are reached over a link of ``link_bandwidth`` bytes/s, each copy after
    ``link_latency_s`` seconds, and start work ``launch_s`` seconds after they are told to; 0 where
    unknown. ``features``: what it has of the hardware abilities that kernels were written for, and
    whether they use it. ``is_default``: hardware that is used where no devices are named."""

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

    def __repr__(self) -> str:
        memory = size_text(self.memory_bytes) if self.memory_bytes else "memory unknown"
        return f"<Device {self.name}: {self.description}, {memory}>"


_OTHERS_NAMES: Final = {
    "vulkan": "wgpu", "metal": "wgpu", "mtl": "wgpu", "mps": "wgpu", "webgpu": "wgpu",
    "d3d12": "wgpu", "dx12": "wgpu", "gpu": "wgpu", "rocm": "hip", "gpuopencl": "opencl"}
"""What other engines call what a backend here reaches."""
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
    """Memory of a device, freed when the last reference goes."""

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

    ``n_threads`` serves steps of few tokens, ``n_threads_batch`` those of many. ``precise`` keeps
    activations float32 where they meet quantized weights. ``deterministic``: what a token's row
    comes to doesn't depend on what else is in the step, to the last bit. ``numa``: on which nodes
    the host's threads run (:mod:`unladen.backends.cpu.numa`). ``packed_cache`` keeps weights of
    mapped files as its kernels read them fastest, for the next time.
    """

    n_threads: int | None = None
    n_threads_batch: int | None = None
    precise: bool = False
    deterministic: bool = False
    numa: str | None = None
    packed_cache: PackedCache | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive nodes of one device and everything they touch.

    ``offsets``: where in ``arena`` each value lies. Values among ``batch_inputs`` come from
    ``batch``, the arrays that every step of the plan reuses, by name instead. ``scratch``: a range
    of the arena (offset, bytes) that a node may use while it runs, as large as the backend asked
    for. ``slots``: by node, its recurrent state, float32 ``[limits.n_slots][state_size]``.
    ``stored``: what :meth:`Backend.stored_bytes` said; values have as much room and no more.
    ``is_brief``: the plan works beside one that comes back, so no weights are moved for it.
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


class Backend(Protocol):
    """See the module. ``name`` is the first part of its devices' names ("cpu:0")."""

    name: str
    fusions: frozenset[str]
    """Names of the graph passes whose results this backend runs."""
    runs_ahead: bool
    """A step may be started before anybody has seen the tokens that the step before it chose: see
    :attr:`~unladen.graph.batch.Batch.continues`. A run is then through with the batch's arrays when
    it returns."""

    survives_fork: bool
    """A forked child can go on with what its parent made here. Where that isn't said, it can't."""

    is_deterministic: bool
    """It keeps the promise of :attr:`BackendOptions.deterministic`."""

    def devices(self) -> Sequence[Device]:
        """The devices present; empty is fine, and then :meth:`why_none` says why."""

    def why_none(self) -> str:
        """Why there are no devices, and what to do about it; "" where there are some."""

    def open(self, device: str, options: BackendOptions) -> Device:
        """The device called ``device``, made ready; raises :class:`BackendNotInitialised`."""

    def free_bytes(self, device: Device) -> int:
        """What can be allocated on ``device`` now, as far as that is known."""

    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> Buffer:
        """A new zeroed buffer; raises :class:`OutOfMemory`. Where a device limits the size of a
        buffer, the memory may consist of several, cut at multiples of ``row_bytes``."""

    def discard(self, buffer: Buffer, *, densely_used: bool) -> None:
        """Nobody needs what is in ``buffer``: its memory may go back to the system until something
        is written there again, in most places or in few. No step may be under way that uses it."""

    def wrap(self, device: Device, data: npt.NDArray[np.uint8]) -> Buffer | None:
        """A buffer over host memory without a copy, which it keeps alive; None: not possible."""

    def write(self, dst: Buffer, src: npt.NDArray[np.uint8], offset: int = 0) -> None:
        """Copy bytes from the host; work that was started before still sees the old ones."""

    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> npt.NDArray[np.uint8]:
        """Bytes as the host sees them: a view where the device is the host, else a copy."""

    def fetch(self, src: Buffer, nbytes: int, offset: int = 0
              ) -> Callable[[], npt.NDArray[np.uint8]]:
        """Begin to read: what is returned waits for the bytes that everything started so far leaves
        there, whatever is started later, and copies them."""

    def copy(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, nbytes: int) -> bool:
        """Copy between buffers of this backend; False: go through the host."""

    def supports(self, node: Node) -> Support:
        """Whether a node of this op and these attributes can run here."""

    def weight_format(self, node: Node, weight: Weight) -> str | None:
        """The format in which ``node`` takes ``weight``: the file's own, another that it must be
        converted to when loaded (it costs memory, and the plan says so), or None."""

    def variant(self, device: Device, node: Node, options: BackendOptions) -> str:
        """What the kernels for ``node``, its weights in the formats that they have on the device,
        use of the hardware beyond the plain ones; "" for the plain ones."""

    def forgo_variant(self, device: Device, node: Node) -> None:
        """From now on use the plain kernels for nodes of this op with weights in these formats:
        :meth:`variant` was found to compute something wrong."""

    def stored_bytes(self, nodes: Sequence[Node], inner: frozenset[Value], limits: Limits,
                     options: BackendOptions) -> Mapping[Value, int]:
        """Bytes in the arena of those values of a segment of ``nodes`` that don't take 4 for each
        number: some of ``inner``, which nothing else reads."""

    def scratch_bytes(self, node: Node, limits: Limits, options: BackendOptions) -> int:
        """Working memory that ``node`` needs while it runs."""

    def compile(self, segment: Segment) -> Program:
        """Make ``segment`` ready to be run any number of times."""

    def run(self, program: Program) -> None:
        """Start the step that is in the segment's batch; may return before it is done. Raises
        :class:`Cancelled` after :meth:`cancel`, and whatever a signal handler raised while it
        waited."""

    def cancel(self, program: Program) -> None:
        """Make a run that another thread is in stop soon; the arena's contents are then void."""

    def settle(self, program: Program) -> None:
        """Do at once what ``run`` does little by little after its steps, to make later ones fast.
        """

    def sync(self, device: Device) -> None:
        """Wait until everything started on ``device`` is done."""
