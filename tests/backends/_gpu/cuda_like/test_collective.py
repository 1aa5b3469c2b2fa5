"""Sums over several cards by NCCL's functions, on the stub of the driver; and its header."""

from __future__ import annotations

import gc
import importlib.util
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from ctypes import POINTER, c_int, c_uint64, c_void_p
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stub_driver.stub import Stub, backend, installed, stub
from tiny_plan import fill
from unladen import Model
from unladen.backends._gpu import opened
from unladen.backends._gpu.cuda_like import collective
from unladen.backends._gpu.cuda_like.backend import CudaLikeBackend
from unladen.backends._gpu.cuda_like.memory import Memory
from unladen.backends._gpu.cuda_like.vendor import COLLECTIVES
from unladen.backends.base import BackendOptions, Buffer
from unladen.errors import DeviceLost, UnladenError

N = 1000
"""Numbers of a value: no multiple of the number of cards."""
FIXED = ("NCCL_NVLS_ENABLE", "0")
Numbers = np.ndarray[Any, np.dtype[np.float32]]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setenv("UNLADEN_KERNEL_CACHE", "")
    monkeypatch.setenv(*FIXED)
    found = stub()
    found.reset(runs=False)
    found.set("devices", 3)
    gc.collect()  # what other tests left waits for its work when it is freed
    yield found
    found.check()


class Cards:
    """A buffer on each of ``n`` cards: a part, and after it the total."""

    def __init__(self, cards: CudaLikeBackend, n: int) -> None:
        self.cards, self.n = cards, n
        self.devices = [cards.open(f"{cards.name}:{i}", BackendOptions()) for i in range(n)]
        self.buffers: list[Buffer] = [cards.alloc(d, 8 * N, "arena") for d in self.devices]
        self.group = cards.collective(self.devices)

    def write(self, parts: Sequence[Numbers]) -> None:
        for buffer, part in zip(self.buffers, parts, strict=True):
            self.cards.write(buffer, part.view(np.uint8))

    def add(self, count: int = N) -> None:
        self.group.all_reduce([(b, 0) for b in self.buffers], [(b, 4 * N) for b in self.buffers],
                              count)

    def total(self, i: int) -> Numbers:
        return self.cards.read(self.buffers[i], 4 * N, 4 * N).view(np.float32).copy()


def parts_of(rng: np.random.Generator, n: int) -> list[Numbers]:
    return [rng.standard_normal(N).astype(np.float32) for _ in range(n)]


@pytest.mark.parametrize("name", ["cuda", "hip"])
@pytest.mark.parametrize("n", [2, 3])
def test_the_same_bits_on_all_cards(name: str, n: int, driver: Stub, rng: np.random.Generator
                                    ) -> None:
    """In the order of the calls, and without the host waiting."""
    cards, steps = Cards(backend(name, adds=True), n), [parts_of(rng, n) for _ in range(4)]
    found = []
    for parts in steps:
        cards.write(parts)
        waits = [cards.cards.fetch(b, 4 * N, 4 * N) for b in cards.buffers]
        before = [driver.count(f) for f in ("cuEventSynchronize", "cuStreamSynchronize", "sums")]
        cards.add()
        cards.write(parts_of(rng, n))  # what is written later isn't added
        after = [driver.count(f) for f in ("cuEventSynchronize", "cuStreamSynchronize", "sums")]
        assert after == before
        found.append([w().view(np.float32) for w in waits])
    found.append([cards.total(i) for i in range(n)])
    for parts, totals in zip(steps, found[1:], strict=True):
        for total in totals:
            np.testing.assert_array_equal(total, totals[0])
        bound = n * 2.0 ** -24 * np.abs(parts).sum(0)
        assert (np.abs(totals[0] - np.sum(parts, 0, dtype=np.float64)) <= bound).all()
    assert driver.count("sums") == len(steps)


