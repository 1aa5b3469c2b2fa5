"""Measures a GPU through any backend: its limits, models' speed beside these, the host's cost.

    python benchmarks/gpu.py DEVICE MODEL.gguf[:TESTS] ... [--out FOLDER]
    python benchmarks/gpu.py cuda:0 8b-q4_k_m.gguf 8b-f16.gguf moe.gguf:tg64,tg32x8

DEVICE is any device of a GPU backend: cuda:0, hip:0, opencl:0, wgpu:0. First come the bandwidth of
a copy and the speed of a large product. Then each model runs its tests: generation of one sequence,
prompts, generation of 8 and of 64 sequences. Each test has its share of a limit: for generation the
bytes that a step reads, over what a copy moves in the same time; for prompts the operations, over
those of the product. Last comes what a decode step costs the host: the time until the step is
submitted, the calling thread's part of it, and the number of dispatches.

The result is a JSON file in ``--out``, by default benchmarks/results/, from which
tools/gen_history.py makes the history in the docs. For a driver that computes on the processor
nothing is written unless ``--out`` names a folder, since its figures say nothing about a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gpu_limits
import programs
import report
from gpu_step import submitting
from work import Work

import unladen
from unladen import Model
from unladen.backends import BackendOptions, Device, Hold, backend_of
from unladen.measure import speed

RESULTS = Path(__file__).with_name("results")
TESTS = "tg64,pp512,pp2048,tg32x8,tg32x64"
PRODUCTS = ("F16", "Q8_0")
"""Formats of the large product. Others are unpacked to one of these forms."""
COLUMNS = {"model": "file", "test": "test", "rate": "tokens/s", "limit": "of the limit, %",
           "value": "measured", "unit": "unit"}
N_HOST = 30
"""Decode steps whose cost on the host is measured."""


def main(arguments: Sequence[str]) -> Path | None:
    """Measure what the command line asks for, print it, and return the file that was written."""
    options = _options(arguments)
    backend, chosen = backend_of(options.device), BackendOptions()
    device = backend.open(options.device, chosen)
    hold = Hold([device], chosen)
    try:
        limits = _limits(device, options.product)
        rows = [*limits.rows]
        for name in options.models:
            path, _, tests = name.partition(":")
            rows += _model(Path(path), device, (tests or options.tests).split(","),
                           limits, options.repeat)
    finally:
        hold.release()
    data = {"schema": 1, "title": f"a GPU through {backend.name}",
            "date": datetime.date.today().isoformat(), "machine": device.description,
            "program": "gpu.py", "columns": COLUMNS, "rows": rows,
            "notes": [f"unladen {unladen.__version__}; features in use: {_features(device)}."]}
    for row in rows:
        print(" | ".join(f"{row[key]}" for key in COLUMNS if key in row))
    folder = options.out or (None if "software" in device.description else RESULTS)
    return None if folder is None else report.save(folder, data)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", help="cuda:0, hip:0, opencl:0, wgpu:0, ...")
    parser.add_argument("models", nargs="*", help="MODEL.gguf, or MODEL.gguf:tg64,pp512")
    parser.add_argument("--tests", default=TESTS, help=f"tests of each model; default {TESTS}")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each test")
    parser.add_argument("--product", type=int, default=8192,
                        help="rows and columns of the large product's matrix")
    parser.add_argument("--out", type=Path, help="the folder for the result")
    return parser.parse_args(arguments)


class _Limits:
    """What the device can do, and the rows that say so."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.bytes_s = self.flops = 0.0

    def add(self, test: str, value: float, unit: str) -> None:
        self.rows.append({"model": "", "test": test, "value": round(value, 3), "unit": unit})


def _limits(device: Device, n: int) -> _Limits:
    found = _Limits()
    found.bytes_s = gpu_limits.copy_rate(device) or 0.0
    if found.bytes_s:
        found.add("copy, read and written", found.bytes_s / 1e9, "GB/s")
    for quant in PRODUCTS:
        used, flops = gpu_limits.product_rate(device, quant, n, 512)
        found.add(f"{used} product, {n} x {n} by 512 rows", flops / 1e12, "TFLOP/s")
        found.flops = max(found.flops, flops)
    return found


def _model(path: Path, device: Device, names: Sequence[str], limits: _Limits, n_repeat: int
           ) -> list[dict[str, Any]]:
    """A row for each test of the model, and rows for the host's cost."""
    tests = [programs.Test.named(name) for name in names]
    timed = [speed.Test(t.n_prompt, t.n_gen, t.n_depth, t.n_seqs) for t in tests]
    work, rows = Work.of(path), []
    with Model(path, devices=[device.name], n_gpu_layers="all", strict=True,
               max_seqs=max(t.n_seqs for t in timed),
               context_size=max(256, *(t.context for t in timed))) as model:
        for test, each in zip(tests, timed, strict=True):
            result = speed.measure(model, each, n_repeat)
            rate = statistics.median(result.samples_ts)
            rows.append({"model": path.stem, "test": test.name, "rate": round(rate, 2),
                         **_share(test, rate, work, limits), "samples": result.samples_ts})
        wall, cpu = submitting(model, N_HOST)
        for value, what in ((wall, "until a step is submitted"), (cpu, "of the calling thread")):
            rows.append({"model": path.stem, "test": f"host, {what}", "value": round(value, 3),
                         "unit": "ms a step"})
        rows.append({"model": path.stem, "test": "dispatches", "value": _dispatches(model),
                     "unit": "a step"})
    return rows


def _share(test: programs.Test, rate: float, work: Work, limits: _Limits) -> dict[str, float]:
    """The share of the limit, in percent: nothing where the limit isn't known."""
    if test.n_gen:
        if not limits.bytes_s:
            return {}
        return {"limit": round(100 * work.bytes_per_step(test) * rate / test.n_seqs
                               / limits.bytes_s, 1)}
    return {"limit": round(100 * 2 * work.macs_per_token(test) * rate / limits.flops, 1)}


def _dispatches(model: Model) -> int:
    """Dispatches of the decode step that ran last, in all segments."""
    found = 0
    plan: Any = model.engine.plan
    for _, program in plan._programs:
        _, size = program.step.pack()
        found += sum(d.grid(size) is not None for d in program.lowered.dispatches)
    return found


def _features(device: Device) -> str:
    return ", ".join(name for name, is_used in device.features if is_used) or "none"


if __name__ == "__main__":
    start = time.perf_counter()
    written = main(sys.argv[1:])
    print(f"{time.perf_counter() - start:.0f} s; "
          f"{f'written to {written}' if written else 'nothing is written (see --out)'}")
