"""The stub of a driver notices missing order between streams, also where its own order is right."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from ctypes import byref, c_void_p

import numpy as np
import pytest

from cases import running
from cases.base import Maker
from stub_driver.stub import Stub, at_rest, backend, stub
from stub_driver.test_rules import NO_TIMING, NON_BLOCKING, PAGE, PORTABLE, Calls, on_second
from stub_driver.test_rules import call as call
from unladen.backends._gpu.cuda_like import memory as memories
from unladen.backends._gpu.cuda_like import program
from unladen.backends._gpu.cuda_like.memory import _Access, _Pages
from unladen.backends._gpu.cuda_like.staging import Pinned
from unladen.backends._gpu.cuda_like.streams import Event, Stream
from unladen.backends.base import BackendOptions, Use

N = ctypes.c_size_t(64)
UNORDERED, UNAWAITED = "and nothing orders the two", "and the host hasn't waited for that"
HOST_WRITES = "the host writes what an upload will read"


@pytest.fixture(params=[0, 1], ids=["late", "eager"])
def driver(request: pytest.FixtureRequest) -> Iterator[Stub]:
    """Does its work late or at once."""
    with at_rest() as found:
        found.set("eager", request.param)
        yield found


class Card:
    """Streams, device memory and pinned memory of the first card."""

    def __init__(self, call: Calls) -> None:
        self.call = call
        self.streams = [call.made("cuStreamCreate", NON_BLOCKING) for _ in range(3)]
        self.memory, self.other = (call.made("cuMemAlloc_v2", N) for _ in range(2))
        self.pinned = call.made("cuMemHostAlloc", N, PORTABLE)

    def fill(self, stream: int, at: int = 0, n: int = 64) -> None:
        address = c_void_p((self.memory.value or 0) + at)
        self.call("cuMemsetD8Async", address, 3, ctypes.c_size_t(n), self.streams[stream])

    def copy(self, stream: int) -> None:
        self.call("cuMemcpyDtoDAsync_v2", self.other, self.memory, N, self.streams[stream])

    def upload(self, stream: int) -> None:
        self.call("cuMemcpyHtoDAsync_v2", self.memory, self.pinned, N, self.streams[stream])

    def download(self, stream: int) -> None:
        self.call("cuMemcpyDtoHAsync_v2", self.pinned, self.memory, N, self.streams[stream])

    def event(self, stream: int) -> c_void_p:
        made = self.call.made("cuEventCreate", NO_TIMING)
        self.call("cuEventRecord", made, self.streams[stream])
        return made

    def wait(self, stream: int, event: c_void_p) -> None:
        self.call("cuStreamWaitEvent", self.streams[stream], event, 0)

    def ends(self) -> None:
        """Wait for everything and free it."""
        for stream in self.streams:
            self.call("cuStreamSynchronize", stream)
        for memory in (self.memory, self.other):
            self.call("cuMemFree_v2", memory)
        self.call("cuMemFreeHost", self.pinned)


@pytest.fixture
def card(driver: Stub, call: Calls) -> Iterator[Card]:
    """Leaves no work behind."""
    made = Card(call)
    yield made
    driver.library.stub_finish()


def by_event(card: Card) -> None:
    card.wait(1, card.event(0))


def through_a_third_stream(card: Card) -> None:
    card.wait(2, card.event(0))
    card.wait(1, card.event(2))


def by_waiting(card: Card) -> None:
    card.call("cuStreamSynchronize", card.streams[0])


def by_waiting_for_an_event(card: Card) -> None:
    card.call("cuEventSynchronize", card.event(0))


def by_asking_for_an_event(card: Card) -> None:
    event = card.event(0)
    card.call("cuEventQuery", event, error=600)
    card.call("cuEventQuery", event)


def by_asking_a_stream(card: Card) -> None:
    card.call("cuStreamSynchronize", card.streams[0])
    card.call("cuStreamQuery", card.streams[0])


def by_nothing(card: Card) -> None:
    pass


def by_an_earlier_event(card: Card) -> None:
    """What was recorded before, though the event is recorded again after that."""
    event = card.event(2)
    card.wait(1, event)
    card.call("cuEventRecord", event, card.streams[2])


def by_another_event(card: Card) -> None:
    card.wait(1, card.event(2))


def by_an_answer_that_it_is_not_done(card: Card) -> None:
    card.call("cuEventQuery", card.event(0), error=600)


def the_other_way_round(card: Card) -> None:
    card.wait(0, card.event(1))


ORDERS = (by_event, through_a_third_stream, by_waiting, by_waiting_for_an_event,
          by_asking_for_an_event, by_asking_a_stream)
NO_ORDERS = (by_nothing, by_an_earlier_event, by_another_event, by_an_answer_that_it_is_not_done,
             the_other_way_round)


@pytest.mark.parametrize("order", [*ORDERS, *NO_ORDERS])
def test_what_orders_two_streams(order: Callable[[Card], None], driver: Stub, card: Card) -> None:
    card.fill(0)
    order(card)
    card.fill(1)
    by_waiting(card)  # which is the right order by chance
    driver.library.stub_finish()
    assert len(driver.faults()) == (order in NO_ORDERS)
    for fault in driver.faults():
        assert "64 bytes from 0 on in 64 bytes of card 0" in fault and UNORDERED in fault
        assert fault.count("a fill (number ") == 2
    card.ends()
    assert len(driver.faults()) == (order in NO_ORDERS)


@pytest.mark.parametrize(("first", "second", "conflict"), [
    (Card.fill, Card.copy, True), (Card.copy, Card.fill, True), (Card.copy, Card.copy, True),
    (Card.upload, Card.fill, True), (Card.download, Card.download, True),
    (Card.download, Card.upload, True), (Card.copy, Card.download, False),
    (lambda card, i: card.fill(i, 0, 32), lambda card, i: card.fill(i, 32, 32), False),
    (lambda card, i: card.fill(i, 0, 33), lambda card, i: card.fill(i, 32, 32), True)])
def test_what_conflicts(first: Callable[[Card, int], None], second: Callable[[Card, int], None],
                        conflict: bool, driver: Stub, card: Card) -> None:
    """A write with anything that shares a byte with it, on the device or in pinned memory."""
    card.fill(0)
    for i in (1, 2):
        card.wait(i, card.event(0))
    first(card, 1)
    second(card, 2)
    driver.library.stub_finish()
    assert bool(driver.faults()) == conflict
    assert all(UNORDERED in fault for fault in driver.faults())
    card.ends()


def test_reads_on_several_streams_come_before_a_write(driver: Stub, card: Card) -> None:
    for i in (0, 1):
        card.call("cuMemcpyDtoHAsync_v2", c_void_p((card.pinned.value or 0) + 32 * i), card.memory,
                  ctypes.c_size_t(32), card.streams[i])
    card.wait(2, card.event(1))
    card.fill(2)
    driver.library.stub_finish()
    (fault,) = driver.faults()
    assert "reads them" in fault and "of stream" in fault
    card.ends()


@pytest.mark.parametrize("waits", [False, True])
def test_a_copy_between_cards(waits: bool, driver: Stub, card: Card, call: Calls) -> None:
    """It is on the other card's stream."""
    card.fill(0)
    event = card.event(0)
    back = on_second(call)
    stream, memory = call.made("cuStreamCreate", NON_BLOCKING), call.made("cuMemAlloc_v2", N)
    if waits:
        call("cuStreamWaitEvent", stream, event, 0)
    call("cuMemcpyPeerAsync", memory, c_void_p(2), card.memory, c_void_p(1), N, stream)
    call("cuStreamSynchronize", stream)
    driver.library.stub_finish()
    assert [UNORDERED in fault for fault in driver.faults()] == [True] * (not waits)
    call("cuMemFree_v2", memory)
    back()
    card.ends()


