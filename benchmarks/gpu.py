"""Measures a GPU through any backend: its limits, models' speed beside these, the host's cost.

    python benchmarks/gpu.py DEVICE MODEL.gguf[:TESTS] ... [--peak TFLOPS] [--out FOLDER]
    python benchmarks/gpu.py cuda:0 8b-q4_k_m.gguf 8b-f16.gguf moe.gguf:tg64,tg32x8 --peak 989

DEVICE is any device of a GPU backend: cuda:0, hip:0, opencl:0, wgpu:0. First come the bandwidth of
a copy and the speed of a large product. Then each model runs its tests: generation of one sequence,
prompts, generation of 8 and of 64 sequences at a depth. Each test has its share of a limit: for
generation the bytes that a step reads, over what a copy moves in the same time; for prompts the
operations, over those of the product. The product runs on unladen's own kernels, so this share says
what a model loses beside one product, not what the card could do. ``--peak`` takes the maker's
figure for the card, in 10^12 operations per second (dense, bfloat16), and adds a column with the
share of that. Last comes what a decode step costs the host: the time until the step is submitted,
the calling thread's part of it, and the number of dispatches.

The result is a JSON file in ``--out``, by default benchmarks/results/, from which
tools/gen_history.py makes the history in the docs. It is written after the limits and after each
model, so that a run that is ended keeps what it has. A model or test that fails is a row with its
error, the others go on, and the exit code is 1. For a driver that computes on the processor nothing
is written unless ``--out`` names a folder, since its figures say nothing about a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
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
from unladen.backends._gpu.backend import GpuBackend
from unladen.backends.base import full_name
from unladen.errors import UnladenError
from unladen.measure import speed

RESULTS = Path(__file__).with_name("results")
TESTS = "tg64,pp512,pp2048,tg32x8@d512,tg32x64@d512"
PRODUCTS = ("F16", "Q8_0")
"""Formats of the large product. Others are unpacked to one of these forms."""
LEAST_ROWS = 2048
"""The fewest rows of the large product: fewer don't fill a large card."""
COLUMNS = {"model": "file", "test": "test", "rate": "tokens/s",
           "limit": "of the copy or product, %", "peak": "of the peak, %", "value": "measured",
           "unit": "unit", "error": "error"}
N_HOST = 30
"""Decode steps whose cost on the host is measured."""

Wish = tuple[Path, list[programs.Test]]
"""A model and its tests."""
Row = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Measure what the command line asks for and print it. The exit code is 1 where something
    failed, and 2 where nothing was begun."""
    options = _options(arguments)
    try:
        wishes = [_wish(name, options.tests) for name in options.models]
        device, hold = _opened(options.device)
    except UnladenError as error:
        print(f"error: {error.message}", *([f"hint: {error.hint}"] if error.hint else []), sep="\n",
              file=sys.stderr)
        return 2
    start, record = time.perf_counter(), Record(device, options)
    try:
        record.add(_limits(device, record, options))
        for wish in wishes:
            record.add(_model(wish, device, record, options))
    finally:
        hold.release()
    print(f"{time.perf_counter() - start:.0f} s; " + (
        f"written to {record.path}" if record.path else "nothing is written (see --out)"))
    return int(any("error" in row for row in record.rows))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", help="cuda:0, hip:0, opencl:0, wgpu:0, ...")
    parser.add_argument("models", nargs="*", help="MODEL.gguf, or MODEL.gguf:tg64,pp512")
    parser.add_argument("--tests", default=TESTS, help=f"tests of each model; default {TESTS}")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each test")
    parser.add_argument("--batch-size", type=int, default=512, help="tokens in a step")
    parser.add_argument("--product", type=int, default=8192,
                        help="rows and columns of the large product's matrix")
    parser.add_argument("--peak", type=float, default=0.0, metavar="TFLOPS",
                        help="the card's peak in 10^12 operations per second, by its maker")
    parser.add_argument("--out", type=Path, help="the folder for the result")
    return parser.parse_args(arguments)


def _wish(name: str, tests: str) -> Wish:
    """The model and the tests that ``name`` asks for; raises :class:`UnladenError`."""
    path, _, own = name.partition(":")
    if not Path(path).is_file():
        raise UnladenError(f"{path!r} is no file", hint="give the path of a .gguf file")
    try:
        return Path(path), [programs.Test.named(each) for each in (own or tests).split(",")]
    except ValueError as error:
        raise UnladenError(str(error), hint="separate tests by commas, without spaces") from None


def _opened(name: str) -> tuple[Device, Hold]:
    """The GPU called ``name``, and a hold on it; raises :class:`UnladenError`."""
    name, chosen = full_name(name), BackendOptions()
    backend = backend_of(name)
    if not isinstance(backend, GpuBackend):
        raise UnladenError(f"{name} is no device of a GPU backend",
                           hint="name one that unladen doctor lists for cuda, hip, metal, opencl, "
                                "sycl or wgpu; unladen bench measures the others")
    device = backend.open(name, chosen)
    return device, Hold([device], chosen)


class Record:
    """What was measured so far: rows, which are printed and written as they come, and the limits
    of the device. ``peak``: operations per second by the maker, 0 if unknown."""

    def __init__(self, device: Device, options: argparse.Namespace) -> None:
        self.rows: list[Row] = []
        self.bytes_s = self.flops = 0.0
        self.peak = 1e12 * options.peak
        self.path: Path | None = None
        self._folder = options.out or (None if device.is_software else RESULTS)
        self._data = {
            "schema": 1, "title": f"a GPU through {device.name.partition(':')[0]}",
            "date": datetime.date.today().isoformat(), "machine": device.description,
            "program": "gpu.py", "columns": COLUMNS, "rows": self.rows, "notes": [
                f"unladen {unladen.__version__}; steps of {options.batch_size} tokens at most; "
                f"features in use: {_features(device)}.",
                *([f"Peak: {options.peak:g} TFLOP/s, as given."] if options.peak else [])]}

    def add(self, rows: Iterator[Row]) -> None:
        """Print ``rows`` as they come, and write all rows after the last one."""
        try:
            for row in rows:
                self.rows.append(row)
                print(" | ".join(f"{row[key]}" for key in COLUMNS if key in row), flush=True)
        finally:
            if self._folder is not None:
                self.path = report.save(self._folder, self._data, self.path)

    def of_peak(self, flops: float) -> Row:
        """The share of the peak, in percent: nothing where that isn't known."""
        return {"peak": round(100 * flops / self.peak, 1)} if self.peak else {}