@pytest.mark.parametrize("misses", ["begin", "end"])
def test_sums_that_do_not_wait(misses: str, driver: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their order with what else uses the memory is missed, even where it is right by chance."""
    cards = Cards(backend("cuda", adds=True), 2)
    zeros = [np.zeros(N, np.float32)] * 2
    cards.write(zeros)
    if misses == "begin":
        monkeypatch.setattr(Memory, "begin", lambda self, stream: None)
    cards.add()
    if misses == "end":
        monkeypatch.setattr(Memory, "begin", lambda self, stream: None)
        cards.write(zeros)
    with pytest.raises(AssertionError, match=r"a sum over cards \(.*, and nothing orders the two"):
        driver.check()
    driver.reset(runs=False)


def test_plans_share_a_group_which_is_given_back(driver: Stub) -> None:
    cards = Cards(backend("cuda", adds=True), 3)
    assert cards.cards.collective(cards.devices) is cards.group
    assert driver.count("ncclCommInitAll") == 1
    cards.add()
    del cards
    gc.collect()
    assert driver.count("ncclCommDestroy") == 3 and not driver.count("ncclCommAbort")


@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize(("name", "n"), [("cuda", 2), ("cuda", 3), ("hip", 2)])
def test_f32_token_for_token(name: str, n: int, adds: bool, shared: Path,
                             monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of the reference; the same bits in every run; no copies for sums by the library."""
    monkeypatch.setenv(*FIXED)
    path = shared / "models/stories260K-f32.gguf"
    cases = json.loads((shared / "models/refs/stories260K-f32.json").read_text())["cases"]
    with installed(name, adds=adds, n_cards=n) as driver, Model(
            path, devices=[f"{name}:{i}" for i in range(n)], split_mode="tensor", kv_type="f32",
            context_size=256) as model:
        blueprint = model.engine.plan.blueprint
        assert len(blueprint.all_reduces) == 2 * len(blueprint.layers)
        assert f"all-reduce by {'NCCL 2.27.3' if name == 'cuda' else 'RCCL 2.27.3'}" * adds in (
            model.placement())
        for case in islice(cases, 1):
            result = model.generate(case["prompt"], temperature=0.0, max_tokens=6)
            assert result.tokens == case["tokens"][:6]
        tokens = model.tokenize(cases[0]["prompt"])
        driver.forget()
        logits = model.logits(tokens)
        assert driver.count("sums") == len(blueprint.all_reduces) * adds
        # The embeddings and the rotations go to each card, and the logits to one.
        n_copies = n * (n - 1) * len(blueprint.all_reduces) * (not adds)
        assert driver.count("cuMemcpyPeerAsync") == n_copies + 3 * (n - 1)
        np.testing.assert_array_equal(model.logits(tokens), logits)
    with Model(path, devices=["reference:0"], kv_type="f32", context_size=256) as whole:
        expected = whole.logits(tokens)
    assert np.abs(logits - expected).max() <= 300 * 2.0 ** -24 * np.abs(expected).max()


def chosen(n_devices: int, n_cards: int = 3, name: str = "cuda", **changed: Any) -> str:
    stub().set("devices", n_cards)
    cards = backend(name, **{"adds": True} | changed)
    devices = [cards.open(f"{name}:{i}", BackendOptions()) for i in range(n_devices)]
    return cards.adds_with(devices)


def test_where_the_library_adds(driver: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over different cards, where every run adds in the same order."""
    assert chosen(2) == chosen(3) == "NCCL 2.27.3" and chosen(2, name="hip") == "RCCL 2.27.3"
    assert chosen(1) == chosen(2, n_cards=1) == chosen(3, n_cards=2) == chosen(2, adds=False) == ""
    monkeypatch.setenv("UNLADEN_NO_NCCL", "1")
    assert chosen(2) == chosen(2, name="hip") == ""
    monkeypatch.setenv("UNLADEN_NO_NCCL", "0")
    monkeypatch.delenv(FIXED[0])  # a switch of these chips may add in another order in every run
    assert chosen(3) == "" and chosen(2) and chosen(3, name="hip")
    driver.set("chip", 80)
    assert chosen(3) == "NCCL 2.27.3"


@pytest.mark.parametrize(("code", "version"), [(2804, "2.8.4"), (20903, "2.9.3"), (23203, "2.32.3"),
                                               (2307, ""), (30100, "")])
def test_versions(code: int, version: str, driver: Stub) -> None:
    driver.set("nccl version", code)
    assert chosen(2) == (version and f"NCCL {version}")


def test_what_doctor_says(driver: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    cards = backend("cuda", adds=True)
    assert cards.libraries() == {"NCCL": f"2.27.3 ({driver.path})"}
    missing = backend("cuda").libraries()["NCCL"]
    assert missing.startswith("not found (libnone.so)") and "nvidia-nccl-cu12" in missing
    monkeypatch.setenv("UNLADEN_NO_NCCL", "1")
    assert cards.libraries() == {"NCCL": "turned off by UNLADEN_NO_NCCL"}
    monkeypatch.delenv("UNLADEN_NO_NCCL")
    driver.set("nccl version", 2307)
    assert backend("cuda", adds=True).libraries()["NCCL"].startswith("2.3.7")
    for n in (0, 1):  # one card has nobody to add with
        driver.set("devices", n)
        assert backend("cuda", adds=True).libraries() == {}


def test_a_card_that_is_lost_meanwhile(driver: Stub, rng: np.random.Generator) -> None:
    """The other cards would wait for it for ever: the host notices, and they go on."""
    cards = Cards(backend("cuda", adds=True), 3)
    parts = parts_of(rng, 3)
    cards.write(parts)
    cards.add()
    driver.lose(1)
    with pytest.raises(DeviceLost, match=r"cuda:0, cuda:1, cuda:2: .*LAUNCH_FAILED \(719\)"):
        cards.total(0)
    assert driver.count("ncclCommAbort") == 3
    kept = cards.cards.read(cards.buffers[0], 4 * N).view(np.float32)
    np.testing.assert_array_equal(kept, parts[0])
    assert not cards.cards.gpu("cuda:0").is_lost and cards.cards.gpu("cuda:1").is_lost
    with pytest.raises(UnladenError):
        cards.add()
    again = Cards(cards.cards, 3)  # opens the lost card again
    again.write(parts)
    again.add()
    np.testing.assert_array_equal(again.total(1), again.total(2))
    assert np.abs(again.total(1)).max() > 0


def test_the_lost_card_is_the_one_that_is_waited_for(driver: Stub, rng: np.random.Generator
                                                     ) -> None:
    """Nobody asks the other cards, which would wait for it in their kernels."""
    cards = Cards(backend("cuda", adds=True), 3)
    parts = parts_of(rng, 3)
    cards.write(parts)
    cards.add()
    fetch = cards.cards.fetch(cards.buffers[1], 4 * N, 4 * N)
    driver.lose(0)
    with pytest.raises(DeviceLost, match=r"LAUNCH_FAILED \(719\)"):
        cards.total(0)
    assert driver.count("ncclCommAbort") == 3
    with pytest.raises(DeviceLost, match=r"cuda:0, cuda:1, cuda:2: .* \(719\)"):
        fetch()  # what the other cards have is no sum
    kept = cards.cards.read(cards.buffers[1], 4 * N).view(np.float32)
    np.testing.assert_array_equal(kept, parts[1])
    with pytest.raises(DeviceLost):
        cards.add()
    assert driver.count("ncclCommInitAll") == 1


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("way", ["freed", "group", "exit"])
def test_a_lost_card_that_nobody_noticed(driver: Stub, lost: int, way: str) -> None:
    """What is freed, or waited for when the process ends, waits no longer than it must. What is on
    the other card is freed there."""
    cards = Cards(backend("cuda", adds=True), 2)
    cards.add()
    driver.lose(lost)
    if way == "exit":
        opened.settle()
    if way == "group":
        cards.group = None  # type: ignore[assignment]
    used = driver.used_bytes(1 - lost)
    cards.buffers.clear()
    gc.collect()
    assert driver.used_bytes(1 - lost) < used
    assert driver.count("ncclCommAbort") == 2
    assert not cards.cards.gpu(f"cuda:{1 - lost}").is_lost
    del cards
    gc.collect()
    assert driver.count("ncclCommAbort") == 2 and not driver.count("ncclCommDestroy")


def test_a_card_that_is_lost_while_a_sum_is_started(driver: Stub, monkeypatch: pytest.MonkeyPatch
                                                    ) -> None:
    """Another thread notices it. The thread that starts the sum aborts it."""
    cards = Cards(backend("cuda", adds=True), 2)
    group, context = cards.group, cards.cards.gpu("cuda:1").context
    assert isinstance(group, collective.CardGroup)
    end = group.library.functions["end"]

    def end_late() -> int:
        thread = threading.Thread(target=context.lose, args=("it fell off the bus",))
        thread.start()
        thread.join()
        assert not driver.count("ncclCommAbort")
        return end()

    monkeypatch.setitem(group.library.functions, "end", end_late)
    with pytest.raises(DeviceLost, match="it fell off the bus"):
        cards.add()
    assert driver.count("ncclCommAbort") == 2


@pytest.mark.parametrize(("function", "error"), [("ncclAllReduce", 5), ("ncclGroupEnd", 1),
                                                 ("ncclGroupStart", 3)])
def test_an_error_ends_the_step_alone(function: str, error: int, driver: Stub,
                                      rng: np.random.Generator) -> None:
    cards = Cards(backend("cuda", adds=True), 2)
    driver.fail(function, error)
    with pytest.raises(UnladenError, match=rf"cuda:0, cuda:1: nccl\w+ failed: .* \({error}\)"
                       ) as raised:
        cards.add()
    assert "UNLADEN_NO_NCCL=1" in raised.value.hint
    assert driver.count("ncclCommAbort") == 2 and not driver.count("sums")
    parts = parts_of(rng, 2)
    cards.write(parts)
    cards.add()
    np.testing.assert_array_equal(cards.total(1), parts[0] + parts[1])
    assert driver.count("ncclCommInitAll") == 2


def test_an_error_that_comes_later(driver: Stub, rng: np.random.Generator) -> None:
    cards = Cards(backend("cuda", adds=True), 2)
    cards.add()
    driver.set("nccl error", 2)
    with pytest.raises(UnladenError, match=r"ncclAllReduce failed: .* \(2\)"):
        cards.total(1)
    assert driver.count("ncclCommAbort") == 2
    driver.set("nccl error", 0)
    parts = parts_of(rng, 2)
    cards.write(parts)
    cards.add()
    np.testing.assert_array_equal(cards.total(0), parts[0] + parts[1])


def test_cards_that_do_not_connect(driver: Stub) -> None:
    driver.fail("ncclCommInitAll", 1)
    with pytest.raises(UnladenError, match=r"ncclCommInitAll failed: unhandled cuda error \(1\)"):
        Cards(backend("cuda", adds=True), 2)


@pytest.mark.parametrize("function", ["ncclAllReduce", "ncclGroupEnd"])
def test_a_step_that_fails(function: str, make_model: Callable[..., Path]) -> None:
    """The next one begins as if nothing had happened."""
    path = make_model("llama", n_embd=64, n_heads=4, n_kv_heads=2)
    with installed("cuda", runs=False, adds=True, n_cards=2) as driver, Model(
            path, devices=["cuda:0", "cuda:1"], split_mode="tensor") as model:
        plan = model.engine.plan
        fill(plan, [3], 4, table=(1, 2))
        plan.run()
        driver.fail(function, 5)
        with pytest.raises(UnladenError, match=r"\(5\)"):
            plan.run()
        driver.forget()
        for _ in range(3):
            plan.run()
            plan.output("logits")
        assert driver.count("sums") == 3 * len(plan.blueprint.all_reduces) > 0


TYPES = {c_int: ("int", "ncclDataType_t", "ncclRedOp_t"), c_void_p: ("ncclComm_t", "cudaStream_t"),
         c_uint64: ("const void*", "void*", "size_t"),  # c_size_t is the same type
         POINTER(c_int): ("int*", "const int*", "ncclResult_t*"),
         POINTER(c_void_p): ("ncclComm_t*",)}
"""How this package passes a type of the header."""


def header() -> str:
    """nccl.h of the package from PyPI or of the system."""
    try:
        spec = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        spec = None
    folders = [*((spec and spec.submodule_search_locations) or ())]
    paths = [Path(f, "include/nccl.h") for f in folders] + [Path("/usr/include/nccl.h")]
    found = next((p for p in paths if p.exists()), None)
    if found is None:
        pytest.skip("nccl.h isn't here: pip install nvidia-nccl-cu12 brings it")
    return found.read_text()


def test_the_header_has_what_is_called() -> None:
    text = header()
    for name, (symbol, types) in COLLECTIVES.items():
        declared = re.search(rf"ncclResult_t\s+{symbol}\(([^)]*)\);", text)
        assert declared, symbol
        words = [w.strip() for w in declared[1].split(",")]
        known = [re.sub(r"\s*(\*?)\s*\w+$", r"\1", w) for w in words if w not in ("", "void")]
        assert len(known) == len(types), (name, known)
        assert all(w in TYPES[t] for w, t in zip(known, types, strict=True)), (name, known)
    for symbol, number in (("ncclFloat32", collective.FLOAT32), ("ncclSum", collective.SUM),
                           ("ncclSuccess", 0)):
        assert re.search(rf"\b{symbol}\s*=\s*{number}\b", text), symbol
    assert re.search(r"const char\*\s+ncclGetErrorString\(ncclResult_t \w+\);", text)
    major, minor, patch = (int(m[1]) for word in ("MAJOR", "MINOR", "PATCH")
                           if (m := re.search(rf"#define NCCL_{word} (\d+)", text)))
    assert f"#define NCCL_VERSION_CODE {major * 10000 + minor * 100 + patch}" in text