@pytest.mark.parametrize("waits", [False, True])
def test_what_is_freed_is_done(waits: bool, driver: Stub, card: Card) -> None:
    """The host has to know that; that it is so is chance."""
    card.upload(0)
    if waits:
        by_waiting(card)
    card.call("cuMemFreeHost", card.pinned)
    card.call("cuMemFree_v2", card.memory)
    found = driver.faults()
    assert [fault.split()[0] for fault in found] == ["cuMemFreeHost", "cuMemFree"] * (not waits)
    assert all("will use" in fault or UNAWAITED in fault for fault in found)


def test_pages_that_are_unmapped(driver: Stub, card: Card) -> None:
    call, stream = card.call, card.streams[0]
    driver.library.cuMemMap.argtypes = [c_void_p, *(ctypes.c_uint64,) * 2, c_void_p,
                                        ctypes.c_uint64]
    n, zero = ctypes.c_size_t(PAGE), ctypes.c_uint64(0)
    pages, at = c_void_p(), c_void_p()
    call("cuMemAddressReserve", byref(at), n, n, zero, zero)
    for waits in (True, False):
        call("cuMemCreate", byref(pages), n, byref(_Pages(1, 0, 1, 0)), zero)
        call("cuMemMap", at, PAGE, 0, pages, 0)
        call("cuMemSetAccess", at, n, byref(_Access(1, 0, 3)), ctypes.c_size_t(1))
        call("cuMemsetD8Async", at, 0, n, stream)
        if waits:
            by_waiting(card)
        call("cuMemUnmap", at, n)
        assert bool(driver.faults()) == (not waits)
        call("cuMemRelease", pages)
    by_waiting(card)
    call("cuMemAddressFree", at, n)