def _limits(device: Device, record: Record, options: argparse.Namespace) -> Iterator[Row]:
    """A row for each limit, which ``record`` remembers."""
    try:
        record.bytes_s = gpu_limits.copy_rate(device) or 0.0
    except UnladenError as error:
        yield _failed("", "copy, read and written", error)
    if record.bytes_s:
        yield {"model": "", "test": "copy, read and written",
               "value": round(record.bytes_s / 1e9, 3), "unit": "GB/s"}
    n, n_rows = options.product, max(LEAST_ROWS, options.batch_size)
    for quant in PRODUCTS:
        try:
            used, flops = gpu_limits.product_rate(device, quant, n, n_rows)
        except UnladenError as error:
            yield _failed("", f"{quant} product", error)
            continue
        record.flops = max(record.flops, flops)
        yield {"model": "", "test": f"{used} product, {n} x {n} by {n_rows} rows",
               "value": round(flops / 1e12, 3), "unit": "TFLOP/s", **record.of_peak(flops)}


def _model(wish: Wish, device: Device, record: Record, options: argparse.Namespace
           ) -> Iterator[Row]:
    """A row for each test of the model, and rows for the host's cost."""
    path, tests = wish
    timed = [speed.Test(t.n_prompt, t.n_gen, t.n_depth, t.n_seqs) for t in tests]
    try:
        work = Work.of(path)
        loaded = Model(path, devices=[device.name], n_gpu_layers="all", strict=True,
                       max_seqs=max(t.n_seqs for t in timed), batch_size=options.batch_size,
                       context_size=max(256, *(t.context for t in timed)))
    except UnladenError as error:
        yield _failed(path.stem, "loading", error)
        return
    with loaded:
        for test, each in zip(tests, timed, strict=True):
            try:
                result = speed.measure(loaded, each, options.repeat)
            except UnladenError as error:
                yield _failed(path.stem, test.name, error)
                continue
            rate = statistics.median(result.samples_ts)
            yield {"model": path.stem, "test": test.name, "rate": round(rate, 2),
                   **_share(test, rate, work, record), "samples": result.samples_ts}
        try:
            yield from _host(loaded, path.stem)
        except UnladenError as error:
            yield _failed(path.stem, "host", error)


def _host(model: Model, name: str) -> Iterator[Row]:
    """Rows for what a decode step costs the host."""
    wall, cpu = submitting(model, N_HOST)
    for value, what in ((wall, "until a step is submitted"), (cpu, "of the calling thread")):
        yield {"model": name, "test": f"host, {what}", "value": round(value, 3),
               "unit": "ms a step"}
    yield {"model": name, "test": "dispatches", "value": _dispatches(model), "unit": "a step"}


def _failed(model: str, test: str, error: UnladenError) -> Row:
    return {"model": model, "test": test, "error": str(error)}


def _share(test: programs.Test, rate: float, work: Work, record: Record) -> Row:
    """The shares of the limit and of the peak, in percent: nothing where these aren't known."""
    if test.n_gen:
        if not record.bytes_s:
            return {}
        return {"limit": round(100 * work.bytes_per_step(test) * rate / test.n_seqs
                               / record.bytes_s, 1)}
    flops = 2 * work.macs_per_token(test) * rate
    limit = {"limit": round(100 * flops / record.flops, 1)} if record.flops else {}
    return limit | record.of_peak(flops)


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
    sys.exit(main(sys.argv[1:]))
