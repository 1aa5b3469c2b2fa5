"""A backend whose devices do later what they are told: each has a thread and a queue of its own.

Weights that are written ahead have a second thread and queue for each device. It computes by the
reference. ``log`` says what was started, done and waited for, in order. Devices
can be stopped; the host may then tell them what to do, but not wait for them.
"""

from __future__ import annotations

import copy
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pytest

import unladen.backends
from unladen.backends._host import HostBuffer
from unladen.backends.base import (
    Backend,
    BackendOptions,
    Buffer,
    Device,
    Mark,
    Placed,
    PlacedKV,
    Program,
    Segment,
    Use,
    device_number,
)
from unladen.backends.reference.backend import ReferenceBackend, ReferenceProgram
from unladen.errors import BackendNotInitialised
from unladen.graph.graph import Node, Weight
from unladen.graph.ops import registry

Bytes = npt.NDArray[np.uint8]

PATIENCE = 600.0
"""Seconds after which a thread that waits for another one gives up: the test has failed then."""


@dataclass(frozen=True, slots=True)
class Event:
    """``kind``: "start" by the host, "done" by the device, or "wait" of the host."""

    kind: str
    device: str
    what: str


class _Worker:
    """The thread of a device."""

    def __init__(self, name: str, log: list[Event], rng: np.random.Generator) -> None:
        self.name, self.log = name, log
        self.orders: queue.Queue[tuple[str, Callable[[], None]] | None] = queue.Queue()
        self.may_work = threading.Event()
        self.may_work.set()
        self.delays = rng.uniform(0, 1e-3, 50)
        self.errors: list[BaseException] = []
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        n = 0
        while (order := self.orders.get()) is not None:
            self.may_work.wait(PATIENCE)
            time.sleep(self.delays[n % len(self.delays)])
            n += 1
            try:
                order[1]()
            except BaseException as error:  # noqa: BLE001 - whoever waits raises it
                self.errors.append(error)
            self.log.append(Event("done", self.name, order[0]))

    def start(self, what: str, action: Callable[[], None]) -> None:
        self.log.append(Event("start", self.name, what))
        self.orders.put((what, action))

    def wait(self, done: threading.Event, what: str) -> None:
        self.log.append(Event("wait", self.name, what))
        assert self.may_work.is_set(), f"the host waits for {self.name}, which is stopped: {what}"
        assert done.wait(PATIENCE), f"{self.name} never came to {what}"
        if self.errors:
            raise self.errors[0]


@dataclass(frozen=True, slots=True)
class DelayedBuffer:
    """Memory of a device, which its thread alone touches."""

    device: Device
    data: Bytes

    @property
    def nbytes(self) -> int:
        """How large it is."""
        return self.data.nbytes


@dataclass(slots=True)
class DelayedProgram:
    """A segment over the same memory for the reference, and the one that the plan gave."""

    segment: Segment
    inner: ReferenceProgram


