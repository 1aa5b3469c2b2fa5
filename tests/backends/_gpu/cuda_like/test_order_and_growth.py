"""Streams, memory that grows, several cards, and how long things live."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from backends import test_order
from cases import running
from cases.base import Maker
from delayed import DelayedBackend
from delayed import delayed as delayed
from stub_driver.stub import Stub, backend, installed, stub
from unladen.backends._gpu.cuda_like import memory, program, staging
from unladen.backends._gpu.cuda_like.backend import CudaLikeBackend
from unladen.backends._gpu.cuda_like.buffers import of_gpu
from unladen.backends._gpu.cuda_like.memory import Growing
from unladen.backends._gpu.cuda_like.streams import Event
from unladen.backends.base import BackendOptions, KVLayout, Use
from unladen.errors import OutOfMemory, UnladenError
from unladen.graph.graph import KVSpec

Rng = np.random.Generator
OPTIONS = BackendOptions()
PAGE = 64 << 10


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setenv("UNLADEN_KERNEL_CACHE", "")
    found = stub()
    found.reset(runs=True)
    yield found
    gc.collect()
    found.check()


@pytest.mark.parametrize("names", [("cuda", "cuda"), ("cuda", "cpu"), ("reference", "cuda"),
                                   ("hip", "hip"), ("cuda", "hip")], ids="-".join)
@pytest.mark.parametrize("n_cards", [1, 2])
def test_any_order(names: tuple[str, str], n_cards: int, delayed: DelayedBackend, rng: Rng) -> None:
    """Random orders to two devices, on one card or on two, the work as late as it may be."""
    with installed(names[0] if names[0] in ("cuda", "hip") else names[1],
                   n_cards=n_cards) as driver:
        driver.set("peers", int(rng.integers(2)))
        if set(names) == {"cuda", "hip"}:
            with installed("hip", n_cards=n_cards):
                test_order.test_any_order(names, delayed, rng)
        else:
            test_order.test_any_order(names, delayed, rng)


@pytest.mark.parametrize("name", ["cuda", "hip"])
def test_bytes_that_are_written_ahead(name: str, delayed: DelayedBackend, rng: Rng) -> None:
    with installed(name):
        test_order.test_bytes_that_are_written_ahead(name, delayed, rng)


def test_bytes_arrive_before_the_work_that_was_started(driver: Stub, rng: Rng) -> None:
    """They wait for the mark alone."""
    cards = backend("cuda")
    m = Maker(rng, 1, n_seqs=1)
    bench = running.Bench(cards, m.case("add", m.input("T", 16), m.input("T", 16)))
    weights = cards.alloc(bench.device, 4096, "weights")
    gpu = cards.gpu("cuda:0")
    gpu.wait()
    mark = cards.mark(bench.device)
    cards.run(bench.program)
    arrive = cards.write_ahead(weights, np.full(4096, 7, np.uint8), after=mark)
    gpu.ahead.wait()
    assert not driver.count("kernels run") and cards.gpu("cuda:0").compute is gpu.compute
    arrive()
    assert (cards.read(weights, 4096) == 7).all() and driver.count("kernels run") == 1


def test_large_uploads_go_through_pinned_memory(driver: Stub, rng: Rng,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "RING_BYTES", 10_000)
    monkeypatch.setattr(staging, "PIECE_BYTES", 3_000)
    cards = backend("cuda")
    device = cards.open("cuda", OPTIONS)
    buffers = [cards.alloc(device, 70_000, "weights") for _ in range(3)]
    truth = [np.zeros(70_000, np.uint8) for _ in buffers]
    for _ in range(60):
        i, start = rng.integers(3), int(rng.integers(60_000))
        data = rng.integers(0, 256, int(rng.integers(1, 10_000)), np.uint8)
        cards.write(buffers[i], data, start)
        truth[i][start:start + data.size] = data
        data[:] = 0
    for mine, wanted in zip(buffers, truth, strict=True):
        np.testing.assert_array_equal(cards.read(mine, 70_000), wanted)


def test_cards_copy_directly(driver: Stub) -> None:
    driver.set("devices", 2)
    cards = backend("cuda")
    a, b = (cards.alloc(cards.open(f"cuda:{i}", OPTIONS), 4096, "arena") for i in range(2))
    data = np.arange(4096, dtype=np.uint16).view(np.uint8)[:4096]
    cards.write(a, data)
    for _ in range(2):
        assert cards.copy(b, 0, a, 0, 4096)
    np.testing.assert_array_equal(cards.read(b, 4096), data)
    assert driver.count("cuMemcpyPeerAsync") == 2 and driver.count("cuCtxEnablePeerAccess") == 1


@pytest.mark.parametrize("error", [217, 711])
def test_cards_that_refuse_copies_between_them(driver: Stub, error: int) -> None:
    """The driver takes the bytes through the host: so it does for more peers than it can have."""
    driver.set("devices", 2)
    cards = backend("cuda")
    a, b = (cards.alloc(cards.open(f"cuda:{i}", OPTIONS), 4096, "arena") for i in range(2))
    cards.write(a, np.full(4096, 3, np.uint8))
    driver.fail("cuCtxEnablePeerAccess", error)
    assert cards.copy(b, 0, a, 0, 4096)
    assert (cards.read(b, 4096) == 3).all() and driver.count("cuCtxEnablePeerAccess") == 1


@pytest.mark.parametrize("use", ["arena", "kv"])
@pytest.mark.parametrize("name", ["cuda", "hip"])
def test_a_copy_to_another_card_outlives_its_source(driver: Stub, name: str, use: Use) -> None:
    """It is on a stream of the other card, and memory is freed after it."""
    driver.set("devices", 2)
    cards = backend(name)
    devices = [cards.open(f"{name}:{i}", OPTIONS) for i in range(2)]
    for discards in (True, False):
        a, b = cards.alloc(devices[0], 40 * PAGE, use), cards.alloc(devices[1], 4096, "arena")
        cards.write(a, np.full(4096, 5, np.uint8))
        assert cards.copy(b, 0, a, 0, 4096)
        if discards:
            cards.discard(a, densely_used=True)
        del a
        gc.collect()
        assert (cards.read(b, 4096) == 5).all()


def test_what_is_freed_leaves_a_thread_its_card(driver: Stub) -> None:
    """Objects of another card may be freed between any two calls of a thread."""
    driver.set("devices", 2)
    cards = backend("cuda")
    first, second = (cards.open(f"cuda:{i}", OPTIONS) for i in range(2))
    buffer = cards.alloc(second, 4096, "arena")
    cards.alloc(first, 4096, "arena")
    cards.gpu("cuda:0").context.enter()
    before = driver.count("cuMemFree_v2")
    del buffer
    assert driver.count("cuMemFree_v2") > before and driver.current() == 0


def test_streams_that_are_finalized_first(driver: Stub, rng: Rng) -> None:
    """Python orders no objects of a cycle: memory, events and kernels may come after streams."""
    cards = backend("cuda")
    m = Maker(rng, 1, n_seqs=1)
    bench = running.Bench(cards, m.case("add", m.input("T", 16), m.input("T", 16)))
    buffer = cards.alloc(bench.device, 4096, "arena")
    cards.run(bench.program)
    gpu, mark = cards.gpu("cuda:0"), cards.mark(bench.device)
    for stream in (*gpu.streams, gpu.recorded):
        stream.__del__()
    assert driver.count("cuStreamDestroy_v2") == 5 and driver.count("kernels run") == 1
    cards.close(bench.device)
    del buffer, bench, mark, stream, gpu, cards
    gc.collect()
    assert driver.count("cuStreamDestroy_v2") == 5
    assert driver.count("cuEventCreate") == driver.count("cuEventDestroy_v2")


def test_everything_is_given_back(driver: Stub, rng: Rng) -> None:
    """Nothing of the driver outlives the device."""
    gc.collect()
    before = driver.n_blocks(), driver.used_bytes()
    for name in ("cuda", "hip"):
        cards = backend(name)
        m = Maker(rng, 1, n_seqs=1)
        bench = running.Bench(cards, m.case("add", m.input("T", 16), m.input("T", 16)))
        bench.run()
        assert driver.used_bytes() > before[1]
        cards.close(bench.device)
        del bench, cards
        gc.collect()
        assert (driver.n_blocks(), driver.used_bytes()) == before
    for made, freed in (("cuGraphInstantiateWithFlags", "cuGraphExecDestroy"),
                        ("cuStreamCreate", "cuStreamDestroy_v2"),
                        ("cuEventCreate", "cuEventDestroy_v2"),
                        ("cuModuleLoadData", "cuModuleUnload"),
                        ("cuMemHostAlloc", "cuMemFreeHost"),
                        ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2")):
        assert driver.count(made) == driver.count(freed) > 0, made


def cache(cards: CudaLikeBackend, nbytes: int) -> Growing:
    buffer = of_gpu(cards.alloc(cards.open("cuda", OPTIONS), nbytes, "kv"))
    (part,) = buffer.parts
    assert isinstance(part.buffer, Growing)
    return part.buffer


def test_a_cache_takes_what_it_holds(driver: Stub) -> None:
    cards = backend("cuda")
    device = cards.open("cuda", OPTIONS)
    cards.sync(device)
    free, used = cards.free_bytes(device), driver.used_bytes()
    buffer = cards.alloc(device, 40 * PAGE, "kv")
    assert driver.used_bytes() == used
    assert cards.free_bytes(device) == free - 40 * PAGE  # it may still need them
    cards.write(buffer, np.full(100, 7, np.uint8), 3 * PAGE)
    assert used < driver.used_bytes() - (16 << 20) * 0 <= used + 6 * PAGE
    assert cards.free_bytes(device) == free - 40 * PAGE
    data = cards.read(buffer, 4 * PAGE)
    assert (data[3 * PAGE:3 * PAGE + 100] == 7).all() and data.sum() == 700
    cards.discard(buffer, densely_used=True)
    assert driver.used_bytes() == used and cards.free_bytes(device) == free - 40 * PAGE
    assert not cards.read(buffer, 40 * PAGE).any()
    del buffer, data
    assert cards.free_bytes(device) == free and driver.used_bytes() == used


@pytest.mark.parametrize("target", ["cuda:1", "cuda:0", "reference:0"])
def test_a_cache_that_moves_takes_what_it_holds(driver: Stub, target: str) -> None:
    """On both sides. What the target held before is gone, as in any copy."""
    driver.set("devices", 2)
    cards = backend("cuda")
    devices = [cards.open(f"cuda:{i}", OPTIONS) for i in range(2)]
    source = cards.alloc(devices[0], 400 * PAGE, "kv")
    data = np.arange(3 * PAGE, dtype=np.uint32).view(np.uint8)[:3 * PAGE]
    cards.write(source, data)
    cards.gpu("cuda:0").wait()
    used = [driver.used_bytes(i) for i in range(2)]
    if target == "reference:0":
        whole = cards.read(source, source.nbytes)
        assert driver.used_bytes(0) == used[0]
    else:
        to = cards.alloc(devices[int(target[-1])], 401 * PAGE, "kv")
        for older in (0, 5, 20):
            cards.write(to, np.full(older * PAGE, 9, np.uint8))
            assert cards.copy(to, 0, source, 0, source.nbytes)
            grown = sum(driver.used_bytes(i) for i in range(2)) - sum(used)
            assert 3 * PAGE <= grown <= max(5, 3 * older // 2) * PAGE
        whole = cards.read(to, source.nbytes)
    np.testing.assert_array_equal(whole[:3 * PAGE], data)
    assert not whole[3 * PAGE:].any()
    part = cards.alloc(devices[0], 2 * PAGE, "arena")
    cards.write(part, np.full(2 * PAGE, 9, np.uint8))
    for offset, n in ((300 * PAGE, 0), (2 * PAGE, PAGE)):  # none of it has memory, and a half
        assert cards.copy(part, 0, source, offset, 2 * PAGE)
        assert (cards.read(part, 2 * PAGE) != 0).any() == bool(n)
    np.testing.assert_array_equal(cards.read(part, PAGE), data[2 * PAGE:])
    assert not cards.read(part, PAGE, PAGE).any()


@pytest.mark.parametrize("function", ["cuMemCreate", "cuMemMap", "cuMemSetAccess"])
def test_a_cache_that_cannot_grow_now(driver: Stub, function: str) -> None:
    """It grows the next time, and has taken nothing."""
    cards = backend("cuda")
    device = cards.open("cuda", OPTIONS)
    buffer = cards.alloc(device, 40 * PAGE, "kv")
    cards.write(buffer, np.full(PAGE, 3, np.uint8))
    free, used = cards.free_bytes(device), driver.used_bytes()
    for error in (1, 2):
        driver.fail(function, error)
        with pytest.raises(OutOfMemory if error == 2 else UnladenError):
            cards.write(buffer, np.full(100, 7, np.uint8), 9 * PAGE)
        assert (cards.free_bytes(device), driver.used_bytes()) == (free, used)
    cards.write(buffer, np.full(100, 7, np.uint8), 9 * PAGE)
    assert cards.read(buffer, 40 * PAGE).sum() == 3 * PAGE + 700


def test_steps_make_the_cache_grow(driver: Stub, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step whose blocks lie further back than all before."""
    monkeypatch.setattr(memory, "LEAST_GROWING", 1)
    cards = backend("cuda")
    m = Maker(rng, 2, n_seqs=1, max_history=0, kv_types=("F32", "F32"))
    limits = m.limits.__class__(2, 2, 2, 4, 64)
    m.limits, m.layout = limits, KVLayout(32, 64, "F32", "F32")
    m.batch = m.batch.empty(limits)
    batch = m.batch
    batch.n_tokens = batch.n_outputs = batch.n_seqs = 2
    batch.positions[:], batch.kv_len[:], batch.seq_of[:] = [5, 70], [6, 71], [0, 1]
    batch.q_start[:] = [0, 1, 2]
    batch.block_table[:] = [[2, 0, 0, 0], [1, 0, 3, 0]]
    spec = KVSpec(0, 2, 64, 64)
    case = m.case("kv_write", m.input("T", 128), m.input("T", 128), state=spec,
                  kv=m.cache(spec))
    bench = running.Bench(cards, case)
    k = of_gpu(bench._kv[0].k).parts[0].buffer
    assert isinstance(k, Growing) and k._mapped == 0
    cards.run(bench.program)
    few = k._mapped
    assert 0 < few < k.nbytes
    batch.block_table[1, 2] = 63
    running.check(case, bench.run(), precise=True, what="growth")
    for mine, wanted in zip(bench.cache(), running.on_paper(case)[2], strict=True):
        np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize("value", ["1", "0"])