def test_pinned_memory_while_it_is_copied(driver: Stub, card: Card) -> None:
    """The host may write what an upload reads, and read what a download writes, after these."""
    driver.set("eager", 0)
    data = (ctypes.c_uint8 * 64).from_address(card.pinned.value or 0)
    data[:] = bytes(64)
    card.upload(0)
    by_waiting(card)
    data[3] = 1
    card.download(0)
    assert data[3] == 0x5a
    by_waiting(card)
    assert data[3] == 0 and not driver.faults()
    card.upload(0)
    data[5] = 1
    by_waiting(card)
    assert driver.faults() == [HOST_WRITES]


def test_events_that_were_not_recorded(driver: Stub, call: Calls) -> None:
    """They stand for no work, as cuda.h says of cuEventRecord."""
    event = call.made("cuEventCreate", NO_TIMING)
    for _ in range(2):
        call("cuEventQuery", event)
    assert not driver.faults()
    call("cuEventDestroy_v2", event)
    call("cuEventQuery", event, error=400)


@pytest.mark.parametrize("threads", [32, 96, 64])
def test_the_threads_that_a_kernel_is_compiled_for(threads: int, driver: Stub, card: Card) -> None:
    driver.library.cuLaunchKernel.argtypes = [c_void_p, *(ctypes.c_uint,) * 7, *(c_void_p,) * 3]
    kernel, call = card.call.made("cuModuleLoadData", b"null 64u"), card.call
    call("cuLaunchKernel", kernel, 1, 1, 1, threads, 1, 1, 0, card.streams[0], None, None,
         error=int(threads != 64))
    assert len(driver.faults()) == (threads != 64)
    call("cuModuleUnload", kernel)
    assert (UNAWAITED in "".join(driver.faults())) == (threads == 64)


# The same in the package's own backend, with a fault in it.


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """Runs kernels. The test's faults are its own."""
    monkeypatch.setenv("UNLADEN_KERNEL_CACHE", "")
    found = stub()
    found.reset(runs=True)
    yield found
    found.reset(runs=False)