@dataclass(eq=False)
class DelayedBackend(Backend):
    """See the module. ``lacking``: ops that its devices don't have."""

    rng: np.random.Generator
    lacking: Sequence[str] = ()
    name: str = "delayed"
    log: list[Event] = field(default_factory=list)
    workers: dict[str, _Worker] = field(default_factory=dict)
    copiers: dict[str, _Worker] = field(default_factory=dict)
    n_closed: int = 0

    def open(self, device: str, options: BackendOptions) -> Device:
        number = device_number(device)
        name = f"delayed:{number}"
        if name not in self.workers:
            self.workers[name] = _Worker(name, self.log, self.rng)
        return Device(name, "a thread", 1 << 40, runs_ahead=True, writes_ahead=True,
                      copies_to_peers=True)

    def close(self, device: Device) -> None:
        worker = self.workers.pop(device.name, None)
        if worker is not None:
            self.n_closed += 1
            copier = self.copiers.pop(device.name, None)
            for each in [worker] if copier is None else [copier, worker]:
                each.may_work.set()
                each.orders.put(None)
                each.thread.join(PATIENCE)

    def worker(self, device: Device) -> _Worker:
        if device.name not in self.workers:
            raise BackendNotInitialised(f"{device.name} is closed", hint="open it")
        return self.workers[device.name]

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """No device goes on meanwhile."""
        workers = list(self.workers.values())
        for worker in workers:
            worker.may_work.clear()
        try:
            yield
        finally:
            for worker in workers:
                worker.may_work.set()

    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> DelayedBuffer:
        self.worker(device)
        return DelayedBuffer(device, np.zeros(nbytes, np.uint8))

    def write(self, dst: Buffer, src: Bytes, offset: int = 0) -> None:
        target, data = _own(dst), src.copy()

        def action() -> None:
            target.data[offset:offset + data.nbytes] = data
        self.worker(dst.device).start("write", action)

    def mark(self, device: Device) -> threading.Event:
        reached = threading.Event()
        self.worker(device).start("mark", reached.set)
        return reached

    def write_ahead(self, dst: Buffer, src: Bytes, offset: int = 0, *, after: Mark
                    ) -> Callable[[], None]:
        assert isinstance(after, threading.Event)
        target, worker, done = _own(dst), self.worker(dst.device), threading.Event()
        if dst.device.name not in self.copiers:
            self.copiers[dst.device.name] = _Worker(f"{dst.device.name} copies", self.log, self.rng)

        def action() -> None:
            assert after.wait(PATIENCE), "the mark never came"
            target.data[offset:offset + src.nbytes] = src
            done.set()
        self.copiers[dst.device.name].start("write ahead", action)

        def wait() -> None:
            assert done.wait(PATIENCE), "the bytes never came"
        return lambda: worker.start("arrive", wait)

    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> Bytes:
        return self.fetch(src, nbytes, offset)()

    def fetch(self, src: Buffer, nbytes: int, offset: int = 0, staging: Buffer | None = None
              ) -> Callable[[], Bytes]:
        worker, done = self.worker(src.device), threading.Event()
        source = _own(src).data[offset:offset + nbytes]
        through = (np.empty(nbytes, np.uint8) if staging is None
                   else _own(staging).data[:nbytes])
        assert through.nbytes == nbytes, "the staging buffer is too small"

        def action() -> None:
            through[:] = source
            done.set()
        worker.start("fetch", action)

        def wait() -> Bytes:
            worker.wait(done, "fetch")
            return through
        return wait

    def copy(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, nbytes: int) -> bool:
        source = _own(src).data[src_offset:src_offset + nbytes]
        target = _own(dst).data[dst_offset:dst_offset + nbytes]
        line: queue.Queue[Bytes] = queue.Queue(1)
        self.worker(src.device).start("send", lambda: line.put(source.copy()))

        def receive() -> None:
            target[:] = line.get(timeout=PATIENCE)
        self.worker(dst.device).start("receive", receive)
        return True

    def supports(self, device: Device, node: Node) -> bool:
        return node.op in registry() and node.op not in self.lacking

    def weight_format(self, device: Device, node: Node, weight: Weight) -> str | None:
        return weight.quant

    def compile(self, segment: Segment) -> Program:
        def host(buffer: Buffer) -> HostBuffer:
            assert buffer.device == segment.device, "a segment holds what is on its device"
            return HostBuffer(buffer.device, _own(buffer).data)
        inner = replace(
            segment, arena=host(segment.arena), batch=copy.deepcopy(segment.batch),
            weights={n: Placed(p.weight, host(p.buffer), p.offset, p.quant)
                     for n, p in segment.weights.items()},
            kv={n: PlacedKV(p.spec, p.layout, host(p.k), host(p.v))
                for n, p in segment.kv.items()},
            slots={n: host(b) for n, b in segment.slots.items()})
        return DelayedProgram(segment, ReferenceProgram(inner))

    def run(self, program: Program) -> None:
        assert isinstance(program, DelayedProgram)
        inner, batch = program.inner, copy.deepcopy(program.segment.batch)
        first = program.segment.nodes[0].name

        def action() -> None:
            # Weights may be others in the next step, where they are streamed through the device.
            step = ReferenceProgram(replace(inner.segment, batch=batch))
            ReferenceBackend().run(step)
        self.worker(program.segment.device).start(f"run {first}", action)

    def sync(self, device: Device) -> None:
        worker, done = self.worker(device), threading.Event()
        worker.start("sync", done.set)
        worker.wait(done, "sync")


def _own(buffer: Buffer) -> DelayedBuffer:
    assert isinstance(buffer, DelayedBuffer), buffer
    return buffer


@contextmanager
def registered(backend: DelayedBackend) -> Iterator[DelayedBackend]:
    """Devices of ``backend`` are found by name meanwhile."""
    others = unladen.backends._named
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unladen.backends, "_named",
                      lambda name: backend if name == backend.name else others(name))
        yield backend
        for name in list(backend.workers):
            backend.close(Device(name, "", 0))


@pytest.fixture
def delayed(rng: np.random.Generator) -> Iterator[DelayedBackend]:
    """Any number of devices "delayed:0", "delayed:1", ..."""
    with registered(DelayedBackend(rng)) as backend:
        yield backend
