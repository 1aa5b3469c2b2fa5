"""What a step costs the host: calls, counted, and time, printed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from cases import running
from cases.base import Maker
from stub_driver.stub import Stub, backend, installed
from tiny_plan import fill
from unladen import Model
from unladen.backends._gpu.cuda_like.program import CudaProgram
from unladen.backends._gpu.step import SPLITS
from unladen.errors import Cancelled

N_LAYERS = 16
"""As many as Llama 3.2 of 1B has; the host's share depends on no other size."""
N_STEPS = 200
BUDGET_S = 0.02
"""Far more than a step takes, for a busy machine; the figure itself is printed."""


@pytest.fixture(params=["cuda", "hip"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def driver(name: str) -> Iterator[Stub]:
    with installed(name, runs=False) as stub:
        yield stub


def test_one_launch_a_step(name: str, driver: Stub, make_model: Callable[..., Path]) -> None:
    path = make_model("llama", n_layers=N_LAYERS, n_heads=32, n_kv_heads=8, n_embd=2048 // 8,
                      quant="Q8_0", n_ctx=512)
    with Model(path, devices=[f"{name}:0"], context_size=512) as model:
        plan = model.engine.plan
        ((_, program),) = plan._programs
        assert isinstance(program, CudaProgram)
        fill(plan, [3], 40, table=(1, 2, 3))
        plan.run()
        driver.forget()
        start = time.perf_counter()
        for _ in range(N_STEPS):
            plan.run()
        seconds = (time.perf_counter() - start) / N_STEPS
        calls = {f: driver.count(f) / N_STEPS for f in (
            "cuGraphLaunch", "cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuStreamBeginCapture_v2")}
        start = time.perf_counter()
        for _ in range(N_STEPS):
            program.run()
        alone = (time.perf_counter() - start) / N_STEPS
        n_kernels = len(program._launches(program.step.pack()[1]))
    print(f"{name}: {n_kernels} kernels a step, 1 launch; host {seconds * 1e6:.0f} us a step, "
          f"{alone * 1e6:.0f} us of it in the backend")
    assert calls == {"cuGraphLaunch": 1, "cuLaunchKernel": 0, "cuMemcpyHtoDAsync_v2": 1,
                     "cuStreamBeginCapture_v2": 0}
    assert n_kernels > 5 * N_LAYERS and seconds < BUDGET_S


def test_a_growing_text_is_recorded_few_times(name: str, driver: Stub,
                                              make_model: Callable[..., Path]) -> None:
    """Keys are shared by few numbers of workgroups, so that there are few graphs however long the
    text becomes."""
    path = make_model("llama", n_ctx=4096)
    with Model(path, devices=[f"{name}:0"], context_size=4096) as model:
        plan = model.engine.plan
        driver.forget()
        for position in range(0, 4000, 40):
            fill(plan, [3], position, table=(0,) * (4000 // 32 + 1))
            plan.run()
        assert driver.count("cuGraphLaunch") == 100
        assert driver.count("cuGraphInstantiateWithFlags") <= len(SPLITS) == 12


def test_a_prefill_is_cancelled_between_groups(driver: Stub, name: str,
                                               make_model: Callable[..., Path]) -> None:
    path = make_model("llama", n_layers=N_LAYERS)
    with Model(path, devices=[f"{name}:0"]) as model:
        plan = model.engine.plan
        ((_, program),) = plan._programs
        assert isinstance(program, CudaProgram)
        fill(plan, [3] * 20, 0, table=(1, 2))
        program.run()
        driver.forget()
        whole = len(program._launches(program.step.pack()[1]))
        start = program._start

        def cancelled(launches: object) -> object:
            threading.Thread(target=lambda: setattr(program, "cancelled", True)).run()
            return start(launches)  # type: ignore[arg-type]
        program._start = cancelled  # type: ignore[assignment, method-assign]
        with pytest.raises(Cancelled):
            program.run()
        assert 0 < driver.count("cuLaunchKernel") < whole
        program._start = start  # type: ignore[method-assign]
        program.run()


def test_threads_share_a_card(rng: np.random.Generator) -> None:
    """Two threads with a device each on one card, and garbage that is freed meanwhile."""
    with installed("cuda") as driver:
        driver.set("eager", 1)
        cards = backend("cuda")
        m = Maker(rng, 4)
        case = m.case("add", m.input("T", 16), m.input("T", 16))
        running.Bench(cards, case).run()  # compiled before

        def work(_: int) -> None:
            for _ in range(5):
                running.check(case, running.Bench(cards, case).run(), precise=True, what="add")
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(work, range(3)))