def test_plain_memory_where_it_is_asked_for(driver: Stub, value: str,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLADEN_CUDA_NO_VMM", value)
    cards = backend("cuda")
    cards.alloc(cards.open("cuda", OPTIONS), 40 * PAGE, "kv")
    assert driver.count("cuMemAddressReserve") == (value == "0")


def test_plain_memory_on_cards_without_pages(driver: Stub) -> None:
    """Their driver has the functions, and says that they aren't supported."""
    driver.set("no pages", 1)
    cards = backend("cuda")
    device = cards.open("cuda", OPTIONS)
    buffer = cards.alloc(device, 40 * PAGE, "kv")
    assert not driver.count("cuMemAddressReserve") and not cards.read(buffer, 40 * PAGE).any()
    driver.set("no pages", 0)
    driver.fail("cuMemGetAllocationGranularity", 1)
    with pytest.raises(UnladenError, match=r"cuMemGetAllocationGranularity failed: \w+ \(1\)"):
        cards.alloc(device, 40 * PAGE, "kv")


@pytest.mark.parametrize("function", ["cuMemAddressReserve", "cuMemCreate"])
def test_plain_memory_where_pages_turn_out_not_to_be_there(driver: Stub, function: str) -> None:
    """Some systems tell the size of a page, and say later that it isn't supported."""
    cards = backend("cuda")
    device = cards.open("cuda", OPTIONS)
    used = driver.used_bytes()
    for error in (801, 1):
        driver.fail(function, error)
        if error == 1:
            with pytest.raises(UnladenError, match=rf"{function} failed: \w+ \(1\)"):
                cards.alloc(device, 40 * PAGE, "kv")
            continue
        buffer = cards.alloc(device, 40 * PAGE, "kv")
        assert driver.used_bytes() == used + 40 * PAGE and not cards.read(buffer, 40 * PAGE).any()
    assert driver.count("cuMemAddressFree") == 2 * (function == "cuMemCreate")
    cards.alloc(device, 40 * PAGE, "kv")
    assert driver.used_bytes() == used + 40 * PAGE


def test_binaries_are_kept(driver: Stub, rng: Rng, tmp_path: Path,
                           monkeypatch: pytest.MonkeyPatch) -> None:
    """The next process compiles nothing; a damaged file is compiled again."""
    monkeypatch.setenv("UNLADEN_KERNEL_CACHE", str(tmp_path))
    m = Maker(rng, 4)
    case = m.case("add", m.input("T", 16), m.input("T", 16))
    for n_compiled in (1, 1, 2):
        running.check(case, running.Bench(backend("cuda"), case).run(), precise=True, what="kept")
        assert driver.count("compiled") == n_compiled
        (path,) = tmp_path.iterdir()
        if n_compiled == 1 and driver.count("cuModuleLoadData") == 2:
            path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("error", [200, 209, 218, 222])
def test_a_kept_binary_that_the_driver_refuses(driver: Stub, rng: Rng, error: int, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """It is compiled once more and kept. What the driver refuses then is an error."""
    monkeypatch.setenv("UNLADEN_KERNEL_CACHE", str(tmp_path))
    m = Maker(rng, 4)
    case = m.case("add", m.input("T", 16), m.input("T", 16))
    running.Bench(backend("cuda"), case)
    driver.fail("cuModuleLoadData", error)
    running.check(case, running.Bench(backend("cuda"), case).run(), precise=True, what="anew")
    assert driver.count("compiled") == 2
    running.Bench(backend("cuda"), case)
    assert driver.count("compiled") == 2
    cards = backend("cuda")
    functions = cards.gpu(cards.open("cuda", OPTIONS).name).context.driver.functions
    monkeypatch.setitem(functions, "load", lambda *_: error)
    with pytest.raises(UnladenError, match=rf"cuModuleLoadData failed: \w+ \({error}\)"):
        running.Bench(cards, case)
    assert driver.count("compiled") == 3


@pytest.mark.parametrize("n_tokens", [1, 3])
def test_steps_that_nobody_waits_for(driver: Stub, rng: Rng, n_tokens: int) -> None:
    """Each step gets its own words, though the host is several steps ahead."""
    cards = backend("cuda")
    m = Maker(rng, n_tokens, n_seqs=1)
    table = rng.standard_normal((50, 8)).astype(np.float32)
    case = m.case("embed", m.g.inputs["tokens"], weights={"w": m.weight("w", 50, 8, quant="F32")})
    bench = running.Bench(cards, case)
    placed = bench.placed["w"]
    cards.write(placed.buffer, table.view(np.uint8).reshape(-1), placed.offset)
    (y,), waits = case.node.outputs, []
    for _ in range(7):
        tokens = rng.integers(0, 50, n_tokens)
        m.batch.tokens[:n_tokens] = tokens
        cards.run(bench.program)
        waits.append((cards.fetch(bench.arena, 32 * n_tokens, bench.offsets[y]), tokens))
    for wait, tokens in waits:
        np.testing.assert_array_equal(wait().view(np.float32).reshape(-1, 8), table[tokens])


@pytest.mark.parametrize("ends", ["launch", "interrupt"])
def test_work_after_a_step_that_ends_early(driver: Stub, rng: Rng, ends: str,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes after what the step had started, whose words stay as they are until then."""
    cards = backend("cuda")
    m = Maker(rng, 3, n_seqs=1)
    case = m.case("concat", m.input("T", 16), m.input("T", 16))
    bench = running.Bench(cards, case)
    gpu, (y,) = cards.gpu("cuda:0"), case.node.outputs
    gpu.wait()
    with monkeypatch.context() as patch:
        patch.setattr(program, "LAUNCHES_AT_ONCE", 1)
        if ends == "launch":
            driver.fail("cuLaunchKernel", 1, after=1)
        else:
            def interrupted(_: Event) -> None:
                raise KeyboardInterrupt
            patch.setattr(Event, "wait", interrupted)
        with pytest.raises(UnladenError if ends == "launch" else KeyboardInterrupt):
            cards.run(bench.program)
    assert not driver.count("kernels run")
    cards.write(bench.arena, np.full(3 * 32 * 4, 7, np.uint8), bench.offsets[y])
    gpu.wait()
    assert driver.count("kernels run") == 1 + (ends == "interrupt")
    assert (cards.read(bench.arena, 3 * 32 * 4, bench.offsets[y]) == 7).all()
    running.check(case, bench.run(), precise=True, what="the next step")


def test_a_fetch_ends_the_one_before_it(driver: Stub) -> None:
    """Through one buffer, though nobody waited for the first."""
    cards = backend("cuda")
    device = cards.open("cuda", OPTIONS)
    buffer, staging_buffer = (cards.alloc(device, 64, use) for use in ("arena", "staging"))
    cards.write(buffer, np.full(64, 1, np.uint8))
    cards.fetch(buffer, 64, 0, staging_buffer)
    cards.write(buffer, np.full(64, 2, np.uint8))
    assert (cards.fetch(buffer, 64, 0, staging_buffer)() == 2).all()
    assert driver.count("cuMemcpyDtoHAsync_v2") == 2
