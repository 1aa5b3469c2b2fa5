"""Measures the host's time for a decode step on a GPU, and how much of it overlaps the device's.

    python benchmarks/gpu_step.py MODEL.gguf [DEVICE [STEPS]]

First it times the plan alone: uploading, encoding and submitting a decode step while the device is
idle. Then it times whole greedy steps of one sequence through the engine: reserving blocks, filling
in the inputs, submitting, reading the token, and making its text. At first each step waits for the
one before, as it must where the host chooses the tokens; then steps start before the token of the
step before is read. Time that a driver waits inside its own calls counts as the host's.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from unladen import Model
from unladen.backends import backend_of
from unladen.engine import Request
from unladen.engine.batcher import Work, fill
from unladen.engine.running import Running
from unladen.sample import SamplerChain
from unladen.tokenizer import StreamDecoder

N_STEPS, N_WARM = 30, 3


def main() -> None:
    name = sys.argv[2] if len(sys.argv) > 2 else "wgpu:0"
    n_steps = int(sys.argv[3]) if len(sys.argv) > 3 else N_STEPS
    with Model(sys.argv[1], devices=[name], context_size=256) as model:
        if not model.engine.plan.runs_ahead:
            sys.exit(f"{name} runs no step ahead")
        wall, cpu = submitting(model, n_steps)
        print(f"{name}: {wall:.2f} ms to submit a step, of which {cpu:.2f} is the thread's own; "
              f"medians of {n_steps}")
        alone, host, _ = measure(model, n_steps, runs_ahead=False)
        ahead, ahead_host, wait = measure(model, n_steps, runs_ahead=True)
    print(f"{name}, medians of {n_steps} steps in ms")
    print(f"one by one: {alone:.2f} a step, of which {host:.2f} on the host, the device idle")
    print(f"run ahead:  {ahead:.2f} a step, of which {ahead_host:.2f} on the host; then it waits "
          f"{wait:.2f} for the device")
    print(f"hidden: {alone - ahead:.2f} of {host:.2f}")


def submitting(model: Model, n_steps: int) -> tuple[float, float]:
    """Medians of the milliseconds until the plan has submitted a step to an idle device, and of the
    calling thread's own time in these, without waits."""
    engine = model.engine
    plan = engine.plan
    (device,) = plan.blueprint.devices
    sequence, times, own = engine.sequence(), list[float](), list[float]()
    request = Request([1], sampler=SamplerChain().build(), decoder=StreamDecoder(model.tokenizer))
    running = Running(request, sequence)
    for n in range(n_steps + N_WARM):
        assert sequence.reserve(n + 1)
        fill(plan.batch, [Work(running, 1, 1)])
        start, start_own = time.perf_counter(), time.thread_time()
        plan.run()
        own.append(1e3 * (time.thread_time() - start_own))
        times.append(1e3 * (time.perf_counter() - start))
        backend_of(device.name).sync(device)
        sequence.commit(request.tokens, n + 1)
        request.tokens.append(1)
    sequence.release()
    return statistics.median(times[N_WARM:]), statistics.median(own[N_WARM:])


def measure(model: Model, n_steps: int, *, runs_ahead: bool) -> tuple[float, float, float]:
    """The medians in milliseconds of a step, of the host's part, and of its wait for the device."""
    engine, waits = model.engine, Waits(model.engine.plan.fetch)
    request = Request([1], sampler=SamplerChain().greedy().build(), max_tokens=n_steps + N_WARM + 1,
                      decoder=StreamDecoder(model.tokenizer))
    plan: Any = engine.plan
    plan.runs_ahead, plan.fetch = runs_ahead, waits.fetch
    engine.submit(request)
    steps, waited = [], []
    for _ in range(n_steps + N_WARM):
        waits.seconds, start = 0.0, time.perf_counter()
        engine.step()
        steps.append(1e3 * (time.perf_counter() - start))
        waited.append(1e3 * waits.seconds)
    engine.cancel(request)
    plan.fetch = waits.plan_fetch
    host = [step - wait for step, wait in zip(steps, waited, strict=True)]
    median = statistics.median
    return median(steps[N_WARM:]), median(host[N_WARM:]), median(waited[N_WARM:])


class Waits:
    """Measures the time spent in waiting for fetched outputs."""

    def __init__(self, plan_fetch: Callable[[str], Callable[[], Any]]) -> None:
        self.plan_fetch = plan_fetch
        self.seconds = 0.0

    def fetch(self, name: str) -> Callable[[], Any]:
        wait = self.plan_fetch(name)

        def timed() -> Any:
            start = time.perf_counter()
            result = wait()
            self.seconds += time.perf_counter() - start
            return result
        return timed


if __name__ == "__main__":
    main()