class Work:
    """An open device, and work with two buffers on it: ``arena``, where kernels add, and
    ``spare``."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.cards = backend("cuda")
        m = Maker(rng, 1, n_seqs=1)
        self.bench = running.Bench(self.cards, m.case("add", m.input("T", 16), m.input("T", 16)))
        self.spare = self.cards.alloc(self.bench.device, 64, "arena")
        self.gpu, self.data = self.cards.gpu("cuda:0"), np.zeros(64, np.uint8)
        self.fetched: list[object] = []  # its memory is freed after a wait for the device
        self.cards.run(self.bench.program)
        self.gpu.wait()

    def run(self) -> None:
        self.cards.run(self.bench.program)

    def copy(self) -> None:
        self.cards.copy(self.spare, 0, self.bench.arena, 0, 64)

    def copy_back(self) -> None:
        self.cards.copy(self.bench.arena, 0, self.spare, 0, 64)

    def write(self) -> None:
        self.cards.write(self.bench.arena, self.data)

    def fetch(self) -> None:
        self.fetched.append(self.cards.fetch(self.bench.arena, self.bench.arena.nbytes))

    def fetch_spare(self) -> None:
        self.fetched.append(self.cards.fetch(self.spare, 64))

    def write_ahead(self) -> None:
        self.cards.write_ahead(self.spare, self.data, after=self.cards.mark(self.spare.device))()


@pytest.mark.parametrize(("waiter", "first", "works"), [
    ("compute", "uploads", (Work.write, Work.run)), ("uploads", "compute", (Work.run, Work.write)),
    ("downloads", "compute", (Work.run, Work.fetch)),
    ("compute", "downloads", (Work.fetch, Work.run)),
    ("downloads", "uploads", (Work.write, Work.fetch)),
    ("uploads", "downloads", (Work.fetch, Work.write)),
    ("ahead", "compute", (Work.copy, Work.write_ahead)),
    ("ahead", "downloads", (Work.fetch_spare, Work.write_ahead)),
    ("compute", "ahead", (Work.write_ahead, Work.copy_back))])
@pytest.mark.parametrize("eager", [0, 1])
def test_streams_that_do_not_wait(waiter: str, first: str, eager: int,
                                  works: tuple[Callable[[Work], None], ...], faulty: Stub,
                                  rng: np.random.Generator,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wait of one stream for another is missed, even where the work is done in order."""
    work, wait_for = Work(rng), Stream.wait_for
    faulty.set("eager", eager)
    n_forgotten = 0

    def forgetful(stream: Stream, event: Event) -> None:
        nonlocal n_forgotten
        streams = [getattr(work.gpu, name) for name in (waiter, first)]
        forgets = [stream, event.stream] == streams
        n_forgotten += forgets
        if not forgets:
            wait_for(stream, event)

    for each in works:
        each(work)
    faulty.check()
    work.gpu.wait()
    monkeypatch.setattr(Stream, "wait_for", forgetful)
    for each in works:
        each(work)
    faulty.library.stub_finish()
    assert n_forgotten and faulty.faults()
    assert all(UNORDERED in fault for fault in faulty.faults())


def test_weights_that_arrive_unordered(faulty: Stub, rng: np.random.Generator,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel writes none of their memory, so it counts as read."""
    cards = backend("cuda")
    m = Maker(rng, 1, n_seqs=1)
    bench = running.Bench(cards, m.case("embed", m.g.inputs["tokens"],
                                        weights={"w": m.weight("w", 50, 8, quant="F32")}))
    placed = bench.placed["w"]
    cards.gpu("cuda:0").wait()
    monkeypatch.setattr(Stream, "wait_for", lambda self, event: None)
    cards.write(placed.buffer, np.zeros(64, np.uint8), placed.offset)
    cards.run(bench.program)
    faulty.library.stub_finish()
    (fault,) = faulty.faults()
    assert "the kernel embed" in fault and "an upload" in fault and UNORDERED in fault


@pytest.mark.parametrize("use", ["arena", "kv"])
def test_memory_that_is_freed_without_waiting(use: Use, faulty: Stub,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "wait_for", lambda touched, streams: None)
    faulty.set("eager", 1)
    cards = backend("cuda")
    buffer = cards.alloc(cards.open("cuda", BackendOptions()), 40 * PAGE, use)
    cards.write(buffer, np.zeros(64, np.uint8))
    assert not faulty.faults()
    del buffer
    assert UNAWAITED in faulty.faults()[0]


def test_words_of_a_step_before_the_last_ones_are_copied(faulty: Stub, rng: np.random.Generator,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pinned, "wait", lambda self: None)
    cards = backend("cuda")
    m = Maker(rng, 2, n_seqs=1)
    bench = running.Bench(cards, m.case("add", m.input("T", 16), m.input("T", 16)))
    for n_tokens in (1, 1, 2, 2):
        m.batch.n_tokens = n_tokens
        cards.run(bench.program)
    faulty.library.stub_finish()
    assert faulty.faults() == [HOST_WRITES] * 2


def test_a_launch_with_other_threads(faulty: Stub, rng: np.random.Generator,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    class Twice(program.Bound):
        """Gives its workgroups twice as many threads."""

        def __init__(self, *values: object) -> None:
            kernel, arguments, threads, *others = values
            super().__init__(kernel, arguments, 2 * threads, *others)  # type: ignore

    monkeypatch.setattr(program, "Bound", Twice)
    cards = backend("cuda")
    m = Maker(rng, 1, n_seqs=1)
    bench = running.Bench(cards, m.case("add", m.input("T", 16), m.input("T", 16)))
    with pytest.raises(Exception, match=r"cuLaunchKernelEx failed: \w+ \(1\)"):
        cards.run(bench.program)
    assert "and the kernel add is compiled for" in faulty.faults()[0]
